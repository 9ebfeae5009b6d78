#!/usr/bin/env node
// @ts-check
// wikid for Node 20 or later on Linux and macOS, over the daemon's own socket, in the framing of language servers.
//   node wikid.mjs how do we roll back a deploy     memories, a line each; none is a normal answer
//   node wikid.mjs --call METHOD '{"vault": "…"}'   any method of the protocol; Ctrl-C cancels it
//   node wikid.mjs --watch                          what changes, until Ctrl-C
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import net from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import * as rpc from 'vscode-jsonrpc/node';

/** @typedef {{vault: string, page_id: string, path: string, line: number, title: string, excerpt: string,
 *   score: number, relation: string | null, missing: boolean}} Item  `score` is the confidence, 0 to 1 */
/** @typedef {{card: Item | null, evidence: Item[], conflicts: Item[]}} Bundle  the reviewed conclusion first */
/** @typedef {{kind: string, message: string, remedy: string}} Diagnostic */
/** @typedef {{recall_id: string, bundles: Bundle[], reason: string | null, mode_used: string, stale: boolean,
 *   pending: number, marker: string, diagnostics: Diagnostic[]}} Recall  no bundle is a normal answer */
/** @typedef {{kind: 'begin' | 'report' | 'end', message: string, percentage: number | null}} Progress */
/** @typedef {{cwd?: string, vault?: string, mode?: string, max_results?: number, policy?: 'explicit' | 'automatic',
 *   types?: string[], since?: string, until?: string, deadline_ms?: number}} RecallOptions */

const run = promisify(execFile);
const ABSENT = ['ENOENT', 'ECONNREFUSED'];

/** A connection to this user's daemon. Its methods reject with the protocol's error: `code`, `message` and `data`,
 * which has a stable `kind` and a `hint`. */
export class Wikid {
  #connection;
  #tokens = 0;

  /** @param {rpc.MessageConnection} connection */
  constructor(connection) {
    this.#connection = connection;
  }

  /** Make any call of the protocol. Its params are an object; `onProgress` hears of the steps of a long one.
   * @param {string} method
   * @param {object} [params]
   * @param {{token?: rpc.CancellationToken, onProgress?: (step: Progress) => void}} [how]
   * @returns {Promise<any>} */
  async request(method, params = {}, { token = rpc.CancellationToken.None, onProgress } = {}) {
    if (!onProgress) return await this.#connection.sendRequest(method, params, token);
    const progress_token = `call-${++this.#tokens}`;
    const listening = this.#connection.onProgress(new rpc.ProgressType(), progress_token, onProgress);
    try {
      return await this.#connection.sendRequest(method, { ...params, progress_token }, token);
    } finally {
      listening.dispose();
    }
  }

  /** The best conclusions on `query`, from the vaults that apply to `cwd` unless one is named.
   * @param {string} query
   * @param {RecallOptions} [options]
   * @param {rpc.CancellationToken} [token]
   * @returns {Promise<Recall>} */
  async recall(query, options = {}, token = undefined) {
    return await this.request('recall', { cwd: process.cwd(), ...options, query }, { token });
  }

  /** Be told of notifications of one kind, once a kind, until the connection ends. `since` has the generations
   * seen before.
   * @param {'index/changed' | 'vault/state'} kind
   * @param {(params: any) => void} handler
   * @param {{vaults?: string[], since?: Record<string, number>}} [which]
   * @returns {Promise<{subscription: string, generations: Record<string, number>}>} */
  async on(kind, handler, which = {}) {
    this.#connection.onNotification(kind, handler);
    return await this.request('subscribe', { kinds: [kind], ...which });
  }

  /** @param {() => void} handler called once the connection has ended; calls in flight have been rejected then */
  onClose(handler) {
    this.#connection.onDispose(handler);
  }

  close() {
    this.#connection.end();
    this.#connection.dispose();
  }
}

/** Connect, starting a daemon where none runs. `session` is who pages are shown to: a window, a chat. To connect anew
 * after the daemon's restart, call this again.
 * @param {{name: string, version?: string, session?: string, socket?: string, start?: boolean}} options */
export async function connect({ name, version = '', session, socket, start = true }) {
  const path = socket ?? (await socketPath());
  const stream = await open(path).catch(async (error) => {
    if (!start || !ABSENT.includes(error.code)) throw error;
    await run('wikid', ['start', '--socket', path]); // any number of programs may do so at once: one daemon comes up
    return await open(path);
  });
  const [reader, writer] = [new rpc.StreamMessageReader(stream), new rpc.StreamMessageWriter(stream)];
  const connection = rpc.createMessageConnection(reader, writer);
  connection.onError(() => connection.dispose()); // which rejects what is in flight
  connection.onClose(() => connection.dispose());
  connection.listen();
  const wikid = new Wikid(connection);
  await wikid.request('initialize', { protocol: { min: 1, max: 1 }, client: { name, version }, session });
  return wikid;
}

/** @param {string} path */
async function open(path) {
  if ((await stat(path)).uid !== process.getuid?.()) throw new Error(`${path} belongs to another user`);
  const stream = net.connect(path);
  await once(stream, 'connect');
  return stream;
}

async function socketPath() {
  const told = run('wikid', ['get-socket']).then(({ stdout }) => stdout.trim());
  return await told.catch(() => process.env.WIKID_SOCKET ?? ''); // the command may not be on this program's PATH
}

/** @param {string[]} words */
async function main(words) {
  const wikid = await connect({ name: 'wikid-example', session: `node:${process.pid}` });
  const source = new rpc.CancellationTokenSource();
  process.once('SIGINT', () => source.cancel());
  await show(wikid, words, source.token).finally(() => wikid.close());
}

/** @param {Wikid} wikid @param {string[]} words @param {rpc.CancellationToken} token */
async function show(wikid, words, token) {
  if (words[0] === '--watch') {
    await wikid.on('index/changed', (params) => console.log(JSON.stringify(params)));
    await new Promise((resolve) => (token.onCancellationRequested(resolve), wikid.onClose(() => resolve(null))));
  } else if (words[0] === '--call') {
    const onProgress = (/** @type {Progress} */ step) => console.error(step.message);
    console.log(JSON.stringify(await wikid.request(words[1], JSON.parse(words[2] ?? '{}'), { token, onProgress })));
  } else {
    const answer = await wikid.recall(words.join(' '), {}, token);
    for (const { card, evidence, conflicts } of answer.bundles)
      for (const item of [...(card ? [card] : []), ...evidence, ...conflicts])
        console.log(`${Math.round(item.score * 100)} %  ${item.title}  ${item.path}:${item.line}`);
    if (!answer.bundles.length) console.log('No reliable memory was found.');
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  await main(process.argv.slice(2)).catch((error) => {
    console.error(`error: ${error.message}\nhint: ${error.data?.hint ?? 'wikid doctor'}`);
    process.exitCode = 1;
  });
