"""A daemon for tests: answers from a table, in this process, over a real socket.

with FakeDaemon({"recall": some_recall}) as daemon, Client(endpoint=daemon.endpoint) as wikid:
    wikid.recall("anything")
assert daemon.calls == [("recall", {...})]
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from wikid_client.caller import Progress
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused
from wikid_protocol.limits import PROTOCOL_VERSION
from wikid_protocol.messages import BadCall, Call, failure, notification, parse, read_call, result

_JOIN_SECONDS: Final = 5.0

MARKER: Final = "fake-marker-5f1e2d3c"


def sample_item(page_id: str = "concepts/sample", **changes: Any) -> r.Item:
    """A stable canonical page of the vault `personal`, with `changes`."""
    given: dict[str, Any] = {
        "vault_id": "0b5e3c6a-58b8-4a50-9a1f-000000000001",
        "vault": "personal",
        "page_id": page_id,
        "path": f"/notes/.llm-wiki/wiki/{page_id}.md",
        "title": "A sample page",
        "type": "concept",
        "role": "canonical",
        "status": "stable",
        "freshness": "current",
        "excerpt": "What the page says.",
        "score": 0.75,
        "rank": 1,
    }
    return r.Item(**{**given, **changes})


def sample_recall(*bundles: r.Bundle, **changes: Any) -> r.Recall:
    """A current answer from the vault `personal`, with `changes`. Without bundles its reason says so."""
    searched = r.SearchedVault(
        vault_id=r.VaultId("0b5e3c6a-58b8-4a50-9a1f-000000000001"),
        name="personal",
        layer="personal",
        generation=7,
        stale=False,
        pending=0,
    )
    given: dict[str, Any] = {
        "recall_id": "recall-1",
        "bundles": bundles,
        "vaults": (searched,),
        "mode_used": "adaptive",
        "generation": 7,
        "stale": False,
        "pending": 0,
        "elapsed_ms": 14.2,
        "marker": MARKER,
        "reason": None if bundles else "no_reliable_memory",
    }
    return r.Recall(**{**given, **changes})


class FakeDaemon:
    """Serves `answers` (method name → answer) on a socket in a temporary folder, or at `path`.

    An answer is a record, a RequestRefused, or a callable that takes the params and returns or raises one of these. A
    generator function may yield `Progress` first. A callable that raises ConnectionError breaks the connection. `ping`
    and `shutdown` are answered unless the table says otherwise; any other method is refused as `method_not_found`.
    """

    def __init__(self, answers: Mapping[str, object] | None = None, *, path: Path | None = None) -> None:
        self.answers: dict[str, object] = {
            "ping": r.Pong(version="0.0-fake", pid=os.getpid(), protocol=PROTOCOL_VERSION),
            "shutdown": r.Done(),
            **(answers or {}),
        }
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._folder = None if path else tempfile.mkdtemp(prefix="wikid-")
        self.endpoint = path or Path(self._folder or "") / "wikid.sock"
        self._listener: socket.socket | None = None
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._guard = threading.Lock()
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
        """Bind the socket and answer until `stop`. May be called again after a stop: that is a restart."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(os.fspath(self.endpoint))
        listener.listen(16)
        self._listener = listener
        self._unbound.clear()
        self._run(self._accept, listener)

    def stop(self) -> None:
        """Stop listening, remove the socket, break every connection and wait for the threads."""
        self._unbind()
        self.drop()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_JOIN_SECONDS)
        self._threads.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Until the daemon was told to shut down, and that was answered; False when `timeout` seconds pass first."""
        return self._unbound.wait(timeout)

    def drop(self) -> None:
        """Break every connection and go on listening."""
        with self._guard:
            open_now, self._connections = self._connections, []
        for connection in open_now:
            _shut(connection)

    def _unbind(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(FileNotFoundError):
                self.endpoint.unlink()
            _shut(listener)
            listener.close()
            self._unbound.set()

    def _run(self, work: Any, subject: socket.socket) -> None:
        thread = threading.Thread(target=work, args=(subject,), name="wikid-fake-daemon", daemon=True)
        self._threads.append(thread)
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
        with connection, connection.makefile("rb") as lines:
            try:
                for line in lines:
                    self._handle(connection, line)
            except OSError:
                return  # the client went away, or an answer asked for a break

    def _handle(self, connection: socket.socket, line: bytes) -> None:
        try:
            call = read_call(parse(line))
        except RequestRefused as error:
            connection.sendall(failure(None, error))
            return
        if isinstance(call, BadCall):
            connection.sendall(failure(call.id, call.error))
            return
        self.calls.append((call.method, call.params))
        try:
            answer = result(call.id, self._answer(connection, call))
        except RequestRefused as error:
            answer = failure(call.id, error)
        if not call.notification:
            connection.sendall(answer)
        if call.method == "shutdown":
            self._unbind()

    def _answer(self, connection: socket.socket, call: Call) -> object:
        if call.method not in self.answers:
            raise RequestRefused("method_not_found", f"no answer is set for {call.method}")
        answer = self.answers[call.method]
        if callable(answer):
            answer = answer(call.params)
        if isinstance(answer, Generator):
            answer = _report(connection, answer, call.params.get("progress_token"))
        if isinstance(answer, RequestRefused):
            raise answer
        return answer


def _report(connection: socket.socket, steps: Generator[Progress, None, object], token: object) -> object:
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return end.value
        if token is not None:
            connection.sendall(notification("$/progress", {"token": token, "value": step}))


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # already closed by the other end
        connection.shutdown(socket.SHUT_RDWR)
