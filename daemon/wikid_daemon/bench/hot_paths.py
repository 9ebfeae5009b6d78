"""The paths that every call or every saved file takes, each as a small piece of work that is always the same.

`python -m wikid_daemon.bench.hot_paths FOLDER [NAME…]` measures them, all or those, and prints one JSON object: in a
process of their own, because what ran before would change what they cost.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Final

import structlog

from wikid_daemon.bench import cost
from wikid_daemon.bench.asking import Asking
from wikid_daemon.bench.cost import Work
from wikid_daemon.bench.hot_ground import SAMPLE, Ground
from wikid_daemon.calls import CallContext
from wikid_daemon.core import settings
from wikid_daemon.core.chunking import chunk
from wikid_daemon.core.confidence import EXPLICIT_FLOOR
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.manifest import Known, plan
from wikid_daemon.core.modes import Mode
from wikid_daemon.index.catalog import Catalog
from wikid_daemon.index.late_interaction import Asked, Passage
from wikid_daemon.index.lucene import LexicalIndex
from wikid_daemon.index.pages import lexical_chunks
from wikid_daemon.recall import MAX_RESULTS, Recaller
from wikid_daemon.settings_files import Effective
from wikid_daemon.transport.session import Session, Switchboard
from wikid_daemon.vault.event_log import EventLog
from wikid_daemon.vault.scan import scan
from wikid_protocol import messages
from wikid_protocol.decode import decode
from wikid_protocol.memories import Pong
from wikid_protocol.messages import Call
from wikid_protocol.methods import Method, RecallParams

LIMIT: Final = 40  # chunks that a first look asks of the engine
RECALLS: Final = 5  # in one run
CANDIDATES: Final = 10
LINES: Final = 20
PONG: Final = Pong(version="0", pid=1)
IMPORT_CLIENT: Final = "from wikid_client import Client"
HELP: Final = "import sys; from wikid_client.cli import main; sys.exit(main(['--help']))"
IMPORT_DAEMON: Final = "import wikid_daemon.app"


HotPath = Callable[[Ground], Work | None]
"""Makes the work ready; None where what it needs is not on this machine."""


# -- processes: first, because a process with a Java machine in it should start no others --------------------------


def client_import(ground: Ground) -> Work:
    """A program that uses the client, up to its first call."""
    return _process(ground, IMPORT_CLIENT)


def command_help(ground: Ground) -> Work:
    """The command with the least to do."""
    return _process(ground, HELP)


def daemon_import(ground: Ground) -> Work:
    """All that the daemon loads before it answers."""
    return _process(ground, IMPORT_DAEMON)


def _process(ground: Ground, program: str) -> Work:
    command = [sys.executable, "-P", "-c", program]

    def work() -> None:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=ground.folder, check=True)

    return Work(work, clock=cost.children)


# -- a saved file ------------------------------------------------------------------------------------------------------


def parse(ground: Ground) -> Work:
    """Bytes of a page → frontmatter, Markdown, links."""
    pages = [(each.path, each.text.encode()) for each in ground.sample]
    return Work(lambda: [parse_page(path, data, strict=True) for path, data in pages], SAMPLE)


def cut(ground: Ground) -> Work:
    """A parsed page → chunks."""
    parsed = [parse_page(each.path, each.text.encode(), strict=True).document for each in ground.sample]
    documents = [each for each in parsed if each is not None]
    return Work(lambda: [chunk(each) for each in documents], len(documents))


def scan_unchanged(ground: Ground) -> Work:
    """Every file of a vault looked at, none of them changed."""
    vault = ground.scanned
    known = {path: Known(stamp, "") for path, stamp in scan(vault).entries.items()}
    return Work(lambda: plan(known, scan(vault)), len(known))


def catalog_page(ground: Ground) -> Work:
    """A changed page written into the catalog, in a transaction of its own."""
    catalog = ground.open.enter_context(closing(Catalog(ground.place("catalog") / "catalog.sqlite")))
    versions = itertools.cycle([ground.parsed("one"), ground.parsed("other")])

    def work() -> None:
        for page in next(versions):
            with catalog.write() as generation:
                catalog.put(page, generation)

    return Work(work, SAMPLE)


def lucene_page(ground: Ground) -> Work:
    """A page's documents filled and indexed; the twenty of a batch are shown together."""
    index = ground.open.enter_context(closing(LexicalIndex(ground.place("lucene"))))
    pages = [lexical_chunks(page, range(1, len(page.chunks) + 1)) for page in ground.parsed()]

    def work() -> None:
        for number, chunks in enumerate(pages):
            index.put(number, chunks)
        index.refresh()

    return Work(work, SAMPLE)


def event_append(ground: Ground) -> Work:
    """A signal appended to the event log."""
    log = EventLog(ground.place("meta"), "bench")
    event = {"kind": "page_opened", "page": ground.sample[0].path, "session": "bench"}
    return Work(lambda: expect(log.offer(event)))


# -- a recall ----------------------------------------------------------------------------------------------------------


def lexical_search(ground: Ground) -> Work:
    """The engine: words → chunks."""
    store, queries = ground.vault.store, ground.queries
    return Work(lambda: [store.lexical(text, LIMIT) for text in queries], len(queries))


def lexical_recall(ground: Ground) -> Work:
    """A whole recall by words alone, ten results."""
    return _recall(ground, "lexical")


def hybrid_recall(ground: Ground) -> Work:
    """A whole recall by words and vectors, ten results; the query's vector costs nearly nothing here."""
    return _recall(ground, "hybrid")


def _recall(ground: Ground, mode: Mode) -> Work:
    recaller, vaults = Recaller(lambda: ground.models), [ground.vault.applied]
    decided, _ = settings.decide([settings.defaults("pi")])
    effective = Effective(settings.settings_of(decided), decided, ())
    asked = [RecallParams(query=text, mode=mode, max_results=MAX_RESULTS) for text in ground.queries[:RECALLS]]

    def work() -> None:
        answers = [recaller.recall(each, vaults, effective, lambda: False) for each in asked]
        expect([bundle for each in answers for bundle in each.bundles])

    return Work(work, len(asked))


def assembly(ground: Ground) -> Work:
    """What was found → judged, merged, grouped, packed bundles."""
    asking = Asking(ground.vault, ground.models)
    policy = asking.policy(EXPLICIT_FLOOR, automatic=False)
    found = [asking.looked(text, "lexical") for text in ground.queries[:RECALLS]]
    return Work(lambda: expect([bundle for each in found for bundle in each.bundles(policy)]), len(found))


def query_vector(ground: Ground) -> Work | None:
    """A query's vector by the embedding model."""
    embedder, queries = ground.embedder(), ground.queries
    if embedder is None:
        return None
    return Work(lambda: [embedder.embed_query(text) for text in queries], len(queries))


def late_interaction(ground: Ground) -> Work | None:
    """Ten candidates judged by their tokens, none of them seen before."""
    reranker, numbers = ground.reranker(), itertools.count()
    if reranker is None:
        return None
    asked = Asked(ground.queries[0], lambda _word: 0.5)
    texts = [page.chunks[0].text for page in ground.parsed()[:CANDIDATES]]

    def work() -> None:
        passages = [Passage(str(next(numbers)).encode(), text) for text in texts]
        expect(reranker.scores(asked, passages, lambda: float("inf")))

    # its own thread does the work
    return Work(work, CANDIDATES, time.process_time)


# -- the wire ----------------------------------------------------------------------------------------------------------


def protocol(ground: Ground) -> Work:
    """A recall's line decoded, and its answer encoded."""
    line = messages.request(1, "recall", {"query": ground.queries[0], "max_results": MAX_RESULTS})
    decided, _ = settings.decide([settings.defaults("pi")])
    effective = Effective(settings.settings_of(decided), decided, ())
    params = RecallParams(query=ground.queries[0], mode="lexical", max_results=MAX_RESULTS)
    answer = Recaller(lambda: ground.models).recall(params, [ground.vault.applied], effective, lambda: False)

    def work() -> None:
        call = messages.read_call(messages.parse(line))
        assert isinstance(call, Call)
        decode(RecallParams, call.params)
        messages.result(call.id, answer)

    return Work(work)


def session_line(ground: Ground) -> Work:
    """A line through a client's session: call, task, answer."""
    loop = ground.open.enter_context(closing(asyncio.new_event_loop()))
    output = _Answers()
    session = Session(1, Switchboard(_Pongs(), lambda _: None), output)
    lines = [messages.request(number, "ping", {}) for number in range(LINES)]
    expected = messages.result(LINES - 1, PONG)

    async def converse() -> None:
        for line in lines:
            session.receive(line)
        await session.settled()

    def work() -> None:
        loop.run_until_complete(converse())
        expect(output.last == expected)

    return Work(work, LINES)


class _Pongs:
    """Answers everything alike, at once."""

    async def call(self, _method: Method, _params: object, _context: CallContext) -> object:
        return PONG


class _Answers:
    """Keeps the last answer that a session gives."""

    def __init__(self) -> None:
        self.last = b""

    def answer(self, line: bytes) -> None:
        self.last = line

    def event(self, _line: bytes) -> bool:
        return True


def expect(result: object) -> None:
    """A path that does nothing must not pass for a fast one. AssertionError."""
    if not result:
        raise AssertionError("a hot path gave no result")


PATHS: Final[Mapping[str, HotPath]] = {
    each.__name__: each
    for each in (
        client_import,
        command_help,
        daemon_import,
        parse,
        cut,
        scan_unchanged,
        catalog_page,
        event_append,
        session_line,
        query_vector,
        late_interaction,
        lucene_page,
        lexical_search,
        lexical_recall,
        hybrid_recall,
        assembly,
        protocol,
    )
}


def measure(
    ground: Ground, names: Collection[str] = PATHS.keys(), *, seconds: float = cost.RUN_SECONDS
) -> cost.Measured:
    """The cost of each named path that can be taken here, for `seconds` of processor time each."""
    paths, micros = dict[str, float](), dict[str, float]()
    for name, path in PATHS.items():
        work = path(ground) if name in names else None
        if work is not None:
            found = cost.measure(work, seconds=seconds)
            paths[name], micros[name] = found.value, found.micros
    return cost.Measured(paths, micros)


def main(folder: Path, names: Collection[str]) -> cost.Measured:
    """Measure on a ground of full size, in the folder."""
    with closing(Ground(folder)) as ground:
        return measure(ground, names or PATHS.keys())


if __name__ == "__main__":
    # standard output is the answer's
    structlog.configure(
        # as in the daemon; what is below it costs next to nothing
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    print(json.dumps(asdict(main(Path(sys.argv[1]), sys.argv[2:]))))
