"""What goes on beside a crowd: files that change, a client that never reads, and calls of every other kind."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from builders import numbered_note, write
from torture.talk import Closed, Hung, Talk, framed, ws_frame
from torture.values import dumped
from torture.verdicts import Fault, check_message, check_stream
from wikid_client import Client, WikidError

BIG_PAGE_BYTES: Final = 200_000
GREEDY_CALLS: Final = 12  # with a big page each, more than a connection may leave unread
READ_SECONDS: Final = 60.0
STALL_SECONDS: Final = 20.0
KEPT_OBSERVATIONS: Final = 20
MIXED_PAUSE_SECONDS: Final = 0.02
MODES: Final = ("lexical", "lexical", "hybrid", "adaptive", "quality")


def big_note() -> str:
    """A page whose answers fill a socket."""
    return "# Big\n\n" + "words of no use at all\n" * (BIG_PAGE_BYTES // 23)


class Background:
    """Threads that work until the end of a `with`. What breaks in one is kept as an error."""

    def __init__(self, *works: Callable[[threading.Event], None]) -> None:
        self.errors: list[str] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._guarded, args=(work,)) for work in works]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for each in self._threads:
            each.join(READ_SECONDS)

    def _guarded(self, work: Callable[[threading.Event], None]) -> None:
        try:
            work(self._over)
        except (WikidError, OSError, Fault, Closed, Hung, AssertionError) as error:
            self.errors.append(f"{type(error).__name__} {error}")


class Churn:
    """Saves numbered notes below `root` again, one after another and evenly; `saved` counts them."""

    def __init__(self, root: Path, notes: int, a_second: float) -> None:
        self._root = root
        self._notes = notes
        self._pause = 1 / a_second
        self.saved = 0

    def __call__(self, over: threading.Event) -> None:
        while not over.wait(self._pause):
            number = self.saved % self._notes + 1
            write(self._root, f"n{number:02}.md", numbered_note(number) + f"\nSaved again, {self.saved} times.\n")
            self.saved += 1


class Stalled:
    """One client that subscribes to all there is and never reads, and one that asks for more than it reads, and comes
    back whenever it is thrown out; `thrown_out` counts that."""

    def __init__(self, endpoint: Path, vault: str) -> None:
        self._endpoint = endpoint
        self._vault = vault
        self.thrown_out = 0

    def __call__(self, over: threading.Event) -> None:
        subscriber = Talk(self._endpoint, "lines", READ_SECONDS)
        subscriber.send(dumped({"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": {}}))
        try:
            while not over.is_set():
                self._ask_and_not_read(over)
        finally:
            subscriber.close()

    def _ask_and_not_read(self, over: threading.Event) -> None:
        greedy = Talk(self._endpoint, "lines", READ_SECONDS)
        try:
            for number in range(GREEDY_CALLS):
                params = {"vault_id": self._vault, "page_id": "big"}
                greedy.send(dumped({"jsonrpc": "2.0", "id": number, "method": "page/get", "params": params}))
            until = time.monotonic() + STALL_SECONDS
            while time.monotonic() < until and not over.wait(0.5):
                greedy.send(b"\n")  # fails once the daemon has closed
        except Closed:
            self.thrown_out += 1
        finally:
            greedy.close()


class Mixed:
    """One client's calls of every kind, at random. `done` counts them by kind."""

    def __init__(self, connect: Callable[[], Client], endpoint: Path, diary: Path, notes: int, seed: int) -> None:
        self._connect = connect
        self._endpoint = endpoint
        self._diary = diary
        self._notes = notes
        self._chance = random.Random(seed)
        self._session = f"soak-{seed}"
        self._observed: list[Path] = []
        self.done: Counter[str] = Counter()

    def __call__(self, over: threading.Event) -> None:
        works: list[tuple[Callable[[Client], None], int]] = [
            (self._recall, 40),
            (self._page, 15),
            (self._search, 10),
            (self._status, 4),
            (self._sync, 2),
            (self._observe, 2),
            (self._feedback, 5),
            (self._events, 3),
            (self._subscribe, 3),
            (self._reconnect, 4),
            (self._over_http, 4),
            (self._over_websocket, 4),
            (self._cancel, 4),
        ]
        chosen, weights = [each for each, _ in works], [weight for _, weight in works]
        with self._connect() as wikid:
            while not over.wait(MIXED_PAUSE_SECONDS):
                work = self._chance.choices(chosen, weights)[0]
                work(wikid)
                self.done[work.__name__.lstrip("_")] += 1

    def _number(self) -> int:
        return self._chance.randrange(1, self._notes + 1)

    def _recall(self, wikid: Client) -> None:
        query = f"tok{self._number():02}zebra harbour"
        found = wikid.recall(query, vault="notes", mode=self._chance.choice(MODES), session=self._session)
        assert found.bundles, "a recall found nothing"

    def _page(self, wikid: Client) -> None:
        wikid.page_get(f"n{self._number():02}", vault_id="notes", session=self._session)

    def _search(self, wikid: Client) -> None:
        wikid.page_search(f"Note {self._number()}", vault="notes", limit=10)

    def _status(self, wikid: Client) -> None:
        wikid.status()

    def _sync(self, wikid: Client) -> None:
        wikid.sync(vault="diary", timeout_ms=60_000)

    def _observe(self, wikid: Client) -> None:
        made = wikid.observe(f"Seen {time.time_ns()}", content="The ferry leaves at nine.", vault="diary")
        self._observed.append(self._diary / made.path)
        if len(self._observed) > KEPT_OBSERVATIONS:
            self._observed.pop(0).unlink(missing_ok=True)

    def _feedback(self, wikid: Client) -> None:
        number = self._number()
        wikid.recall(f"tok{number:02}zebra", vault="notes", mode="lexical", session=self._session)
        wikid.feedback_signal("cited", text=f"see n{number:02}", session=self._session)
        wikid.feedback_signal("turn_end", session=self._session)

    def _events(self, wikid: Client) -> None:
        wikid.event_list(vault="diary", limit=20)

    def _subscribe(self, wikid: Client) -> None:
        with wikid.subscribe(vaults=["notes"]) as changes:
            changes.next(0.05)

    def _reconnect(self, _wikid: Client) -> None:
        with self._connect() as other:
            other.ping()

    def _over_http(self, _wikid: Client) -> None:
        talk = Talk(self._endpoint, "rpc", READ_SECONDS)
        path = self._chance.choice((b"/health", b"/metrics"))
        talk.wire.send(framed("rpc", self._raw()) + b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        talk.wire.finish()
        check_stream(talk.wire.everything())
        talk.close()

    def _over_websocket(self, _wikid: Client) -> None:
        talk = Talk(self._endpoint, "websocket", READ_SECONDS)
        talk.send(self._raw())
        check_message(talk.read(), {1}, "recall")
        talk.wire.send(ws_frame(b"\x03\xe8", opcode=8))
        talk.close()

    def _cancel(self, _wikid: Client) -> None:
        talk = Talk(self._endpoint, "lines", READ_SECONDS)
        talk.send(self._raw("quality"))
        talk.send(dumped({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}}))
        check_message(talk.read(), {1}, "recall")
        talk.close()

    def _raw(self, mode: str = "lexical") -> bytes:
        params = {"query": f"tok{self._number():02}zebra", "vault": "notes", "mode": mode}
        return dumped({"jsonrpc": "2.0", "id": 1, "method": "recall", "params": params})
