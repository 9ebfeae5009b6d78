"""Whatever was saved, moved, broken or crashed: an index kept up to date equals one that is built from the files.

WIKID_INVARIANT_EXAMPLES and WIKID_INVARIANT_STEPS ask for a longer campaign, with other histories each time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from builders import FakeEmbedder, until, write
from comparison import contents, differences, fresh_build, hashes, settle, start_indexer
from wikid_daemon.index.catalog import Catalog
from wikid_daemon.index.lucene import LexicalIndex
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.mirror import Mirror
from wikid_daemon.vault.vault import init_vault

CAMPAIGN: Final = "WIKID_INVARIANT_EXAMPLES" in os.environ
EXAMPLES: Final = int(os.environ.get("WIKID_INVARIANT_EXAMPLES", "20"))
STEPS: Final = int(os.environ.get("WIKID_INVARIANT_STEPS", "20"))

ANCHOR: Final = "anchor.md"  # never touched: an emptied vault counts as unmounted
PATHS: Final = (
    *("a.md", "A.md", "b.md", "x/a.md", "x/b.md", "x/y/c.md", "X/a.md", "plan.md", "plan.md/inner.md"),
    *("x.md/a.md", "x", "caf\u00e9.md", "cafe\u0301.md", "notes.txt", ".hidden/a.md", "d (conflicted copy 2026).md"),
)
FOLDERS: Final = ("x", "x/y", "X", "plan.md", "moved", "moved/deep", "x.md")
WORDS: Final = ("harbour", "lantern", "tide", "ledger", "pilot", "rope", "storm", "gulls", "quay_v2.1", "灯台")
MALFORMED: Final = (b"", b"---\n", b"\xff\xfe\x00", b"---\ntitle: [\n---\n\nstorm\n", b"storm")
QUERIES: Final = (*WORDS, "harbour lantern tide", "the storm and the rope", "ledger of the quay_v2.1")

paths = st.sampled_from(PATHS)
picks = st.integers(0, 30)  # one of the files that exist
folders = st.sampled_from(FOLDERS)
notes = st.builds(
    lambda title, words, sections, whole: (title, tuple(words), sections, whole),
    st.sampled_from(WORDS),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6),
    st.sampled_from([1, 1, 1, 5]),
    st.sampled_from([True, True, True, True, False]),
)
Note = tuple[str, tuple[str, ...], int, bool]
saves = st.lists(st.tuples(paths, notes), max_size=4)


def text_of(note: Note) -> str:
    """A page, of several chunks where it has more sections, or one whose frontmatter is broken."""
    title, words, sections, whole = note
    body = "\n\n".join(f"## Part {number}\n\n" + " ".join(words) * (12 * sections) for number in range(sections))
    close = "---\n" if whole else ""
    return f"---\ntype: concept\ntitle: {title}\n{close}\n# {title}\n\n{body}\n"


# -- crashes -----------------------------------------------------------------------------------------------------------

# where a process may die: after each of these has begun or ended
POINTS: Final[tuple[tuple[type, str], ...]] = (
    (Catalog, "put"),
    (Catalog, "remove"),
    (Catalog, "set_state"),
    (Catalog, "touch"),
    (Catalog, "add_vectors"),
    (Catalog, "drop_tombstones"),
    (LexicalIndex, "put"),
    (LexicalIndex, "refresh"),
    (LexicalIndex, "commit"),
    (Mirror, "apply"),
    (Mirror, "remove"),
    (Mirror, "write_manifest"),
)
UNCOMMITTED: Final = "LexicalIndex.commit"  # until which Lucene knows less than the catalog
POINT_NAMES: Final = tuple(f"{owner.__name__}.{name}" for owner, name in POINTS)

Hook = Callable[[str], None]
_hook: list[Hook] = []


@contextmanager
def crash_points() -> Iterator[None]:
    """Tells the hook of each point that a thread passes, before and after."""
    patch = pytest.MonkeyPatch()
    for owner, name in POINTS:
        patch.setattr(owner, name, _observed(getattr(owner, name), f"{owner.__name__}.{name}"))
    try:
        yield
    finally:
        patch.undo()


def _observed(method: Callable[..., Any], point: str) -> Callable[..., Any]:
    @wraps(method)
    def observed(*given: Any, **named: Any) -> Any:
        for hook in _hook:
            hook(f"before {point}")
        result = method(*given, **named)
        for hook in _hook:
            hook(f"after {point}")
        return result

    return observed


def photograph(state: Path, image: Path) -> None:
    """What a process that dies now leaves: the files as they are, and none of what it only remembers."""
    for folder, _, names in os.walk(state):
        place = image / Path(folder).relative_to(state)
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            try:
                shutil.copy2(Path(folder, name), place / name)
            except FileNotFoundError:
                continue  # a merge of Lucene's own threads may end meanwhile


# -- the machine -------------------------------------------------------------------------------------------------------


class NeverStale(RuleBasedStateMachine):
    """One vault, one indexer at a time, and a person, a sync tool or a crash at work."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="wikid-invariant-"))
        self.fake = FakeEmbedder()
        self.indexer: Indexer | None = None
        self.builds = 0

    @initialize(strict=st.booleans(), first=saves)
    def open(self, strict: bool, first: list[tuple[str, Note]]) -> None:
        root = self.folder / "vault"
        self.root = init_vault(root, "vault", "personal") if strict else root
        self.pages = root / ".llm-wiki" / "wiki" if strict else root
        write(self.pages, ANCHOR, text_of((WORDS[0], WORDS[:3], 1, True)))
        self.save_all(first)
        self.start()

    def start(self) -> None:
        self.indexer = start_indexer(self.root, self.folder / "state", self.fake)

    def close(self) -> Indexer:
        indexer, self.indexer = self.indexer, None
        assert indexer is not None
        indexer.close()
        return indexer

    # -- what people do

    def save_all(self, given: list[tuple[str, Note]]) -> None:
        for path, note in given:
            self.make_way(path)
            write(self.pages, path, text_of(note))

    def make_way(self, path: str) -> None:
        """Whatever else is at the path, or is a file where a folder is needed, goes."""
        place = self.pages / path
        for parent in place.relative_to(self.pages).parents:
            if (self.pages / parent).is_file():
                (self.pages / parent).unlink()
        if place.is_dir():
            shutil.rmtree(place)

    @rule(path=paths, note=notes)
    def save(self, path: str, note: Note) -> None:
        self.save_all([(path, note)])

    @rule(path=paths, note=notes)
    def save_atomically(self, path: str, note: Note) -> None:
        self.make_way(path)
        temporary = write(self.pages, f"{path}.tmp-1-a", text_of(note))
        os.replace(temporary, self.pages / path)

    def existing(self, pick: int) -> Path | None:
        files = [path for path in sorted(self.pages.rglob("*")) if path.is_file() and path.name != ANCHOR]
        return files[pick % len(files)] if files else None

    @rule(pick=picks, word=st.sampled_from(["gulls", "storm"]))
    def edit_without_a_trace(self, pick: int, word: str) -> None:
        """The same size and the same modification time."""
        place = self.existing(pick)
        if place is not None:
            before, data = place.stat(), place.read_bytes()
            old, new = word.encode(), {"gulls": b"skuas", "storm": b"gales"}[word]
            place.write_bytes(data.replace(old, new) if old in data else data.replace(new, old))
            os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))

    @rule(pick=picks)
    def touch(self, pick: int) -> None:
        place = self.existing(pick)
        if place is not None:
            os.utime(place)

    @rule(
        path=paths, data=st.sampled_from([b"", b"---\n", b"\xff\xfe\x00", b"---\ntitle: [\n---\n\nstorm\n", b"storm"])
    )
    def save_something_malformed(self, path: str, data: bytes) -> None:
        self.make_way(path)
        write(self.pages, path, data)

    @rule(pick=picks)
    def delete(self, pick: int) -> None:
        place = self.existing(pick)
        if place is not None:
            place.unlink()

    @rule(folder=folders)
    def delete_folder(self, folder: str) -> None:
        if (self.pages / folder).is_dir():
            shutil.rmtree(self.pages / folder)

    @rule(pick=picks, to=paths)
    def rename(self, pick: int, to: str) -> None:
        place = self.existing(pick)
        if place is not None:
            self.move(place, to)

    @rule(pick=picks)
    def rename_by_case(self, pick: int) -> None:
        place = self.existing(pick)
        if place is not None:
            self.move(place, place.relative_to(self.pages).as_posix().swapcase().replace(".MD", ".md"))

    def move(self, place: Path, to: str) -> None:
        self.make_way(to)
        if place.exists():
            (self.pages / to).parent.mkdir(parents=True, exist_ok=True)
            os.replace(place, self.pages / to)

    @rule(folder=folders, to=folders)
    def move_folder(self, folder: str, to: str) -> None:
        source, target = self.pages / folder, self.pages / to
        if source.is_dir() and not f"{to}/".startswith(f"{folder}/"):
            self.make_way(to)
            if source.is_dir():
                target.unlink(missing_ok=True)
                target.parent.mkdir(parents=True, exist_ok=True)
                source.rename(target)

    # -- what happens to the process

    @rule(meanwhile=saves)
    def restart(self, meanwhile: list[tuple[str, Note]]) -> None:
        self.close()
        self.save_all(meanwhile)
        self.start()

    @rule(
        point=st.sampled_from((*POINT_NAMES, *[UNCOMMITTED] * 4)),
        when=st.sampled_from(["before", "before", "after"]),
        passes=st.sampled_from([0, 0, 0, 1, 2, 3]),
        work=saves,
        meanwhile=saves,
        gone=picks,
    )
    def crash(
        self,
        point: str,
        when: str,
        passes: int,
        work: list[tuple[str, Note]],
        meanwhile: list[tuple[str, Note]],
        gone: int,
    ) -> None:
        """The process dies at a point of its work, or soon after it; then the files change before the next start."""
        indexer = self.indexer
        assert indexer is not None
        state, image, left = indexer.vault.state, self.folder / "image", [passes]
        thread = indexer._thread

        def hook(passed: str) -> None:
            if passed == f"{when} {point}" and threading.current_thread() is thread and not image.exists():
                if left[0] == 0:
                    photograph(state, image)
                left[0] -= 1

        settle(indexer)  # so that the crash meets work beyond what is durable
        _hook.append(hook)
        self.delete(gone)
        self.save_all(work)
        settle(indexer)
        _hook.clear()
        if not image.exists():
            indexer._ask(lambda: photograph(state, image)).result(30)
        self.close()
        shutil.rmtree(state)
        image.rename(state)
        self.save_all(meanwhile)
        self.start()

    # -- what must hold

    @precondition(lambda self: self.indexer is not None)
    @rule()
    def equals_a_fresh_build(self) -> None:
        indexer = self.indexer
        assert indexer is not None
        self.builds += 1
        with fresh_build(self.root, self.folder / f"fresh{self.builds}", self.fake) as fresh:
            until(lambda: hashes(indexer) == hashes(fresh), "events alone telling of every change")
            settle(indexer)
            found, wanted = (contents(each, QUERIES, self.fake) for each in (indexer, fresh))
        assert not differences(found, wanted), "\n".join(differences(found, wanted))
        assert (indexer.state.state, indexer.state.pending, indexer.stale) == ("ready", 0, False)
        assert len(found.vectors) == len(found.chunks)

    def teardown(self) -> None:
        try:
            if self.indexer is not None:
                self.equals_a_fresh_build()
        finally:
            if self.indexer is not None:
                self.close()
            shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.parametrize(("strict", "when"), [(False, "before"), (True, "after")], ids=["plain", "strict"])
def test_a_crash_at_any_point_of_an_update_loses_nothing(strict: bool, when: str) -> None:
    machine = NeverStale()
    try:
        machine.open(strict=strict, first=[(path, (WORDS[1], WORDS[:2], 1, True)) for path in ("a.md", "b.md")])
        with crash_points():
            for number, point in enumerate(POINT_NAMES):
                note = (WORDS[number % len(WORDS)], WORDS[:3], 1, True)
                work = [("x/a.md", note), ("x/b.md", (*note[:3], number % 2 == 0)), (f"n{number}.md", note)]
                machine.crash(point, when, 0, work=work, meanwhile=[("b.md", note)], gone=number)
                machine.equals_a_fresh_build()
    finally:
        machine.teardown()


@pytest.mark.timeout(0 if CAMPAIGN else 300)
def test_an_index_kept_up_to_date_equals_a_fresh_build() -> None:
    with crash_points():
        run_state_machine_as_test(
            NeverStale,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                derandomize=not CAMPAIGN,
                database=None,
                # a shorter history would take minutes to find; each step is in the report
                phases=(Phase.generate,),
                deadline=None,
                print_blob=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
