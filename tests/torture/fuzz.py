"""Anything at all, over every framing, to one real daemon: it answers with a known word or closes, and leaks nothing.

Beside it a client of good manners makes recalls all the time and must not notice. An input is made again from the seed,
the name of its stream and its number.
"""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st

from builders import base_notes
from daemon_process import DaemonProcess
from torture.fuzz_totals import Totals
from torture.mutations import SELDOM, Mutations
from torture.occupying import occupy
from torture.resources import Usage, open_files, resting, settled, threads
from torture.talk import FRAMINGS, Closed, FramingName, Hung, Talk, Wire
from torture.values import Params, Places, Wild, asked, dumped, harmless, owed
from torture.verdicts import Fault, check_message, check_stream
from torture.wires import WireInput, Wires
from wikid_client import WikidError
from wikid_daemon.vault.vault import init_vault
from wikid_protocol.limits import LIMITS
from wikid_protocol.methods import METHODS

INPUTS: Final = 100_000
NOTES: Final = 30
BOUND_SECONDS: Final = 60.0
"""In which every input is answered, or its connection closed: the time for a frame, and a call that may take long."""
WARM_UP: Final = 0.25  # of the inputs, by which caches that have a limit have come near it
MAX_GROWTH_BYTES: Final = 20_000_000
MOST_FAULTS: Final = 20
OPEN_AT_ONCE: Final = 40
PATIENCE_SECONDS: Final = LIMITS.frame_seconds * 1.5
CALLS_AN_EXAMPLE: Final = 10
SELDOM_ONE_IN: Final = 40
WAIT_EVERY: Final = 200
"""Connections of which one leaves it to the daemon to give up on it, after its ten seconds."""
BYSTANDER_PAUSE_SECONDS: Final = 0.05
SHOWN_BYTES: Final = 2_000
_KIND: Final = re.compile(rb'"error":\{.*?"kind":"(\w+)"')

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Connection:
    """One that has sent its input."""

    name: str
    made: WireInput
    wire: Wire


class FuzzCampaign:
    """One daemon below `folder`, with a plain folder of notes and a vault that can be written to."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        say: Say,
        *,
        wait_every: int = WAIT_EVERY,
        max_growth: int = MAX_GROWTH_BYTES,
    ) -> None:
        self._seed = seed
        self._say = say
        self._max_growth = max_growth
        notes = folder / "notes"
        base_notes(notes, NOTES)
        self._places = Places(notes, init_vault(folder / "diary", "campaign", "personal"), folder / "spare")
        for path in self._places.comers:
            Path(path).mkdir(parents=True)
        self._paths = frozenset(self._places.comers)
        self._messages = Mutations(seed, self._places)
        self._wires = Wires(seed, self._messages, wait_every=wait_every)
        self._wild = Wild(self._places)
        self._daemon = DaemonProcess(folder / "home", HF_HUB_OFFLINE="1")
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._totals = Totals()
        self._vault_id = ""

    def run(self, inputs: int) -> Totals:
        """So many inputs, then the totals."""
        began = time.monotonic()
        with self._daemon:
            self._vault_id = self._daemon.add(self._places.notes, "notes").vault_id
            self._daemon.add(self._places.diary, "diary")
            good = threading.Thread(target=self._recall_all_the_time)
            good.start()
            try:
                self._attack(inputs)
            finally:
                self._over.set()
                good.join(BOUND_SECONDS)
            self._totals.seconds = time.monotonic() - began
            if not self._totals.differences:
                self._settle()
            self._read_log()
        return self._totals

    def _attack(self, inputs: int) -> None:
        occupy(self._daemon.endpoint, BOUND_SECONDS)
        warm, rest = int(inputs * WARM_UP), inputs - int(inputs * WARM_UP)
        self._round(0, warm)
        self._clear()
        self._totals.before = resting(self._daemon.pid)
        self._say(f"warm after {warm} inputs: {self._totals.before}")
        self._round(warm, rest)

    def _round(self, start: int, count: int) -> None:
        """Inputs of every stream at once. Most are messages, which share a connection; Hypothesis makes the last."""
        each, wires = count * 7 // 40, count * 4 // 40
        works: list[Callable[[], None]] = [
            *(lambda framing=framing: self._converse(framing, start, each) for framing in FRAMINGS),
            lambda: self._connect_all(start, wires),
            lambda: self._generate(start, count - 4 * each - wires),
        ]
        threads = [threading.Thread(target=self._guarded, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a campaign whose stream broke off has proved nothing
            self._fault(f"a stream broke off: {traceback.format_exception(error)}")

    # -- whole messages ------------------------------------------------------------------------------------------------

    def _converse(self, framing: FramingName, start: int, count: int) -> None:
        talk: Talk | None = None
        for number in range(start, start + count):
            if self._stopped:
                break
            message = self._messages.message(framing, number)
            talk = self._exchange(talk, framing, message, f"{framing}/{number}")
        if talk is not None:
            talk.close()

    def _exchange(self, talk: Talk | None, framing: FramingName, message: bytes, name: str) -> Talk | None:
        """Send one message and judge all that it is owed. The connection, where it is still open."""
        self._count(framing)
        try:
            if talk is None:
                talk = self._open(framing)
            talk.send(message)
            self._await_answers(talk, message)
        except Closed:
            if not _may_close(framing, message):
                self._fault(f"{name}: the connection was closed", message)
        except Hung:
            self._fault(f"{name}: no answer in {BOUND_SECONDS:.0f} s", message)
        except Fault as fault:
            self._fault(f"{name}: {fault}", message)
        else:
            return talk
        if talk is not None:
            talk.close()
        return None

    def _open(self, framing: FramingName) -> Talk:
        """A connection on which the first message decides nothing any more."""
        talk = Talk(self._daemon.endpoint, framing, BOUND_SECONDS)
        try:
            talk.send(dumped({"jsonrpc": "2.0", "id": "first", "method": "ping"}))
            check_message(talk.read(), {"first"}, "ping")
        except BaseException:
            talk.close()
            raise
        return talk

    def _await_answers(self, talk: Talk, message: bytes) -> None:
        parts = [message]
        if talk.framing == "lines":
            parts = [each for each in message.split(b"\n") if each and not each.isspace()]
        due = sum(map(owed, parts))
        allowed, method = asked(parts)
        answers = 0
        while answers < due or (talk.framing == "rpc" and due == 0):
            answer = talk.read()
            if talk.framing == "rpc" and not answer:
                if due:
                    raise Fault("a call was answered with nothing")
                return
            answers += check_message(answer, allowed, method)
            self._note(answer)

    # -- whole connections ---------------------------------------------------------------------------------------------

    def _connect_all(self, start: int, count: int) -> None:
        open_ones: deque[_Connection] = deque()
        waiting: deque[_Connection] = deque()
        for number in range(start, start + count):
            if self._stopped:
                break
            made = self._wires.wire(number)
            each = _Connection(f"wires/{number}", made, Wire(self._daemon.endpoint, BOUND_SECONDS))
            self._count("connections")
            self._send_all(each)
            (waiting if made.end == "waits" else open_ones).append(each)
            if len(open_ones) > OPEN_AT_ONCE:
                self._hear_out(open_ones.popleft())
            # the daemon has long given up on the oldest, so hearing it out takes no time
            if len(waiting) > OPEN_AT_ONCE or (waiting and waiting[0].wire.age > PATIENCE_SECONDS):
                self._hear_out(waiting.popleft())
        for each in (*open_ones, *waiting):
            self._hear_out(each)

    def _send_all(self, each: _Connection) -> None:
        name, made, wire = each.name, each.made, each.wire
        try:
            for piece in made.pieces:
                wire.send(piece)
        except Closed:
            return  # it may have said why
        except Hung:
            self._fault(f"{name}: it took no more bytes", made.data)
        if made.end == "done":
            wire.finish()
        elif made.end == "hangs up":
            wire.close()

    def _hear_out(self, each: _Connection) -> None:
        name, made, wire = each.name, each.made, each.wire
        if made.end == "hangs up":
            wire.close()
            return
        if not made.pieces:
            wire.finish()  # nobody is hurried who has said nothing yet
        try:
            if made.end == "waits":
                self._wait_for_the_daemon(wire)
            check_stream(wire.everything())
        except Hung:
            self._fault(f"{name}: not closed in {BOUND_SECONDS:.0f} s", made.data)
        except (Fault, ValueError) as fault:
            self._fault(f"{name}: {fault}", made.data)
        finally:
            wire.close()

    def _wait_for_the_daemon(self, wire: Wire) -> None:
        """Until it gives up on a frame. Where nothing is begun, it waits for ever, and is told then."""
        try:
            wire.everything(patience=PATIENCE_SECONDS)
        except Hung:
            wire.finish()

    # -- what Hypothesis makes -----------------------------------------------------------------------------------------

    def _generate(self, start: int, count: int) -> None:
        quick = st.sampled_from(sorted(METHODS.keys() - SELDOM - {"shutdown"}))
        seldom = st.sampled_from(sorted(SELDOM))
        method = st.integers(0, SELDOM_ONE_IN - 1).flatmap(
            lambda drawn: seldom if drawn == SELDOM_ONE_IN - 1 else quick
        )
        call = method.flatmap(lambda name: st.tuples(st.just(name), self._wild.strategy(name)))

        @hypothesis_seed(self._seed + start)
        @settings(
            max_examples=max(1, count // CALLS_AN_EXAMPLE),
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(st.sampled_from(FRAMINGS), st.lists(call, min_size=CALLS_AN_EXAMPLE, max_size=CALLS_AN_EXAMPLE))
        def exchanged(framing: FramingName, calls: list[tuple[str, Params]]) -> None:
            talk: Talk | None = None
            for number, (name, params) in enumerate(calls):
                message = dumped({"jsonrpc": "2.0", "id": number, "method": name, "params": params})
                if not self._stopped and harmless(message, self._paths):
                    talk = self._exchange(talk, framing, message, "generated")
            if talk is not None:
                talk.close()

        exchanged()

    # -- the bystander -------------------------------------------------------------------------------------------------

    def _recall_all_the_time(self) -> None:
        pause = threading.Event()
        with self._daemon.connect() as wikid:
            while not self._over.is_set():
                began = time.monotonic()
                try:
                    answer = wikid.recall("tok07zebra harbour", vault=self._vault_id, mode="lexical")
                except WikidError as error:
                    self._fault(f"the bystander: {type(error).__name__} {error}")
                    return
                self._totals.recalls.append((time.monotonic() - began) * 1_000)
                first = answer.bundles[0].card or answer.bundles[0].evidence[0] if answer.bundles else None
                if first is None or first.page_id != "n07":
                    self._fault(f"the bystander: {len(answer.bundles)} bundles, the first without its page")
                pause.wait(BYSTANDER_PAUSE_SECONDS)

    # -- before and after ----------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        """Remove the vaults that inputs registered, and wait until nothing is going on any more."""
        kept = {str(self._places.notes), str(self._places.diary)}
        client = self._daemon.client
        for record in client.vault_list().vaults:
            if record.path not in kept:
                client.vault_remove(record.path)
        for name in ("notes", "diary"):
            client.sync(vault=name)

    def _settle(self) -> None:
        before, pid = self._totals.before, self._daemon.pid
        assert before is not None
        self._clear()
        most = before.resident + self._max_growth

        def holds(now: Usage) -> bool:
            return now.files <= before.files and now.threads <= before.threads and now.resident <= most

        after = self._totals.after = settled(pid, holds)
        if not holds(after):
            self._fault(f"something leaked: {after} instead of {before}: {sorted(open_files(pid))} {threads(pid)}")

    def _read_log(self) -> None:
        try:
            with self._daemon.connect() as wikid:
                if wikid.ping().pid != self._daemon.pid:
                    self._fault("another process answers")
        except WikidError as error:
            self._fault(f"the daemon is gone: {error}")
        for line in self._daemon.log_text().splitlines():
            if not line.startswith("{"):
                if line:
                    self._fault(f"its output: {line}")
                continue
            event = orjson.loads(line)
            if event.get("level") in ("error", "critical") or "trace" in event:
                self._fault(f"its log: {line}")

    # -- keeping count -------------------------------------------------------------------------------------------------

    @property
    def _stopped(self) -> bool:
        return len(self._totals.differences) >= MOST_FAULTS

    def _count(self, stream: str) -> None:
        with self._guard:
            self._totals.inputs[stream] = self._totals.inputs.get(stream, 0) + 1

    def _note(self, answer: bytes) -> None:
        found = _KIND.search(answer)
        kind = found[1].decode() if found else "result"
        with self._guard:
            self._totals.answers += 1
            self._totals.kinds[kind] = self._totals.kinds.get(kind, 0) + 1

    def _fault(self, words: str, data: bytes = b"") -> None:
        shown = data if len(data) <= SHOWN_BYTES else data[:SHOWN_BYTES] + b" ... %d bytes" % len(data)
        with self._guard:
            if len(self._totals.differences) < MOST_FAULTS:
                self._totals.differences.append(f"{words}: {shown!r}" if data else words)


def _may_close(framing: FramingName, message: bytes) -> bool:
    """Whether nothing can follow the message by its framing's own rules."""
    if len(message) > LIMITS.message_bytes:
        return True
    try:
        message.decode()
    except UnicodeDecodeError:
        return framing == "websocket"
    return False
