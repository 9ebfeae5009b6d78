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
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from wikid_client.caller import Progress
from wikid_client.scripted import MARKER as MARKER
from wikid_client.scripted import Held as Held
from wikid_client.scripted import in_turn as in_turn
from wikid_client.scripted import sample_item as sample_item
from wikid_client.scripted import sample_recall as sample_recall
from wikid_protocol import records as r
from wikid_protocol.endpoint import socket_path
from wikid_protocol.errors import RequestRefused
from wikid_protocol.limits import LIMITS, PROTOCOL_VERSION
from wikid_protocol.messages import BadCall, Call, CallId, failure, notification, parse, read_call, result

HTTP_VERBS: Final = (b"G", b"P", b"H", b"D", b"O")
_JOIN_SECONDS: Final = 5.0

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
        self,
        answer: Callable[[bytes], None],
        event: Callable[[bytes], None],
        drop: Callable[[], None],
        hang_up: Callable[[], None] = lambda: None,
    ) -> None:
        self._answer = answer
        self.event = event
        self.drop = drop
        self.hang_up = hang_up  # once everything is sent, as a daemon does that stops
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
    raises ConnectionError breaks the connection; any other error, and what is no JSON, is answered as `internal`.
    `initialize`, `ping`, `subscribe`, `unsubscribe` and `shutdown` are answered unless the table says otherwise; any
    other method is refused as `method_not_found`.

    On Windows it is a pipe: `endpoint` is its name, and `path` stands for one as `WIKID_SOCKET` does.

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
        self.endpoint = _endpoint(path or Path(self._folder or "") / "wikid.sock")
        self._door: Door | None = None
        self._peers: list[Peer] = []
        self._threads: list[threading.Thread] = []
        self._guard = threading.Lock()
        self._called = threading.Condition()
        self._unbound = threading.Event()

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
        """Listen and answer until `stop`. May be called again after a stop: that is a restart."""
        self._door = _door(self)
        self._unbound.clear()

    def stop(self) -> None:
        """Stop listening, remove the socket, break every connection and wait for the threads."""
        self._unbind()
        self.drop()
        for answer in self.answers.values():
            if isinstance(answer, Held):
                answer.release()
        door, self._door = self._door, None
        if door is not None:
            door.end()
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
        if self._door is not None:
            self._door.drop()

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
        self.run(self._answer_all, calls, answered, isinstance(value, list), peer)
        return bool(answered)

    def run(self, work: Callable[..., None], *subject: object) -> None:
        """Have a thread do something, which `stop` waits for."""
        thread = threading.Thread(target=work, args=subject, name="wikid-fake-daemon", daemon=True)
        with self._guard:
            self._threads = [*(each for each in self._threads if each.is_alive()), thread]
            thread.start()

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
            peer.hang_up()

    def _answer_line(self, call: Call | BadCall, peer: Peer) -> bytes:
        if isinstance(call, BadCall):
            return failure(call.id, call.error)
        if call.method.startswith("$/"):
            return b""
        try:
            line = result(call.id, self._answer(call, peer))
        except RequestRefused as error:
            line = failure(call.id, error)
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of the table's is told to whoever waits for the answer
            line = failure(call.id, RequestRefused("internal", f"the answer to {call.method}: {error!r}"))
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

    def _unbind(self) -> None:
        if self._door is not None and self._door.close():
            self._unbound.set()


class Door(Protocol):
    """Where a fake daemon takes connections."""

    def close(self) -> bool:
        """Take no more of them, and free the endpoint; False where that was done before."""
        ...

    def drop(self) -> None:
        """Break those that are there."""
        ...

    def end(self) -> None:
        """Let go of what is left, after `close` and `drop`."""
        ...


def _report(peer: Peer, steps: Generator[Progress, None, object], token: object) -> object:
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return end.value
        if token is not None:
            peer.event(notification("$/progress", {"token": token, "value": step}))


def _endpoint(path: Path) -> Path:
    return socket_path({"WIKID_SOCKET": os.fspath(path)}) if sys.platform == "win32" else path


def _door(daemon: FakeDaemon) -> Door:
    # loaded here because a pipe takes asyncio, which a socket can do without
    place: Any = import_module(f"wikid_client.{'pipe' if sys.platform == 'win32' else 'socket'}_testing")
    door: Door = place.door(daemon)
    return door
