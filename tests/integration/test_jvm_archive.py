"""Java's archive: made once, used at the next start, made anew for another Java, and never in the way."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import until
from wikid_daemon.archiving import Archiving
from wikid_daemon.index import jvm, jvm_archive

SEARCH = """
import sys
from pathlib import Path
from wikid_daemon.index import jvm, jvm_archive
cache, index = map(Path, sys.argv[1:])
print(jvm_archive.use(cache))
from wikid_daemon.index.lucene import LexicalIndex
from wikid_daemon.index.lucene_document import LexicalChunk
lexical = LexicalIndex(index)
lexical.put(1, [LexicalChunk(7, "A title", "", "", "some words about gravel", "concepts/gravel", "concept")])
lexical.refresh()
print([hit.key for hit in lexical.search("gravel", 5)])
system = jvm.java_class("java.lang.System")
print(system.getProperty("java.class.path"))
"""


def searched(cache: Path, index: Path) -> tuple[list[str], str]:
    done = subprocess.run([sys.executable, "-c", SEARCH, cache, index], capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    if not jvm_archive.make(folder):
        pytest.skip("this Java is too old for an archive")
    return folder


def test_the_next_start_uses_it_and_answers_as_before(cache: Path, tmp_path: Path) -> None:
    said, complaints = searched(cache, tmp_path / "index")
    assert said[:2] == ["True", "[7]"]
    assert "pyjnius-" in said[2]
    assert complaints == ""


def test_it_is_made_once(cache: Path) -> None:
    before = {each: each.stat().st_mtime_ns for each in (cache / jvm_archive.FOLDER).iterdir()}
    assert jvm_archive.make(cache)
    assert {each: each.stat().st_mtime_ns for each in (cache / jvm_archive.FOLDER).iterdir()} == before


def test_without_one_java_starts_as_ever(tmp_path: Path) -> None:
    said, _ = searched(tmp_path / "empty", tmp_path / "index")
    assert said[:2] == ["False", "[7]"]


def cut_short(data: bytes) -> bytes:
    return data[:100_000]


def emptied(_data: bytes) -> bytes:
    return b""


def with_a_page_of_nothing(data: bytes) -> bytes:
    """As after a power cut, or on a bad disk."""
    at = len(data) * 6 // 10
    return data[:at] + bytes(4096) + data[at + 4096 :]


@pytest.mark.parametrize("spoilt", [cut_short, emptied, with_a_page_of_nothing])
def test_a_damaged_one_is_passed_over_in_silence(cache: Path, tmp_path: Path, spoilt: Callable[[bytes], bytes]) -> None:
    damaged = tmp_path / "damaged"
    (damaged / jvm_archive.FOLDER).mkdir(parents=True)
    for each in (cache / jvm_archive.FOLDER).iterdir():
        whole = each.read_bytes()
        (damaged / jvm_archive.FOLDER / each.name).write_bytes(whole if each.suffix == ".jar" else spoilt(whole))
    said, complaints = searched(damaged, tmp_path / "index")
    assert said[:2] == ["True", "[7]"]
    assert complaints == ""


def test_one_of_another_java_is_made_anew_and_the_old_one_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / jvm_archive.FOLDER
    folder.mkdir()
    for name in ("lucene-0123456789abcdef.aot", "pyjnius-0123456789abcdef.jar"):
        (folder / name).write_bytes(b"of another Java")

    def recorded(_self: object, command: list[str], _folder: Path) -> None:
        for argument in command:
            if argument.startswith("-XX:AOTCache="):
                Path(argument.removeprefix("-XX:AOTCache=")).write_bytes(b"archive")

    monkeypatch.setattr(jvm_archive.Children, "run", recorded)
    assert jvm_archive.make(tmp_path)
    assert sorted(each.suffix for each in folder.iterdir()) == [".aot", ".jar"]
    assert all("0123456789abcdef" not in each.name for each in folder.iterdir())


def test_what_java_refuses_to_record_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm, "java_home", lambda: tmp_path)
    monkeypatch.setattr(jvm, "release", lambda _home: jvm_archive.OLDEST_JAVA)
    (tmp_path / "release").write_text("JAVA_VERSION=25\n")
    monkeypatch.setattr(jvm_archive, "RECORDER", "wikid_daemon.no_such_module")
    with pytest.raises(jvm_archive.NotArchived):
        jvm_archive.make(tmp_path / "cache")
    assert [each.suffix for each in (tmp_path / "cache" / jvm_archive.FOLDER).iterdir()] == [".jar"]
    assert not jvm_archive.use(tmp_path / "cache")


@pytest.fixture
def endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache below which the archive's first process never ends, and says its id in the file `pid`."""
    monkeypatch.setattr(jvm, "java_home", lambda: tmp_path)
    monkeypatch.setattr(jvm, "release", lambda _home: jvm_archive.OLDEST_JAVA)
    (tmp_path / "release").write_text("JAVA_VERSION=25\n")
    (tmp_path / "endless.py").write_text(
        f"import os, pathlib, signal\npathlib.Path({str(tmp_path / 'pid')!r}).write_text(f'{{os.getpid()}}.')\n"
        "signal.pause()\n"
    )
    monkeypatch.setattr(jvm_archive, "RECORDER", "endless")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "cache"


def begun(cache: Path) -> int:
    """The id of the process, once it runs."""
    file = cache.parent / "pid"
    return int(until(lambda: file.exists() and (said := file.read_text()).endswith(".") and said, "it runs")[:-1])


def test_a_stop_ends_the_making_at_once_and_leaves_nothing(endless: Path) -> None:
    archiving = Archiving(endless, after=0.0)
    archiving.start()
    pid = begun(endless)
    archiving.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert [each.suffix for each in (endless / jvm_archive.FOLDER).iterdir()] == [".jar"]


def test_a_stop_before_the_making_begins_nothing(endless: Path) -> None:
    archiving = Archiving(endless)
    archiving.start()
    archiving.stop()
    assert not endless.exists()


def test_what_a_making_that_was_cut_short_left_is_removed_once_it_is_old(endless: Path) -> None:
    folder = endless / jvm_archive.FOLDER
    for name in ("staging-old", "staging-young"):
        (folder / name).mkdir(parents=True)
        (folder / name / "recorded").touch()
    os.utime(folder / "staging-old", (1, 1))
    archiving = Archiving(endless, after=0.0)
    archiving.start()
    begun(endless)
    archiving.stop()
    assert {each.name for each in folder.glob("staging-*")} == {"staging-young"}
