-- wikid for Neovim 0.7 or later on Linux and macOS, one JSON message a line. Load it with :luafile, or require it.
--   :WikidRecall how do we roll back a deploy    memories in the quickfix list; none is a normal answer
--   :WikidShow folder/name                       a page; vault:folder/name where several vaults have it

local uv = vim.uv or vim.loop
-- `start`: a daemon where none runs and a call waits for one. `session`: who pages are shown to, this editor.
local M = { command = 'wikid', start = true, session = ('neovim:%d:%d'):format(uv.getpid(), uv.hrtime()) }

local RETRY_MS = 1000 -- between two looks for a daemon that went away, for whoever wants to be told of changes
local place, current, pipe, subscribed -- the socket's path; the connection, the same once it is made, and what it hears
local last_id, pending, handlers, generations = 0, {}, {}, {}
local connect -- defined below: what ends a connection looks for the next one

local function open()
  local found = vim.fn.executable(M.command) == 1
  place = place or found and vim.fn.systemlist({ M.command, 'get-socket' })[1] or vim.env.WIKID_SOCKET or ''
  if not current then connect(place, M.start and found) end
end

local function end_of(connection, why)
  if not connection:is_closing() then connection:close() end
  if connection ~= current then return end -- its end was told before
  local left = pending
  current, pipe, subscribed, pending = nil, nil, nil, {}
  for _, call in pairs(left) do call.callback({ message = why }, nil) end
  if next(handlers) then vim.defer_fn(open, RETRY_MS) end
end

local function send(message) -- a connection that is gone is told by reading from it
  pipe:write(vim.json.encode(vim.tbl_extend('error', message, { jsonrpc = '2.0' })) .. '\n')
end

local function subscribe()
  subscribed = true
  local params = { kinds = { 'index/changed', 'vault/state' }, since = next(generations) and generations or nil }
  M.request('subscribe', params, function(err, result)
    if not err then generations = vim.tbl_extend('keep', generations, result.generations) end
  end)
end

local function received(message)
  local call = pending[message.id or false]
  if message.method then -- a notification: the daemon never asks
    if message.params.generation then generations[message.params.vault_id] = message.params.generation end
    if handlers[message.method] then handlers[message.method](message.params) end
  elseif call then -- and not one that was cancelled
    pending[message.id] = nil
    call.callback(message.error, message.result)
  elseif message.error and not message.id then -- what was sent could not be read, and nobody knows which it was
    end_of(pipe, message.error.message)
  end
end

local function listen(connection)
  local rest = '' -- of a line whose end has not come: bytes, so that no character is cut in two
  connection:read_start(vim.schedule_wrap(function(err, data)
    if err or not data then return end_of(connection, 'the daemon closed the connection') end
    local lines = vim.split(rest .. data, '\n', { plain = true })
    rest = table.remove(lines)
    for _, line in ipairs(lines) do
      local ok, message = pcall(vim.json.decode, line, { luanil = { object = true } })
      if not ok then return end_of(connection, 'what answers there does not speak the protocol of wikid') end
      if connection == current then received(message) end
    end
  end))
end

function connect(path, may_start)
  local found, connection = uv.fs_stat(path), uv.new_pipe(false)
  current = connection
  if found and (found.type ~= 'socket' or found.uid ~= uv.getuid()) then
    return end_of(connection, path .. ' is no socket of yours: set WIKID_SOCKET to another place')
  end
  connection:connect(path, vim.schedule_wrap(function(err)
    if connection ~= current then return end -- closed meanwhile
    if not err then
      pipe = connection
      listen(connection)
      for _, call in pairs(pending) do send(call.message) end
      if next(handlers) and not subscribed then subscribe() end
    elseif may_start and next(pending) then
      connection:close() -- any number of programs may start a daemon at once: one comes up
      local function again() if connection == current then connect(path, false) end end
      vim.fn.jobstart({ M.command, 'start' }, { on_exit = again })
    else
      end_of(connection, 'no wikid daemon answers; start one with: wikid start')
    end
  end))
end

-- Makes a call. `callback(err, result)` comes once, with the protocol's error or its result. Returns the call's id.
function M.request(method, params, callback)
  last_id = last_id + 1
  local call = { message = { id = last_id, method = method, params = params or vim.empty_dict() }, callback = callback }
  pending[last_id] = call
  if pipe then send(call.message) else open() end
  return call.message.id
end

-- Ends a call; its callback never comes.
function M.cancel(id)
  if not pending[id] then return end
  if pipe then send({ method = '$/cancelRequest', params = { id = id } }) end
  pending[id] = nil
end

-- `handler(params)` is told of notifications of the `kind` index/changed or vault/state, past restarts of the daemon.
function M.on(kind, handler)
  handlers[kind] = handler
  if not subscribed then subscribe() end
end

local function tell(err)
  vim.notify(('wikid: %s. %s'):format(err.message, err.data and err.data.hint or ''), vim.log.levels.ERROR)
end

local function entry(item, bundle)
  local sign = item == bundle.card and '' or ('  (%s) '):format(item.relation or 'evidence')
  local said = ('%s%.0f%% %s: %s'):format(sign, item.score * 100, item.title, item.excerpt)
  return { filename = item.path, lnum = item.line, text = said:gsub('%s+', ' '), valid = not item.missing }
end

vim.api.nvim_create_user_command('WikidRecall', function(given)
  M.cancel(M.recalling)
  local params = { query = given.args, cwd = vim.fn.getcwd(), session = M.session }
  M.recalling = M.request('recall', params, function(err, answer)
    if err then return tell(err) end
    local found = {}
    for _, bundle in ipairs(answer.bundles) do
      local items = vim.list_extend(vim.list_extend({ bundle.card }, bundle.evidence), bundle.conflicts)
      vim.list_extend(found, vim.tbl_map(function(item) return entry(item, bundle) end, items))
    end
    vim.fn.setqflist({}, ' ', { title = 'wikid: ' .. given.args, items = found })
    if #found > 0 then vim.cmd('botright copen') else vim.notify('wikid: no reliable memory') end
  end)
end, { nargs = '+' })

vim.api.nvim_create_user_command('WikidShow', function(given)
  local vault, page = given.args:match('^([^:/]+):(.+)$')
  local params = { page_id = page or given.args, vault_id = vault, cwd = vim.fn.getcwd(), session = M.session }
  M.request('page/get', params, function(err, found)
    if err then return tell(err) end
    vim.cmd('new')
    vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.split(found.text, '\r?\n'))
    vim.bo.buftype, vim.bo.bufhidden, vim.bo.filetype, vim.bo.modifiable = 'nofile', 'wipe', 'markdown', false
  end)
end, { nargs = 1 })

return M
