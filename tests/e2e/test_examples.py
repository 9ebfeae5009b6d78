"""The examples for editors and agents, each run by its own program against a real daemon, as a person tries them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from builders import HANG_GUARD_SECONDS, environment, page, until, write
from daemon_process import WIKID, DaemonProcess
from wikid_client.testing import FakeDaemon, Held, sample_recall
from wikid_daemon.vault.vault import init_vault

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")

EXAMPLES = Path(__file__).parents[2] / "client" / "examples"
LUA, HOOK = EXAMPLES / "neovim" / "wikid.lua", EXAMPLES / "agent" / "recall_hook.py"
NODE_CLIENT = EXAMPLES / "node" / "wikid.mjs"
NVIM, NODE = shutil.which("nvim"), shutil.which("node")

needs_nvim = pytest.mark.skipif(NVIM is None, reason="NOT TESTED: the example for Neovim, for there is no nvim here")
needs_node = pytest.mark.skipif(
    NODE is None or not (NODE_CLIENT.parent / "node_modules" / "vscode-jsonrpc").is_dir(),
    reason="NOT TESTED: the example for Node; it needs node, and: npm ci --prefix client/examples/node",
)

ANNA, BERT, LONG = "concepts/anna", "concepts/bert", "concepts/long"
DAWN = "The sluice will open at dawn, says Änna."
PROMPT = "when does the sluice open"
LONG_LINE = "Größe über dem Ufer 🎉 " * 20
LONG_TEXT = "\n".join([LONG_LINE] * 300) + "\n"  # several reads of a socket, cut anywhere


class World:
    """A daemon with one vault, and the programs that speak to it."""

    def __init__(self, daemon: DaemonProcess, root: Path) -> None:
        self.daemon = daemon
        self.root = root
        self.wiki = init_vault(root, "harbour", "personal") / ".llm-wiki" / "wiki"
        write(self.wiki, f"{ANNA}.md", page(DAWN, title="First report"))
        write(self.wiki, f"{BERT}.md", page("The sluice will open at noon, says Bert.", title="Other report"))
        write(self.wiki, f"{LONG}.md", page(LONG_TEXT.rstrip("\n"), title="A long page"))
        self.record = daemon.add(root, "harbour")

    def actions(self) -> Counter[tuple[str, str]]:
        found = self.daemon.client.event_list(vault="harbour", kinds=["recall_feedback"], limit=1_000).events
        return Counter((each.details["action"], each.details["page_id"]) for each in found)

    def hook(self, *, vault: str | None = None, **told: object) -> str:
        """What the hook prints. It never fails."""
        done = run_hook(self.daemon.env, json.dumps(told).encode(), self.root, vault=vault)
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout.decode()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("examples")
    with DaemonProcess(home / "home") as daemon:
        yield World(daemon, home / "vault")


def with_command(env: dict[str, str]) -> dict[str, str]:
    """The environment of somebody who has `wikid` on the path."""
    return {**env, "PATH": f"{WIKID.parent}{os.pathsep}{env['PATH']}"}


def env_of(fake: FakeDaemon, home: Path) -> dict[str, str]:
    return with_command({**environment(home), "WIKID_SOCKET": str(fake.endpoint)})


# -- Neovim ------------------------------------------------------------------------------------------------------------

LUA_WORDS = """
local wikid = dofile(vim.env.WIKID_LUA)
local function tell(value) io.stdout:write(vim.json.encode(value) .. '\\n') io.stdout:flush() end
local function wait(condition) assert(vim.wait(60000, condition, 5), 'what is waited for did not come') end
local function ask(method, params)
  local answer
  wikid.request(method, params, function(err, result) answer = { err = err, result = result } end)
  wait(function() return answer end)
  return answer
end
"""


class Neovim:
    """A headless Neovim that runs `script`; each value that the script tells is a line of JSON."""

    def __init__(self, script: str, env: dict[str, str], folder: Path, cwd: Path) -> None:
        assert NVIM is not None
        place = folder / "script.lua"
        place.write_text(f"{LUA_WORDS}{script}", encoding="utf-8")
        command = [NVIM, "--clean", "-u", "NONE", "--headless", "-c", f"luafile {place}", "-c", "qa!"]
        env = {**env, "WIKID_LUA": str(LUA), "TERM": "dumb"}
        self._process = subprocess.Popen(
            command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        with self._process:  # closes its pipes and waits
            self._process.kill()

    def told(self) -> Any:
        """The next value; what Neovim complained of where there is none."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(self._process.communicate(timeout=HANG_GUARD_SECONDS)[1].decode())
        return json.loads(line)

    def end(self) -> str:
        """Wait for the end of it, and return what it showed."""
        return self._process.communicate(timeout=HANG_GUARD_SECONDS)[1].decode()


@needs_nvim
def test_neovim_lists_memories_and_shows_pages(world: World, tmp_path: Path) -> None:
    script = f"""
    vim.cmd('WikidRecall {PROMPT}, says Änna')
    wait(function() return vim.fn.getqflist({{ title = 1 }}).title:match('^wikid: ') end)
    tell(vim.tbl_map(function(each) return {{ vim.api.nvim_buf_get_name(each.bufnr), each.lnum, each.text }} end,
      vim.fn.getqflist()))
    vim.cmd('WikidShow harbour:{LONG}')
    wait(function() return vim.bo.filetype == 'markdown' end)
    tell({{ vim.bo.modifiable, vim.api.nvim_buf_get_lines(0, 0, -1, false) }})
    local said
    vim.notify = function(text) said = text end
    vim.cmd('WikidShow concepts/nothing')
    wait(function() return said end)
    tell({{ said, ask('page/get', {{ page_id = 'nothing', vault_id = 'harbour' }}).err.data.kind }})
    """
    with Neovim(script, with_command(dict(world.daemon.env)), tmp_path, world.root) as editor:
        found = {Path(name).stem: (line, text) for name, line, text in editor.told()}
        assert {"anna", "bert"} <= set(found)
        line, text = found["anna"]
        assert (world.wiki / f"{ANNA}.md").read_text().splitlines()[line - 1] == DAWN
        assert f"% First report: {DAWN}" in text
        assert editor.told() == [False, LONG_TEXT.split("\n")]
        said, kind = editor.told()
        assert "wikid search" in said
        assert kind == "page_not_found"
        assert editor.end() == ""


@needs_nvim
def test_neovim_is_told_of_changes_past_a_lost_connection(tmp_path: Path) -> None:
    script = """
    wikid.on('index/changed', function(params) tell(params.generation) end)
    tell(ask('ping').result.protocol)
    wait(function() return vim.fn.filereadable('over') == 1 end)
    """
    counts = {"pages": 1, "chunks": 1, "embedded": 0, "pending": 0}
    with FakeDaemon() as fake, Neovim(script, env_of(fake, tmp_path), tmp_path, tmp_path) as editor:
        assert editor.told() == 1
        seen = None
        for generation in (8, 9, 10):
            _until_subscribed(fake, seen)
            changed = {"vault_id": "v", "generation": generation, "counts": counts}
            until(partial(fake.notify, "index/changed", changed), "the subscription")
            assert editor.told() == generation
            fake.drop()
            seen = {"v": generation}
        (tmp_path / "over").touch()
        assert editor.end() == ""


def _until_subscribed(fake: FakeDaemon, seen: dict[str, int] | None) -> None:
    """Until there is a subscription that goes on from the generations `seen`."""

    def told() -> bool:
        found = [params.get("since") for method, params in list(fake.calls) if method == "subscribe"]
        return found[-1:] == [seen]

    until(told, "the subscription")


@needs_nvim
def test_neovim_cancels_and_no_answer_comes(tmp_path: Path) -> None:
    script = """
    local id = wikid.request('recall', { query = 'never' }, function() tell('answered') end)
    ask('ping')
    wikid.cancel(id)
    ask('ping')
    tell('over')
    """
    held = Held(sample_recall())
    with FakeDaemon({"recall": held}) as fake, Neovim(script, env_of(fake, tmp_path), tmp_path, tmp_path) as editor:
        assert editor.told() == "over"
        assert isinstance(fake.until_called("$/cancelRequest")["id"], int)
        assert editor.end() == ""


# -- Node --------------------------------------------------------------------------------------------------------------


def run_node(env: dict[str, str], cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert NODE is not None
    command = [NODE, *arguments]
    return subprocess.run(
        command, env=with_command(env), cwd=cwd, capture_output=True, text=True, timeout=HANG_GUARD_SECONDS, check=False
    )


NODE_SCRIPT = f"""
import {{ connect }} from {json.dumps(NODE_CLIENT.as_uri())};
import rpc from 'vscode-jsonrpc/node';
const tell = (value) => console.log(JSON.stringify(value));
const wikid = await connect({{ name: 'test', session: 'node', start: false }});

const answer = await wikid.recall({json.dumps(PROMPT)}, {{ vault: 'harbour', mode: 'lexical' }});
tell(answer.bundles.flatMap(({{ card, evidence }}) => [card, ...evidence]).filter(Boolean).map((item) => item.page_id));
tell((await wikid.request('page/get', {{ page_id: {json.dumps(LONG)}, vault_id: 'harbour' }})).text);
tell((await wikid.request('page/get', {{ page_id: 'nothing' }}).catch((error) => error)).data.kind);

const told = new Promise((resolve) => wikid.on('index/changed', resolve, {{ vaults: ['harbour'] }}));
const steps = [];
const params = {{ vault: 'harbour', components: ['lexical'], force: true }};
await wikid.request('index/reindex', params, {{ onProgress: (step) => steps.push(step.kind) }});
tell([...new Set(steps)]);
tell(Object.keys(await told).includes('generation'));

const source = new rpc.CancellationTokenSource();
// one after another in the daemon, so that the last ones cannot be done when they are cancelled
const many = Array.from({{ length: 20 }}, () => wikid.request('index/reindex', params, {{ token: source.token }}));
source.cancel();
const last = (await Promise.allSettled(many)).at(-1);
tell([last.reason.code, last.reason.data.kind]);
tell((await wikid.request('ping')).protocol);
wikid.close();
"""


@needs_node
def test_node_speaks_all_of_the_protocol(world: World, tmp_path: Path) -> None:
    place = tmp_path / "script.mjs"
    place.write_text(NODE_SCRIPT, encoding="utf-8")
    # where a program finds its packages is where it lies
    (tmp_path / "node_modules").symlink_to(NODE_CLIENT.parent / "node_modules")
    done = run_node(dict(world.daemon.env), world.root, str(place))
    assert (done.returncode, done.stderr) == (0, "")
    pages, text, kind, steps, changed, cancelled, protocol = map(json.loads, done.stdout.splitlines())
    assert {ANNA, BERT} <= set(pages)
    assert text == LONG_TEXT
    assert kind == "page_not_found"
    assert (steps[0], steps[-1]) == ("begin", "end")
    assert set(steps[1:-1]) == {"report"}
    assert changed is True
    assert cancelled == [-32800, "cancelled"]
    assert protocol == 1


@needs_node
def test_node_prints_memories_and_what_to_do_about_an_error(world: World) -> None:
    env = dict(world.daemon.env)
    found = run_node(env, world.root, str(NODE_CLIENT), PROMPT)
    assert (found.returncode, found.stderr) == (0, "")
    assert "%  First report  " in found.stdout
    refused = run_node(env, world.root, str(NODE_CLIENT), "--call", "status", '{"vault": "nowhere"}')
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "hint: vaults: harbour" in refused.stderr


def test_the_lock_of_packages_names_no_host() -> None:
    lock = json.loads((NODE_CLIENT.parent / "package-lock.json").read_text())
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert all(each["integrity"].startswith("sha512-") for each in packages.values())
    assert "://" not in json.dumps(lock)


# -- no daemon yet -----------------------------------------------------------------------------------------------------


@needs_nvim
@needs_node
def test_editors_start_a_daemon_where_none_runs(tmp_path: Path) -> None:
    process = DaemonProcess(tmp_path / "home")
    try:
        script = "tell(ask('ping').result.pid)"
        with Neovim(script, with_command(dict(process.env)), tmp_path, tmp_path) as editor:
            pid = editor.told()
            assert editor.end() == ""
        done = run_node(dict(process.env), tmp_path, str(NODE_CLIENT), "--call", "ping")
        assert json.loads(done.stdout)["pid"] == pid
        assert process.wikid("stop").returncode == 0
        done = run_node(dict(process.env), tmp_path, str(NODE_CLIENT), "--call", "ping")
        assert json.loads(done.stdout)["pid"] not in (pid, None)
    finally:
        process.wikid("stop")
        process.discard()


# -- agents ------------------------------------------------------------------------------------------------------------


def run_hook(
    env: Any, told: bytes, cwd: Path, *flags: str, vault: str | None = None
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, *flags, str(HOOK), *([vault] if vault else [])]
    return subprocess.run(
        command, env=env, input=told, cwd=cwd, capture_output=True, timeout=HANG_GUARD_SECONDS, check=False
    )


def test_an_agents_turn_is_given_memory_and_tells_what_became_of_it(world: World, tmp_path: Path) -> None:
    about = {"session_id": "chat-1", "cwd": str(world.root)}
    prompt = {**about, "hook_event_name": "UserPromptSubmit", "prompt": PROMPT}
    before = world.actions()
    text = until(lambda: world.hook(**prompt), "an answer within 250 ms")
    first, *_, last = text.splitlines()
    marker = first.removeprefix("<wikid-notes ").removesuffix(">")
    assert first != marker
    assert last == f"</wikid-notes {marker}>"
    assert f"> {DAWN}" in text

    read = {"hook_event_name": "PostToolUse", "tool_name": "Read"}
    assert world.hook(**about, **read, tool_input={"file_path": str(world.wiki / f"{ANNA}.md")}) == ""
    wrote = {"hook_event_name": "PostToolUse", "tool_name": "Write"}
    assert world.hook(**about, **wrote, tool_input={"file_path": str(world.wiki / f"{BERT}.md")}) == ""
    transcript = write(tmp_path, "transcript.jsonl", _transcript())
    assert world.hook(**about, hook_event_name="Stop", transcript_path=str(transcript)) == ""

    wanted = {("shown", ANNA), ("shown", BERT), ("opened", ANNA), ("cited", ANNA), ("shown_only", BERT)}
    until(lambda: set(world.actions() - before) >= wanted, "what became of the pages")
    assert not {("opened", BERT), ("cited", BERT)} & set(world.actions() - before)


def _transcript() -> str:
    """A turn before, which cites a page that this one does not; then this one, with a tool's result and a sub-agent."""
    call, result = {"type": "tool_use", "id": "1", "name": "Read"}, {"type": "tool_result", "content": "text"}
    entries: list[tuple[str, object, dict[str, object]]] = [
        ("user", "and before?", {}),
        ("assistant", [{"type": "text", "text": f"See [[{BERT}]]."}], {}),
        ("user", [{"type": "text", "text": PROMPT}], {}),
        ("assistant", [{"type": "text", "text": f"At dawn, as [[{ANNA}]] has it."}, call], {}),
        ("user", [result], {}),
        ("assistant", [{"type": "text", "text": f"[[{BERT}]]"}], {"isSidechain": True}),
        ("assistant", [{"type": "text", "text": "That is all."}], {}),
    ]
    lines = [json.dumps({"type": kind, "message": {"content": content}, **more}) for kind, content, more in entries]
    return "\n".join(["half of a line}", *lines, '{"type": "assist'])


def test_any_host_can_use_the_neutral_form(world: World) -> None:
    about = {"session": "chat-2", "cwd": str(world.wiki)}
    prompt = {**about, "event": "before_turn", "prompt": PROMPT}
    before = world.actions()
    assert "First report" in until(lambda: world.hook(**prompt), "an answer within 250 ms")
    assert world.hook(**about, event="file_read", path=f"{BERT}.md") == ""
    assert world.hook(**about, event="turn_end", text=f"At noon ([[{BERT}]]).") == ""
    wanted = {("opened", BERT), ("cited", BERT), ("shown_only", ANNA)}
    until(lambda: set(world.actions() - before) >= wanted, "what became of the pages")


def test_what_the_notes_know_nothing_of_adds_nothing(world: World) -> None:
    for prompt in ("how do I make sourdough bread", "yes", "   ", "x" * 20_000, "\ud800"):
        assert world.hook(event="before_turn", session="chat-3", cwd=str(world.root), prompt=prompt) == ""


def test_the_vault_to_ask_can_be_named(world: World, tmp_path: Path) -> None:
    write(tmp_path, "plain/note.md", "# Lamp oil\n\nThe lamp at the north mole burns rapeseed oil.\n")
    world.daemon.add(tmp_path / "plain", "plain")
    told = {"event": "before_turn", "session": "chat-4", "cwd": str(tmp_path), "prompt": "lamp at the north mole"}
    assert "rapeseed" in until(lambda: world.hook(vault="plain", **told), "an answer within 250 ms")
    assert "rapeseed" not in world.hook(**told)


def test_without_a_daemon_the_hook_is_silent_and_starts_none(tmp_path: Path) -> None:
    process = DaemonProcess(tmp_path / "home")
    try:
        told = json.dumps({"event": "before_turn", "session": "s", "cwd": str(tmp_path), "prompt": PROMPT}).encode()
        done = run_hook(process.env, told, tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        assert list(process.home.rglob("*")) == []  # where a start would leave its log
    finally:
        process.discard()


def test_a_daemon_that_is_too_slow_holds_no_turn_up(tmp_path: Path) -> None:
    held = Held(sample_recall())
    told = json.dumps({"event": "before_turn", "session": "s", "cwd": str(tmp_path), "prompt": PROMPT}).encode()
    with FakeDaemon({"recall": held}) as fake:
        done = run_hook(env_of(fake, tmp_path), told, tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        asked = fake.until_called("recall")
        held.release()
    assert (asked["policy"], asked["deadline_ms"], asked["session"]) == ("automatic", 250, "s")


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"{",
        b"[]",
        b'{"event": 5, "cwd": [], "prompt": {}}',
        b'{"hook_event_name": "PreCompact", "session_id": "s"}',
        b'{"hook_event_name": "Stop", "session_id": "s", "transcript_path": "/nonexistent"}',
        b"\xff\xfe",
    ],
)
def test_whatever_the_host_says_the_hook_never_fails(tmp_path: Path, told: bytes) -> None:
    with FakeDaemon() as fake:
        done = run_hook(env_of(fake, tmp_path), told, tmp_path)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"Traceback" not in done.stderr


def test_the_hook_never_fails_in_a_python_without_wikid(tmp_path: Path) -> None:
    done = run_hook(environment(tmp_path), b"{}", tmp_path, "-I", "-S")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"run it with the Python that wikid is installed in" in done.stderr


def test_the_settings_in_the_readme_are_those_the_hook_answers_to() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert set(json.loads(block)["hooks"]) == {"UserPromptSubmit", "PostToolUse", "Stop"}
    named = re.findall(r"client/examples/[\w./]+\.\w+", text)
    assert {EXAMPLES.parents[1] / each for each in named} == {LUA, NODE_CLIENT, HOOK}
