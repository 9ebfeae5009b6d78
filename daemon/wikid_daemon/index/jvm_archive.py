"""Lucene's classes as the Java machine leaves them after loading, kept in the cache so that a start need not load them.

Measured from the start of the machine to the first answer of a new index: 0.7 s of processor time with the archive,
1.3 s without. An archive serves one Java, one jar and one set of options, all of which are in its file's name. Java
ignores one that it cannot use.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from wikid_daemon.index import jvm

FOLDER: Final = "java"
OLDEST_JAVA: Final = 25  # 24 needs other steps
RECORDER: Final = "wikid_daemon.index.jvm_recording"
RECORD_SECONDS: Final = 120.0
STAGING_PREFIX: Final = "staging-"
ABANDONED_SECONDS: Final = 3_600.0
FREE_BYTES: Final = 300_000_000  # an archive has 25 MB, its making takes twice that
# what Java has to say about an archive is not for the person who runs wikid; one that is damaged inside it would else
# not pass over but die of, at every start
_USE: Final = ("-Xlog:aot=off", "-Xlog:cds=off", "-XX:+VerifySharedSpaces")
_CLASSES: Final = "classes.jar"


class NotArchived(Exception):
    """The archive was not made; the text says why, and names no file of the user's."""


@dataclass(frozen=True, slots=True)
class _Place:
    """What an archive is made from, and where it lies. `key` tells one set of all that from another."""

    folder: Path
    home: Path
    jar: Path
    key: str

    @property
    def archive(self) -> Path:
        return self.folder / f"lucene-{self.key}.aot"

    @property
    def classes(self) -> Path:
        return self.folder / f"pyjnius-{self.key}.jar"


def use(cache: Path) -> bool:
    """Have the Java machine start with the archive below `cache`; False where there is none (yet)."""
    place = _place(cache)
    if place is None or not (place.archive.is_file() and place.classes.is_file()):
        return False
    jvm.use_archive(jvm.Archive(place.classes, (f"-XX:AOTCache={place.archive}", *_USE)))
    return True


class Children:
    """The processes that make an archive, one after the other. Any thread may end them."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._current: subprocess.Popen[bytes] | None = None
        self._ended = False

    @property
    def ended(self) -> bool:
        return self._ended

    def run(self, command: list[str], folder: Path) -> None:
        """Run it to its end. NotArchived, SubprocessError, OSError."""
        with self._guard:
            if self._ended:
                raise NotArchived("wikid stops")
            child = self._current = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        try:
            code = child.wait(RECORD_SECONDS)
        finally:
            with self._guard:
                self._current = None
            if child.returncode is None:
                child.kill()
                child.wait()
        if code:
            raise NotArchived(f"{Path(command[0]).name} left with exit code {code}")

    def end(self) -> None:
        """End the one that runs, and let no other begin. Waits for nothing."""
        with self._guard:
            self._ended = True
            if self._current is not None:
                self._current.kill()


def make(cache: Path, children: Children | None = None) -> bool:
    """Make the archive, unless it is there, in two processes of their own: about 4 s of processor time and 60 MB of
    disk. False where this Java can have none. NotArchived."""
    children = children or Children()
    place = _place(cache)
    if place is None:
        return False
    if place.archive.is_file() and place.classes.is_file():
        return True
    try:
        place.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(place.folder)
        if shutil.disk_usage(place.folder).free < FREE_BYTES:
            raise NotArchived("the disk is nearly full")
        with tempfile.TemporaryDirectory(prefix=STAGING_PREFIX, dir=place.folder) as staging:
            _make(place, Path(staging), children)
    except OSError as problem:
        raise NotArchived(problem.strerror or type(problem).__name__) from problem
    except subprocess.SubprocessError as problem:
        raise NotArchived(type(problem).__name__) from problem
    _forget_older(place)
    return True


def _make(place: _Place, staging: Path, children: Children) -> None:
    recorded, archive, classes = staging / "recorded", staging / "archive", place.classes
    # the machine refuses an archive whose class path differs from its own, so this one comes into its place first
    _pack_classes(staging / _CLASSES)
    (staging / _CLASSES).replace(classes)
    children.run([sys.executable, "-P", "-m", RECORDER, str(staging / "index"), str(classes), str(recorded)], staging)
    children.run(
        [
            str(place.home / "bin" / "java"),
            *jvm.options(place.home),
            "-XX:AOTMode=create",
            f"-XX:AOTConfiguration={recorded}",
            f"-XX:AOTCache={archive}",
            *("-cp", os.pathsep.join((str(place.jar), str(classes)))),
        ],
        staging,
    )
    with archive.open("rb") as made:
        os.fsync(made.fileno())
    archive.replace(place.archive)


def _remove_abandoned(folder: Path) -> None:
    """What a making that was cut short has left; a younger one may belong to another daemon."""
    for left in folder.glob(f"{STAGING_PREFIX}*"):
        if time.time() - left.stat().st_mtime > ABANDONED_SECONDS:
            shutil.rmtree(left, ignore_errors=True)


def _pack_classes(path: Path) -> None:
    """pyjnius's own classes as a jar: an archive admits no folder on the class path."""
    spec = find_spec("jnius")
    if spec is None or spec.origin is None:
        raise NotArchived("pyjnius is missing")
    source = Path(spec.origin).parent / "src"
    with zipfile.ZipFile(path, "w") as packed:
        for each in sorted(source.rglob("*.class")):
            packed.write(each, each.relative_to(source).as_posix())


def _place(cache: Path) -> _Place | None:
    try:
        home, jar = jvm.java_home(), jvm.jar()
    except jvm.JavaUnavailable:
        return None
    if jvm.release(home) < OLDEST_JAVA:
        return None
    release = (home / "release").read_bytes()
    found = jar.stat()
    given = (
        release,
        str(jar),
        found.st_size,
        found.st_mtime_ns,
        jvm.options(home),
        importlib.metadata.version("pyjnius"),
    )
    key = hashlib.sha256(repr(given).encode()).hexdigest()[:16]
    return _Place(cache / FOLDER, home, jar, key)


def _forget_older(place: _Place) -> None:
    """Archives of a Java or a jar that was replaced. One in use stays open for the machine that has it."""
    for pattern, current in (("lucene-*.aot", place.archive), ("pyjnius-*.jar", place.classes)):
        for each in place.folder.glob(pattern):
            if each != current:
                each.unlink(missing_ok=True)
