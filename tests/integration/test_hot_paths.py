"""The hot paths for real: each can be measured, one that is made slower is found, and the commands say so."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
import structlog

from wikid_daemon.bench import __main__ as bench
from wikid_daemon.bench import compare, cost, hot_paths, regression
from wikid_daemon.bench.compare import Record
from wikid_daemon.bench.cost import Measured
from wikid_daemon.bench.engines import model_folder
from wikid_daemon.bench.hot_ground import Ground
from wikid_daemon.bench.hot_paths import PATHS
from wikid_daemon.core.document import parse_page

OF_MODEL = {"query_vector", "late_interaction"}
BRIEFLY = 0.01  # seconds: a few runs of each
ENOUGH = 0.1  # seconds: steady enough to tell once from twice

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="a record belongs to a commit")


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    made = Ground(tmp_path_factory.mktemp("ground").resolve(), pages=60, files=50)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def quiet_log() -> None:
    """As the process that measures has it: else each call of a session is a line."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("info"))


# -- measuring ---------------------------------------------------------------------------------------------------------


def test_every_path_runs_and_costs_something(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "RUNS", (1, 3))  # that it runs is enough here
    found = hot_paths.measure(ground, seconds=BRIEFLY)
    expected = PATHS.keys() if model_folder() is not None else PATHS.keys() - OF_MODEL
    assert found.paths.keys() == expected
    assert all(each > 0 for each in found.paths.values())
    assert found.micros.keys() == expected


def test_only_the_named_paths_are_measured(ground: Ground) -> None:
    assert list(hot_paths.measure(ground, ["cut"], seconds=BRIEFLY).paths) == ["cut"]


def test_a_path_made_twice_as_slow_is_worse(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    def now(names: Collection[str] = ("parse",)) -> compare.Costs:
        return hot_paths.measure(ground, names, seconds=ENOUGH).paths

    recorded = now()

    def twice(path: str, data: bytes, *, strict: bool) -> object:
        parse_page(path, data, strict=strict)
        return parse_page(path, data, strict=strict)

    monkeypatch.setattr(hot_paths, "parse_page", twice)
    (found,) = compare.compare(recorded, now(), now)
    assert found.verdict == "worse"


def test_a_path_that_does_nothing_is_no_fast_path() -> None:
    with pytest.raises(AssertionError, match="no result"):
        hot_paths.expect([])


def test_what_a_child_process_uses_is_counted() -> None:
    before = cost.children()
    subprocess.run([sys.executable, "-c", "sum(range(3_000_000))"], check=True)
    assert cost.children() > before


# -- the commands ------------------------------------------------------------------------------------------------------

Run = Callable[..., int]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """The command in `tmp_path`; `costs` stand for what is measured."""
    monkeypatch.chdir(tmp_path)

    def ran(*words: str, **costs: float) -> int:
        def measured(names: Collection[str], _say: object) -> Measured:
            found = {name: each for name, each in costs.items() if not names or name in names}
            return Measured(found, found)

        monkeypatch.setattr(regression, "measure", measured)
        monkeypatch.setattr(sys, "argv", ["bench", *words])
        return bench.main()

    return ran


def git(*words: str) -> None:
    who = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    subprocess.run(["git", *who, *words], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One commit with one file."""
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet")
    (tmp_path / "code.py").write_text("one = 1\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    return tmp_path


@needs_git
def test_what_is_recorded_is_compared_with(repository: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("record", parse=1.0, cut=2.0) == bench.EXIT_DONE
    assert run("compare", parse=1.1, cut=2.0) == bench.EXIT_DONE
    assert run("compare", parse=1.3, cut=2.0) == bench.EXIT_FAILED
    assert "WORSE" in capsys.readouterr().out
    (made,) = read(repository)
    assert made.paths == {"parse": 1.0, "cut": 2.0}
    assert len(made.commit) == 40


@needs_git
def test_a_record_is_added_behind_the_others_and_the_last_one_counts(repository: Path, run: Run) -> None:
    assert run("record", parse=1.0) == bench.EXIT_DONE
    # the results themselves do not make the tree another
    assert run("record", parse=2.0) == bench.EXIT_DONE
    assert [each.paths["parse"] for each in read(repository)] == [1.0, 2.0]
    assert run("compare", parse=2.1) == bench.EXIT_DONE


@needs_git
def test_a_tree_that_is_not_as_committed_is_recorded_by_force_only(repository: Path, run: Run) -> None:
    (repository / "code.py").write_text("one = 2\n")
    assert run("record", parse=1.0) == bench.EXIT_FAILED
    assert not (repository / regression.RESULTS).exists()
    assert run("record", "--force", parse=1.0) == bench.EXIT_DONE
    (made,) = read(repository)
    assert made.commit.endswith(regression.DIRTY)


def test_without_a_record_there_is_nothing_to_compare_with(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compare", parse=1.0) == bench.EXIT_USAGE
    assert "make bench-record" in capsys.readouterr().err


def read(place: Path) -> list[Record]:
    return compare.read_records((place / regression.RESULTS).read_text("utf-8"))
