"""A daemon for tests: answers from a table, in this process, over a real socket.

with FakeDaemon({"recall": some_recall}) as daemon, Client(endpoint=daemon.endpoint) as wikid:
    wikid.recall("anything")
assert daemon.calls == [("recall", {...})]
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from wikid_client.caller import Progress
from wikid_client.scripted import MARKER as MARKER
from wikid_client.scripted import Held as Held
from wikid_client.scripted import in_turn as in_turn
from wikid_client.scripted import sample_item as sample_item
from wikid_client.scripted import sample_recall as sample_recall
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused
from wikid_protocol.limits import LIMITS, PROTOCOL_VERSION
from wikid_protocol.messages import BadCall, Call, CallId, failure, notification, parse, read_call, result

_JOIN_SECONDS: Final = 5.0
_HTTP_VERBS: Final = (b"G", b"P", b"H", b"D", b"O")

_KINDS: Final = ("index/changed", "vault/state")
_INITIALIZED: Final = r.Initialized(
    protocol=PROTOCOL_VERSION,
    server=r.Server(name="wikid-fake", version="0.0-fake"),
    capabilities=("core", "subscriptions"),
    limits=LIMITS,
)


class Peer:
    """Who is at the other end of a connection: how it is answered, and what it has subscribed to."""

    def __init__(
        self, answer: Callable[[bytes], None], event: Callable[[bytes], None], drop: Callable[[], None]
    ) -> None:
        self._answer = answer
        self.event = event
        self.drop = drop
        self.subscriptions: dict[str, tuple[str, ...]] = {}
        self._open: set[CallId] = set()
        self._guard = threading.Lock()

    def begin(self, call_id: CallId) -> None:
        with self._guard:
            self._open.add(call_id)

    def cancel(self, call_id: CallId) -> None:
        if self._end(call_id):
            self._answer(failure(call_id, RequestRefused("cancelled", "the call was cancelled")))

    def answer(self, call_ids: set[CallId], line: bytes) -> None:
        """Send `line` unless all these calls were cancelled meanwhile."""
        ended = [self._end(each) for each in call_ids]
        if any(ended):
            self._answer(line)

    def refuse(self, error: RequestRefused) -> None:
        self._answer(failure(None, error))

    def _end(self, call_id: CallId) -> bool:
        with self._guard:
            was_open = call_id in self._open
            self._open.discard(call_id)
            return was_open


class FakeDaemon:
    """Serves `answers` (method name → answer) on a socket in a temporary folder, or at `path`.

    An answer is a record, a RequestRefused, or a callable that takes the params and returns or raises one of these;
    each call has a thread of its own, so it may wait. A generator function may yield `Progress` first. A callable that
    raises ConnectionError breaks the connection. `initialize`, `ping`, `subscribe`, `unsubscribe` and `shutdown` are
    answered unless the table says otherwise; any other method is refused as `method_not_found`.

    Speaks JSON lines, `POST /rpc` and `GET /ws`; the latter two need aiohttp. `calls` has each call in the order it
    came, cancellations and subscriptions too; `clients` has what each connection said of itself in `initialize`.
    """

    def __init__(self, answers: Mapping[str, object] | None = None, *, path: Path | None = None) -> None:
        self._subscriptions = itertools.count(1)
        self.answers: dict[str, object] = {
            "initialize": _INITIALIZED,
            "ping": r.Pong(version="0.0-fake", pid=os.getpid(), protocol=PROTOCOL_VERSION),
            "shutdown": r.Done(),
            "subscribe": self._subscribed,
            "unsubscribe": r.Done(),
            **(answers or {}),
        }
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.clients: list[dict[str, Any]] = []
        self._folder = None if path else tempfile.mkdtemp(prefix="wikid-")
        self.endpoint = path or Path(self._folder or "") / "wikid.sock"
        self._listener: socket.socket | None = None
        self._connections: list[socket.socket] = []
        self._peers: list[Peer] = []
        self._threads: list[threading.Thread] = []
        self._guard = threading.Lock()
        self._called = threading.Condition()
        self._unbound = threading.Event()
        self._http: Any = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._folder:
            shutil.rmtree(self._folder)

    def start(self) -> None:
        """Bind the socket and answer until `stop`. May be called again after a stop: that is a restart."""
        listener = _bound(self.endpoint)
        self._listener = listener
        self._unbound.clear()
        self._run(self._accept, listener)

    def stop(self) -> None:
        """Stop listening, remove the socket, break every connection and wait for the threads."""
        self._unbind()
        self.drop()
        for answer in self.answers.values():
            if isinstance(answer, Held):
                answer.release()
        with self._guard:
            http, self._http = self._http, None
        if http is not None:
            http.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_JOIN_SECONDS)
        self._threads.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Until the daemon was told to shut down, and that was answered; False when `timeout` seconds pass first."""
        return self._unbound.wait(timeout)

    def until_called(self, method: str, timeout: float = 30.0) -> dict[str, Any]:
        """The params of the newest call of `method`, waiting for one where there was none; TimeoutError."""

        def found() -> list[dict[str, Any]]:
            return [params for name, params in self.calls if name == method]

        with self._called:
            if not self._called.wait_for(found, timeout):
                raise TimeoutError(f"nobody has called {method}")
            return found()[-1]

    def notify(self, method: str, params: Mapping[str, object] | r.IndexChanged | r.VaultState) -> int:
        """Tell each subscription to `method`, under its own id; how many there were."""
        told = dict(params) if isinstance(params, Mapping) else asdict(params)
        with self._guard:
            listening = [
                (peer, each) for peer in self._peers for each, kinds in peer.subscriptions.items() if method in kinds
            ]
        for peer, subscription in listening:
            peer.event(notification(method, {**told, "subscription": subscription}))
        return len(listening)

    def drop(self) -> None:
        """Break every connection and go on listening."""
        with self._guard:
            open_now, self._connections = self._connections, []
        for connection in open_now:
            _shut(connection)

    # -- what a framing needs ------------------------------------------------------------------------------------------

    def join(self, peer: Peer) -> None:
        """A connection is there."""
        with self._guard:
            self._peers.append(peer)

    def leave(self, peer: Peer) -> None:
        """A connection is gone, and its subscriptions with it."""
        with self._guard:
            self._peers.remove(peer)

    def receive(self, frame: bytes, peer: Peer) -> bool:
        """Take one message, or a batch, and answer it in a thread of its own; False where no answer is asked for."""
        try:
            value = parse(frame)
        except RequestRefused as error:
            peer.refuse(error)
            return True
        calls = [read_call(each) for each in (value if isinstance(value, list) else [value])]
        for call in calls:
            if isinstance(call, Call):
                self._note(call, peer)
        answered = {call.id for call in calls if isinstance(call, BadCall) or not call.notification}
        for each in answered:
            peer.begin(each)
        self._run(self._answer_all, calls, answered, isinstance(value, list), peer)
        return bool(answered)

    # -- answering -----------------------------------------------------------------------------------------------------

    def _note(self, call: Call, peer: Peer) -> None:
        with self._called:
            if call.method == "initialize":
                self.clients.append(call.params)
            else:
                self.calls.append((call.method, call.params))
            self._called.notify_all()
        if call.method == "$/cancelRequest":
            peer.cancel(call.params.get("id"))

    def _answer_all(self, calls: list[Call | BadCall], answered: set[CallId], batch: bool, peer: Peer) -> None:
        try:
            lines = [line for call in calls if (line := self._answer_line(call, peer))]
        except ConnectionError:
            peer.drop()
            return
        with contextlib.suppress(OSError):  # the client went away
            if lines:
                peer.answer(answered, b"[" + b",".join(line[:-1] for line in lines) + b"]\n" if batch else lines[0])
        if any(isinstance(call, Call) and call.method == "shutdown" for call in calls):
            self._unbind()

    def _answer_line(self, call: Call | BadCall, peer: Peer) -> bytes:
        if isinstance(call, BadCall):
            return failure(call.id, call.error)
        if call.method.startswith("$/"):
            return b""
        try:
            line = result(call.id, self._answer(call, peer))
        except RequestRefused as error:
            line = failure(call.id, error)
        return b"" if call.notification else line

    def _answer(self, call: Call, peer: Peer) -> object:
        if call.method not in self.answers:
            raise RequestRefused("method_not_found", f"no answer is set for {call.method}")
        answer = self.answers[call.method]
        if callable(answer):
            answer = answer(call.params)
        if isinstance(answer, Generator):
            answer = _report(peer, answer, call.params.get("progress_token"))
        if isinstance(answer, RequestRefused):
            raise answer
        if isinstance(answer, r.Subscribed):
            peer.subscriptions[answer.subscription] = tuple(call.params.get("kinds") or _KINDS)
        if call.method == "unsubscribe":
            peer.subscriptions.pop(str(call.params.get("subscription")), None)
        return answer

    def _subscribed(self, _params: dict[str, Any]) -> r.Subscribed:
        return r.Subscribed(subscription=f"subscription-{next(self._subscriptions)}", generations={})

    # -- connections ---------------------------------------------------------------------------------------------------

    def _unbind(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(FileNotFoundError):
                self.endpoint.unlink()
            _shut(listener)
            listener.close()
            self._unbound.set()

    def _run(self, work: Callable[..., None], *subject: object) -> None:
        thread = threading.Thread(target=work, args=subject, name="wikid-fake-daemon", daemon=True)
        with self._guard:
            self._threads = [*(each for each in self._threads if each.is_alive()), thread]
            thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # stopped
            with self._guard:
                self._connections.append(connection)
            self._run(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if connection.recv(1, socket.MSG_PEEK) in _HTTP_VERBS:
                self._http_face().adopt(connection)
                return
        sending = threading.Lock()

        def send(line: bytes) -> None:
            with sending:
                connection.sendall(line)

        def tell(line: bytes) -> None:
            with contextlib.suppress(OSError):  # nobody there to be told
                send(line)

        peer = Peer(send, tell, lambda: _shut(connection))
        self.join(peer)
        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            for line in lines:
                self.receive(line, peer)
        self.leave(peer)

    def _http_face(self) -> Any:
        with self._guard:
            if self._http is None:
                # loaded here because it takes aiohttp, which few tests need
                self._http = import_module("wikid_client.aio_testing").HttpFace(self)
            return self._http


def _report(peer: Peer, steps: Generator[Progress, None, object], token: object) -> object:
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return end.value
        if token is not None:
            peer.event(notification("$/progress", {"token": token, "value": step}))


def _bound(endpoint: Path) -> socket.socket:
    if sys.platform == "win32":
        raise OSError("a FakeDaemon listens at a Unix socket, which Python has no name for on Windows")
    else:  # noqa: RET506 - for a type checker of either platform
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(os.fspath(endpoint))
        listener.listen(16)
        return listener


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # already closed by the other end
        connection.shutdown(socket.SHUT_RDWR)
