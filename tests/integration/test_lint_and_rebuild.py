"""Lint and rebuilds over the sample vaults and over vaults that are harmed on purpose, with real indexes."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from unicodedata import normalize

import orjson
import pytest

from builders import HANG_GUARD_SECONDS, Clock, base_notes, page, tree, write
from wikid_daemon import files, linting, surveying
from wikid_daemon.calls import CallContext
from wikid_daemon.core.document import Parsed, parse_page
from wikid_daemon.core.survey import Survey
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.index import jvm
from wikid_daemon.indexer import Indexer
from wikid_daemon.linting import Linting
from wikid_daemon.rebuilding import Rebuilding
from wikid_daemon.threads import Cancelled
from wikid_daemon.unserved import UnknownVault
from wikid_daemon.vault.registry import Registry
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vaults import Vaults
from wikid_protocol import methods as m
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused
from wikid_protocol.limits import LIMITS

DATA = Path(__file__).parents[1] / "data"
NOW = datetime(2026, 7, 5, 7, tzinfo=UTC)  # when the files of the sample vaults were generated
GENERATED = ("meta/registry.json", "meta/backlinks.json")
SampleVault = Callable[[str], Path]


class Curating:
    """Vaults with real indexes, and what lints and rebuilds them at a fixed time."""

    def __init__(self, home: Path) -> None:
        self.home = home
        environment = {"HOME": str(home / "nobody")}
        self.vaults = Vaults(Registry(home / "vaults.json"), home / "state", self._indexer, environment)
        logs = EventLogs(home / "state")
        self._linting = Linting(self.vaults, logs, Clock(NOW))
        self.replayed: list[Path] = []
        self._rebuilding = Rebuilding(
            self.vaults, logs, lambda indexer: self.replayed.append(indexer.vault.root), Clock(NOW)
        )

    def _indexer(self, vault: Vault, machine: str) -> Indexer:
        return Indexer(vault, machine, lambda: None, lambda _: None, jvm.detach)

    def add(self, root: Path) -> Vault:
        return self.vaults.add(root, None).vault

    def lint(self, root: Path, cancelled: threading.Event | None = None) -> r.LintReport:
        """The one report on a vault."""
        (report,) = self._linting.lint(m.LintParams(vault=str(root)), call(cancelled)).vaults
        return report

    def rebuild(
        self, root: Path | None = None, *, cwd: Path | None = None, cancelled: threading.Event | None = None
    ) -> r.MetaRebuild:
        params = m.RebuildMetaParams(vault=None if root is None else str(root), cwd=None if cwd is None else str(cwd))
        (done,) = self._rebuilding.rebuild(params, call(cancelled)).vaults
        return done


def call(cancelled: threading.Event | None = None) -> CallContext:
    return CallContext(None, cancelled or threading.Event(), lambda _token, _message, _percentage: None, 1)


@pytest.fixture
def curating(tmp_path: Path) -> Iterator[Curating]:
    made = Curating(tmp_path / "home")
    yield made
    made.vaults.close()


@pytest.fixture
def okf(tmp_path: Path) -> Path:
    """A vault in OKF mode with one page."""
    root = tmp_path / "okf"
    write(root, ".llm-wiki/config.json", '{"name": "Notes", "knowledge_format": "okf-0.2"}\n')
    write(root, ".llm-wiki/wiki/concepts/a.md", page("[[concepts/a]]", title="A"))
    return root


def codes(report: r.LintReport | r.MetaRebuild, path: str = "") -> list[str]:
    return [each.code for each in report.findings if not path or each.path == path]


def generated(base: Path) -> dict[str, str]:
    """The hashes of everything but what wikid keeps for itself."""
    return {path: digest for path, digest in tree(base).items() if not path.startswith("meta/wikid/")}


# -- rebuilds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["personal", "project"])
def test_a_rebuild_of_a_sample_vault_gives_the_bytes_it_has(
    name: str, curating: Curating, sample_vault: SampleVault
) -> None:
    base = sample_vault(name) / ".llm-wiki"
    curating.add(base.parent)
    before = generated(base)
    for path in GENERATED:
        (base / path).unlink()
    done = curating.rebuild(base.parent)
    after = generated(base)
    assert {path: after[path] for path in before} == before
    assert after.keys() - before.keys() == {"meta/index.md", "meta/log.md"}
    assert done.rebuilt
    # its indexes and its log are right as they are
    assert done.written == (*GENERATED, "meta/index.md", "meta/log.md")


@pytest.mark.parametrize("name", ["personal", "project"])
def test_a_rebuild_tells_what_the_extension_tells(name: str, curating: Curating, sample_vault: SampleVault) -> None:
    expected = json.loads((DATA / "expected" / f"{name}.rebuild-diagnostics.json").read_text())
    curating.add(sample_vault(name))
    told = curating.rebuild(sample_vault(name)).findings
    assert [{"severity": each.severity, "code": each.code, "path": each.path} for each in told] == expected


def test_packets_without_a_page_are_counted(curating: Curating, sample_vault: SampleVault) -> None:
    curating.add(sample_vault("personal"))
    done = curating.rebuild(sample_vault("personal"))
    assert (done.pages, done.packets_without_page) == (40, 2)


def test_a_second_rebuild_changes_nothing(curating: Curating, okf: Path) -> None:
    write(okf, ".llm-wiki/meta/events.jsonl", '{"timestamp":"2026-01-01T00:00:00Z","kind":"digest"}\n')
    write(okf, ".llm-wiki/wiki/odd folder (1)/ü.md", page("Text.", title='"[x] two\\nlines"'))
    curating.add(okf)
    first = curating.rebuild(okf)
    assert {path for path in first.written if path.startswith("wiki/")} == {
        *("wiki/index.md", "wiki/log.md", "wiki/concepts/index.md", "wiki/odd folder (1)/index.md")
    }
    after = generated(okf / ".llm-wiki")
    second = curating.rebuild(okf)
    assert generated(okf / ".llm-wiki") == after
    assert all(path.startswith("meta/") for path in second.written)
    assert second.findings == first.findings
    assert {"index_hand_written", "generated_file_edited"}.isdisjoint(codes(curating.lint(okf)))


def test_feedback_is_replayed_after_a_rebuild_and_not_without_one(curating: Curating, okf: Path) -> None:
    curating.add(okf)
    curating.rebuild(okf)
    assert curating.replayed == [okf]
    write(okf, ".llm-wiki/wiki/broken.md", "no frontmatter\n")
    curating.rebuild(okf)
    assert curating.replayed == [okf]


def test_events_that_cannot_be_read_are_told_and_what_that_means_for_feedback(curating: Curating, okf: Path) -> None:
    curating.add(okf)
    assert codes(curating.lint(okf), "meta/events.jsonl") == []
    ours = '{"timestamp":"2026-01-01T00:00:00Z","kind":"recall_feedback"}\n'
    write(okf, ".llm-wiki/meta/events.jsonl", "{\n" + ours)
    assert codes(curating.lint(okf), "meta/events.jsonl") == ["event_invalid_json"]
    write(okf, ".llm-wiki/meta/events.jsonl", ours + "{\n" + ours)
    assert codes(curating.lint(okf), "meta/events.jsonl") == ["event_invalid_json", "feedback_disabled"]


def test_one_broken_page_stops_a_rebuild_and_every_generated_file_stays(
    curating: Curating, sample_vault: SampleVault
) -> None:
    base = sample_vault("personal") / ".llm-wiki"
    write(base, "wiki/concepts/broken.md", "no frontmatter\n")
    curating.add(base.parent)
    before = generated(base)
    done = curating.rebuild(base.parent)
    assert not done.rebuilt
    assert [(each.severity, each.code, each.path) for each in done.findings] == [
        ("error", "frontmatter_missing", "concepts/broken.md")
    ]
    assert (done.written, done.removed, generated(base)) == ((), (), before)


def test_the_ugly_vault_is_not_rebuilt_for_all_its_errors(curating: Curating, sample_vault: SampleVault) -> None:
    expected = json.loads((DATA / "expected" / "ugly.discovery.json").read_text())["diagnostics"]
    base = sample_vault("ugly") / ".llm-wiki"
    curating.add(base.parent)
    before = generated(base)
    done = curating.rebuild(base.parent)
    told = sorted((normalize("NFC", each.path), each.severity, each.code) for each in done.findings)
    assert told == sorted((normalize("NFC", path), severity, code) for path, severity, code in expected)
    assert (done.rebuilt, generated(base)) == (False, before)


@pytest.mark.parametrize("text", ["not JSON", '{"knowledge_format": "okf-9"}'])
def test_a_blocked_vault_is_not_touched(text: str, curating: Curating, okf: Path) -> None:
    curating.add(okf)
    write(okf, ".llm-wiki/config.json", text)  # after it was opened: what counts is what it says now
    before = generated(okf / ".llm-wiki")
    with pytest.raises(RequestRefused) as refused:
        curating.rebuild(okf)
    assert refused.value.kind == "vault_blocked"
    assert generated(okf / ".llm-wiki") == before


def test_a_plain_folder_has_nothing_to_rebuild(curating: Curating, tmp_path: Path) -> None:
    write(tmp_path / "plain", "a.md", "# A\n")
    curating.add(tmp_path / "plain")
    with pytest.raises(RequestRefused) as refused:
        curating.rebuild(tmp_path / "plain")
    assert refused.value.kind == "invalid_params"
    assert tree(tmp_path / "plain").keys() == {"a.md"}


def test_a_read_only_vault_is_refused(curating: Curating, okf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wikid_daemon.vault.vault._is_writable", lambda *_folders: False)
    curating.add(okf)
    before = tree(okf)
    with pytest.raises(RequestRefused) as refused:
        curating.rebuild(okf)
    assert refused.value.kind == "read_only"
    assert tree(okf) == before


def test_without_a_vault_named_only_the_active_one_is_rebuilt(curating: Curating, okf: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(okf, tmp_path / "other"))
    curating.add(okf)
    curating.add(other)
    assert curating.rebuild(cwd=okf).rebuilt
    assert not (other / ".llm-wiki" / "meta" / "registry.json").exists()
    with pytest.raises(RequestRefused):
        curating.rebuild(cwd=tmp_path)
    with pytest.raises(UnknownVault):
        curating.rebuild(tmp_path / "nowhere")


def test_a_hand_written_index_is_kept_and_told(curating: Curating, okf: Path) -> None:
    wiki = okf / ".llm-wiki" / "wiki"
    mine = {
        "index.md": '---\nokf_version: "0.2"\n---\n\n# Notes\n\nStart with the harbour.\n',
        "concepts/index.md": "# concepts\n\nRead a first.\n",
        "empty/Index.md": "# A folder without pages\n",
        "log.md": "# Log\n\nToday we met.\n",
    }
    for path, text in mine.items():
        write(wiki, path, text)
    write(okf, ".llm-wiki/meta/events.jsonl", '{"timestamp":"2026-01-01T00:00:00Z","kind":"digest"}\n')
    curating.add(okf)
    done = curating.rebuild(okf)
    assert {path: (wiki / path).read_text() for path in mine} == mine
    assert done.removed == ()
    assert {each.path: each.code for each in done.findings if each.code.endswith("hand_written")} == {
        "index.md": "index_hand_written",
        "concepts/index.md": "index_hand_written",
        "empty/Index.md": "index_hand_written",
        "log.md": "log_hand_written",
    }


def test_generated_indexes_of_folders_without_pages_go_and_others_follow_the_pages(
    curating: Curating, okf: Path
) -> None:
    wiki = okf / ".llm-wiki" / "wiki"
    write(wiki, "gone/index.md", "# gone\n\n## Concepts\n\n- [B](b.md)\n")
    write(wiki, "concepts/index.md", "# concepts\n\n## Concepts\n\n- [Old](old.md)\n")
    curating.add(okf)
    done = curating.rebuild(okf)
    assert done.removed == ("wiki/gone/index.md",)
    assert not (wiki / "gone" / "index.md").exists()
    assert (wiki / "concepts" / "index.md").read_text() == "# concepts\n\n## Concepts\n\n- [A](a.md)\n"
    assert (wiki / "index.md").read_text() == (
        '---\nokf_version: "0.2"\n---\n\n# Notes\n\n## Directories\n\n- [concepts/](concepts/)\n'
    )


def test_in_legacy_mode_nothing_below_the_pages_is_written(curating: Curating, sample_vault: SampleVault) -> None:
    wiki = sample_vault("project") / ".llm-wiki" / "wiki"
    before = tree(wiki)
    curating.add(sample_vault("project"))
    assert curating.rebuild(sample_vault("project")).rebuilt
    assert tree(wiki) == before


def test_an_index_that_is_edited_while_it_is_rebuilt_is_kept(
    curating: Curating, okf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = write(okf, ".llm-wiki/wiki/concepts/index.md", "# concepts\n")
    curating.add(okf)
    swap = files.replace_if_unchanged

    def late(path: Path, expected: bytes, data: bytes) -> bool:
        if path.name == "index.md" and path.parent.name == "concepts":
            index.write_text("# concepts\n\nMine.\n")
        return swap(path, expected, data)

    monkeypatch.setattr(files, "replace_if_unchanged", late)
    assert codes(curating.rebuild(okf), "concepts/index.md") == ["index_hand_written"]
    assert index.read_text() == "# concepts\n\nMine.\n"


def test_an_index_that_is_made_while_there_is_none_is_kept(
    curating: Curating, okf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curating.add(okf)
    create = files.create

    def late(path: Path, data: bytes) -> None:
        if path.parent.name == "concepts":
            path.write_text("Mine.\n")
        create(path, data)

    monkeypatch.setattr(files, "create", late)
    assert codes(curating.rebuild(okf), "concepts/index.md") == ["index_hand_written"]
    assert (okf / ".llm-wiki" / "wiki" / "concepts" / "index.md").read_text() == "Mine.\n"


def test_packets_that_cannot_be_listed_are_an_error_and_stop_rebuilds(
    curating: Curating, sample_vault: SampleVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = sample_vault("personal") / ".llm-wiki"
    curating.add(base.parent)
    before, listed = generated(base), os.listdir

    def refusing(path: Path) -> list[str]:
        if path == base / "raw" / "sources":
            raise PermissionError(13, "no")
        return listed(path)

    monkeypatch.setattr(os, "listdir", refusing)
    assert codes(curating.lint(base.parent), "raw/sources") == ["frontmatter_parse_error"]
    assert not curating.rebuild(base.parent).rebuilt
    assert generated(base) == before


def test_without_its_events_a_vault_keeps_its_logs(curating: Curating, sample_vault: SampleVault) -> None:
    base = sample_vault("personal") / ".llm-wiki"
    (base / "meta" / "events.jsonl").unlink()
    write(base, "meta/log.md", "the last there is\n")
    before = (base / "wiki" / "log.md").read_bytes()
    curating.add(base.parent)
    done = curating.rebuild(base.parent)
    assert "event_source_missing" in codes(done)
    assert (base / "wiki" / "log.md").read_bytes() == before
    assert (base / "meta" / "log.md").read_text() == "the last there is\n"


def test_a_disk_that_fails_leaves_whole_files(
    curating: Curating, sample_vault: SampleVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = sample_vault("project") / ".llm-wiki"
    curating.add(base.parent)
    before = generated(base)
    replace = os.replace

    def failing(source: Path, target: Path) -> None:
        if Path(target).name == "backlinks.json":
            raise OSError(28, "full")
        replace(source, target)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(RequestRefused) as refused:
        curating.rebuild(base.parent)
    assert (refused.value.kind, "disk full" in refused.value.message) == ("vault_unavailable", True)
    assert generated(base) == before


# -- lint --------------------------------------------------------------------------------------------------------------


def test_the_ugly_vault_has_the_codes_the_extension_gives(curating: Curating, sample_vault: SampleVault) -> None:
    discovery = json.loads((DATA / "expected" / "ugly.discovery.json").read_text())["diagnostics"]
    links = json.loads((DATA / "expected" / "ugly.links.json").read_text())
    events = json.loads((DATA / "expected" / "ugly.events.json").read_text())["codes"]
    curating.add(sample_vault("ugly"))
    report = curating.lint(sample_vault("ugly"))
    told = sorted((normalize("NFC", each.path), each.code) for each in report.findings if each.severity == "error")
    assert told == sorted((normalize("NFC", path), code) for path, _, code in discovery)
    wrong = [each for each in report.findings if each.code in ("link_unresolved", "link_path_escape")]
    assert sorted((each.path, each.code) for each in wrong) == sorted(
        (f"{page_id}.md", code) for page_id, expected in links.items() for code in expected["codes"]
    )
    lines = [[each.code, str(each.line)] for each in report.findings if each.path == "meta/events.jsonl"]
    assert sorted(lines) == sorted(events)


def test_the_sample_vaults_have_the_findings_they_were_made_with(curating: Curating, sample_vault: SampleVault) -> None:
    curating.add(sample_vault("personal"))
    report = curating.lint(sample_vault("personal"))
    assert codes(report, "concepts/collation-upgrade.md") == ["evidence_missing", "page_stale", "verification_outdated"]
    assert codes(report, "concepts/pgbouncer-breaks-prepared-statements.md") == [
        "conflict_unresolved",
        "contradiction_marker",
    ]
    # a placeholder, as the vault's description says
    assert codes(report, "analyses/resolution-2c9b1f6e.md") == ["resolution_id_mismatch"]
    assert (report.pages, report.errors) == (40, 0)
    assert sum(report.findings_by_code.values()) == report.warnings + report.hints == len(report.findings)


def test_what_is_noticed_while_a_vault_is_linted_is_no_stale_index(
    curating: Curating, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that was saved meanwhile, or one of which a busy system tells late, and once more."""

    def survey(indexer: Indexer, alive: Callable[[], None]) -> Survey:
        found = surveying.survey(indexer, alive)
        indexer.state.pending = 1
        return found

    base_notes(tmp_path / "notes", 2)
    curating.add(tmp_path / "notes")
    monkeypatch.setattr(linting, "survey", survey)
    assert "search_stale" not in curating.lint(tmp_path / "notes").findings_by_code


def test_lint_changes_nothing_at_all(curating: Curating, sample_vault: SampleVault) -> None:
    root = sample_vault("ugly")
    curating.add(root)
    curating.lint(root)
    before = generated(root / ".llm-wiki")
    curating.lint(root)
    assert generated(root / ".llm-wiki") == before


def test_generated_files_that_were_edited_or_are_behind_are_told_until_they_are_rebuilt(
    curating: Curating, sample_vault: SampleVault
) -> None:
    base = sample_vault("project") / ".llm-wiki"
    curating.add(base.parent)
    assert "generated_file_edited" not in codes(curating.lint(base.parent))
    registry = base / "meta" / "registry.json"
    registry.write_text(registry.read_text().replace("Outbox pattern", "Something else"))
    (base / "meta" / "backlinks.json").write_text("{")
    told = [each for each in curating.lint(base.parent).findings if each.code == "generated_file_edited"]
    assert [(each.severity, each.path) for each in told] == [
        ("warning", "meta/backlinks.json"),
        ("warning", "meta/registry.json"),
    ]
    curating.rebuild(base.parent)
    assert "generated_file_edited" not in codes(curating.lint(base.parent))


def test_hand_written_indexes_and_conflict_copies_are_told(curating: Curating, okf: Path) -> None:
    wiki = okf / ".llm-wiki" / "wiki"
    write(wiki, "concepts/index.md", "# concepts\n\nMine.\n")
    write(wiki, "concepts/a.sync-conflict-20260701-101112-ABCDEFG.md", page("A copy."))
    curating.add(okf)
    report = curating.lint(okf)
    assert codes(report, "concepts/index.md") == ["index_hand_written"]
    (copy,) = [each for each in report.findings if each.code == "conflict_copy"]
    assert copy.related == ("concepts/a",)


def test_a_vault_whose_config_cannot_be_read_says_only_that(curating: Curating, okf: Path) -> None:
    curating.add(okf)
    write(okf, ".llm-wiki/config.json", "{")
    report = curating.lint(okf)
    assert [(each.severity, each.code, each.path) for each in report.findings] == [
        ("error", "config_invalid_knowledge_format", "config.json")
    ]


def test_a_page_that_cannot_be_read_is_an_error_and_stops_rebuilds(
    curating: Curating, okf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(okf, ".llm-wiki/wiki/concepts/b.md", page("Text."))
    curating.add(okf)
    read = files.read_regular

    def refusing(path: Path, limit: int) -> files.FileBytes:
        if path.name == "b.md":
            raise PermissionError(13, "no")
        return read(path, limit)

    monkeypatch.setattr(files, "read_regular", refusing)
    report = curating.lint(okf)
    assert "frontmatter_parse_error" in codes(report, "concepts/b.md")
    assert not curating.rebuild(okf).rebuilt


def test_a_plain_folder_is_linted_for_what_applies_to_it(curating: Curating, tmp_path: Path) -> None:
    root = tmp_path / "plain"
    write(root, "a.md", "# A\n\n[[B]] [[nothing]]\n")
    write(root, "deep/B.md", "---\n: : broken\n---\n# B\n")
    curating.add(root)
    report = curating.lint(root)
    assert (report.errors, report.pages) == (0, 2)
    assert {"link_unresolved", "page_missing"} <= set(codes(report))
    assert not {"page_orphan", "evidence_missing", "concept_missing_type"} & set(codes(report))


def test_more_findings_than_an_answer_holds_are_counted(curating: Curating, tmp_path: Path) -> None:
    root = tmp_path / "plain"
    for number in range(60):
        write(root, f"n{number:02}.md", "".join(f"[[{'long' * 20}{each}]]\n" for each in range(100)))
    curating.add(root)
    report = curating.lint(root)
    assert report.warnings == 6_000
    assert report.findings_by_code == {"link_unresolved": 6_000, "page_missing": 100}
    assert 0 < len(report.findings) < 6_000
    assert len(orjson.dumps(report)) < LIMITS.answer_bytes


def test_a_folder_that_is_gone_is_refused(curating: Curating, okf: Path) -> None:
    curating.add(okf)
    curating.lint(okf)
    shutil.rmtree(okf / ".llm-wiki" / "wiki")
    with pytest.raises(RequestRefused) as refused:
        curating.rebuild(okf)
    assert refused.value.kind == "vault_unavailable"


# -- cancellation ------------------------------------------------------------------------------------------------------


@pytest.fixture
def unwanted(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, list[str]]:
    """What cancels a call when it looks at the second page, and the pages that were looked at."""
    cancelled, seen = threading.Event(), list[str]()

    def watched(path: str, data: bytes, *, strict: bool) -> Parsed:
        seen.append(path)
        if len(seen) == 2:
            cancelled.set()
        return parse_page(path, data, strict=strict)

    monkeypatch.setattr(surveying, "parse_page", watched)
    return cancelled, seen


def test_a_lint_that_nobody_waits_for_ends_at_the_next_page(
    curating: Curating, tmp_path: Path, unwanted: tuple[threading.Event, list[str]]
) -> None:
    base_notes(tmp_path / "plain", 9)
    curating.add(tmp_path / "plain")
    cancelled, seen = unwanted
    with pytest.raises(Cancelled):
        curating.lint(tmp_path / "plain", cancelled)
    assert len(seen) == 2


def test_a_rebuild_that_nobody_waits_for_ends_at_the_next_page_and_writes_nothing(
    curating: Curating, sample_vault: SampleVault, unwanted: tuple[threading.Event, list[str]]
) -> None:
    base = sample_vault("project") / ".llm-wiki"
    curating.add(base.parent)
    before = generated(base)
    cancelled, seen = unwanted
    with pytest.raises(Cancelled):
        curating.rebuild(base.parent, cancelled=cancelled)
    assert len(seen) == 2
    assert generated(base) == before


def test_a_rebuild_that_is_cancelled_while_it_writes_ends_at_the_next_file(
    curating: Curating, okf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curating.add(okf)
    before = generated(okf / ".llm-wiki")
    cancelled, atomic_write = threading.Event(), files.atomic_write

    def written(path: Path, data: bytes, *, durable: bool) -> None:
        atomic_write(path, data, durable=durable)
        cancelled.set()

    with monkeypatch.context() as patched:
        patched.setattr(files, "atomic_write", written)
        with pytest.raises(Cancelled):
            curating.rebuild(okf, cancelled=cancelled)
    after = generated(okf / ".llm-wiki")
    (path,) = after.keys() - before.keys()
    assert curating.replayed == []
    whole = (okf / ".llm-wiki" / path).read_bytes()
    assert curating.rebuild(okf).rebuilt
    assert (okf / ".llm-wiki" / path).read_bytes() == whole


def test_a_rebuild_that_waits_for_another_one_may_be_cancelled(
    curating: Curating, okf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curating.add(okf)
    entered, goes_on = threading.Event(), threading.Event()

    def held(path: str, data: bytes, *, strict: bool) -> Parsed:
        entered.set()
        goes_on.wait(HANG_GUARD_SECONDS)
        return parse_page(path, data, strict=strict)

    monkeypatch.setattr(surveying, "parse_page", held)
    first = threading.Thread(target=curating.rebuild, args=[okf])
    first.start()
    try:
        assert entered.wait(HANG_GUARD_SECONDS)
        cancelled = threading.Event()
        cancelled.set()
        with pytest.raises(Cancelled):
            curating.rebuild(okf, cancelled=cancelled)
    finally:
        goes_on.set()
        first.join()
    assert curating.replayed == [okf]
