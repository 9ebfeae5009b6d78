"""The settings that apply to a folder, read from the user's `config.toml` and the agents' hosts' own files.

The hosts' files are looked at for every request (vault format §1.4, §11.29), so what they come to is kept until one of
them changes: an unchanged request costs ten calls of stat. Which host is the native one is told by the environment of
the daemon, which need not be that of the agent that asks: `LLM_WIKI_HOST`, else `OMP_PROFILE`, else pi.
"""

from __future__ import annotations

import os
import threading
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from wikid_daemon import files
from wikid_daemon.core import frontmatter, settings, toml_edit
from wikid_daemon.core.modes import Mode
from wikid_daemon.core.names import printable
from wikid_daemon.core.settings import Decided, Host, Layer, Problem, Setting, Settings, Value
from wikid_daemon.files import Stamp, stamp_of
from wikid_protocol.errors import RequestRefused
from wikid_protocol.memories import Diagnostic

FILE_NAME: Final = "config.toml"
HOST_FILES: Final = ("settings.json", "config.yml", "config.yaml")
HOST_SECTION: Final = "llm-wiki"
_LIMIT: Final = 1 << 20
_KEPT_FOLDERS: Final = 256
_WRITE_TRIES: Final = 3
_SHOWN_KEY: Final = 80  # code points of a key that is none, in a diagnostic


class _Broken(Exception):
    """A file that counts as empty; the message says why."""


@dataclass(frozen=True, slots=True)
class Effective:
    """What applies to one folder: the typed values, how each was decided, and what was wrong on the way."""

    settings: Settings
    decided: tuple[Decided, ...]
    diagnostics: tuple[Diagnostic, ...]

    def mode(self, asked: Mode | None = None) -> Mode:
        """The mode of a recall: the one it asks for, else the configured one. RequestRefused `config_invalid` where a
        file sets something that is no mode: then nothing is guessed."""
        if asked is not None:
            return asked
        if self.settings.retrieval_mode is not None:
            return self.settings.retrieval_mode
        wrong = next(each for each in self.decided if each.setting.name == "retrievalMode")
        message = f"{wrong.setting.name} in {printable(wrong.source)} is not {wrong.setting.expects}"
        hint = f"correct {wrong.setting.name} in {printable(wrong.source)}, or name a mode in the call"
        raise RequestRefused("config_invalid", message, hint=hint)


@dataclass(frozen=True, slots=True)
class _Kept:
    stamps: tuple[Stamp | None, ...]
    effective: Effective


class SettingsFiles:
    """Reads settings, from any thread, and writes the user's file, one change at a time."""

    def __init__(self, config: Path, environment: Mapping[str, str], now: Callable[[], int] = time.time_ns) -> None:
        self.path = config / FILE_NAME
        self._now = now
        self._environment = environment
        self._host = _host(environment)
        home = Path(environment.get("HOME") or Path.home())
        self._global_files = [str(home / f".{self._host}" / "agent" / name) for name in HOST_FILES]
        self._kept: dict[Path | None, _Kept] = {}
        self._keeping = threading.Lock()
        self._writing = threading.Lock()

    # -- reading -------------------------------------------------------------------------------------------------------

    def settings_for(self, cwd: Path | None) -> Effective:
        """What applies to a request from the folder `cwd`, or from nowhere. Never raises; broken files are told."""
        paths = [str(self.path), *self._global_files, *self._project_files(cwd)]
        stamps = tuple(map(_stamp, paths))
        kept = self._kept.get(cwd)
        if kept is not None and kept.stamps == stamps:
            return kept.effective
        effective = self._read(paths)
        now = self._now()
        trusted = tuple(each.distrusted() if each is not None and each.is_racy(now) else each for each in stamps)
        with self._keeping:
            if cwd not in self._kept and len(self._kept) >= _KEPT_FOLDERS:
                del self._kept[next(iter(self._kept))]
            self._kept[cwd] = _Kept(trusted, effective)
        return effective

    def _project_files(self, cwd: Path | None) -> list[str]:
        if cwd is None:
            return []
        foreign: Host = "pi" if self._host == "omp" else "omp"
        return [f"{cwd}/.{host}/{name}" for host in (foreign, self._host) for name in HOST_FILES]

    def _read(self, paths: list[str]) -> Effective:
        broken: list[Diagnostic] = []
        layers = [settings.defaults(self._host)]
        for path in paths:
            is_users = path == paths[0]
            try:
                values = _user_values(path) if is_users else _host_values(path)
            except _Broken as problem:
                message = f"{printable(path)} counts as empty: {problem}"
                broken.append(Diagnostic(kind="config_unreadable", message=message, remedy="repair the file"))
                continue
            layers.append(Layer("user" if is_users else "host", path, values))
        layers += settings.environment_layers(self._environment)
        decided, problems = settings.decide(layers)
        told = tuple(map(_told, problems))
        return Effective(settings.settings_of(decided), decided, (*broken, *told))

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, setting: Setting, value: Value | None) -> None:
        """Set a key of the user's file, or remove it for None; comments and other keys stay. A new file is 0600.

        RequestRefused where it cannot be read, edited or written.
        """
        with self._writing:
            try:
                path = self._target()
                for _ in range(_WRITE_TRIES):
                    before = files.read_regular(path, _LIMIT).data
                    after = toml_edit.with_key(before.decode("utf-8-sig"), setting.name, value).encode()
                    if after == before or files.replace_if_unchanged(path, before, after):
                        return
            except (OSError, files.NotReadable) as error:
                message = f"{printable(str(self.path))} cannot be changed: {_words(error)}"
                raise RequestRefused("read_only", message, hint="check the file and its permissions") from None
            except (ValueError, RecursionError) as error:
                message = f"{printable(str(self.path))} is not TOML that can be read: {_where(error)}"
                raise RequestRefused("config_unreadable", message, hint="repair the file first") from None
            except toml_edit.EditRefused:
                message = f"{setting.name} stands in {printable(str(self.path))} in a way that is not changed safely"
                raise RequestRefused("config_unreadable", message, hint="change it in an editor") from None
        message = f"{printable(str(self.path))} keeps changing"
        raise RequestRefused("lock_busy", message, hint="try again")

    def _target(self) -> Path:
        """The file itself, where the path is a link to it; made, empty and private, where it is missing."""
        path = Path(os.path.realpath(self.path))
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass
        return path


def _host(environment: Mapping[str, str]) -> Host:
    named = environment.get("LLM_WIKI_HOST", "").strip().lower()
    if named == "omp" or (named != "pi" and environment.get("OMP_PROFILE")):
        return "omp"
    return "pi"


def _stamp(path: str) -> Stamp | None:
    try:
        return stamp_of(os.stat(path))
    except (OSError, ValueError):
        return None  # not there, not to be seen, or no path at all: reading tells which, once


def _user_values(path: str) -> dict[str, Any]:
    return _parsed(path, tomllib.loads, "TOML")


def _host_values(path: str) -> dict[str, Any]:
    values = _parsed(path, orjson.loads, "JSON") if path.endswith(".json") else _parsed(path, _yaml, "YAML")
    section = values.get(HOST_SECTION)
    if section is None:
        return {}
    if not isinstance(section, dict):
        raise _Broken(f"its {HOST_SECTION} is no section of settings")
    return section


def _parsed(path: str, parse: Callable[[str], Any], language: str) -> dict[str, Any]:
    """The file's values; none for a file that is missing or blank."""
    try:
        # people keep such files elsewhere and link to them
        text = files.read_regular(Path(os.path.realpath(path)), _LIMIT).data.decode("utf-8-sig")
        values = parse(text) if text.strip() else {}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, files.NotReadable) as error:
        raise _Broken(_words(error)) from error
    except (ValueError, RecursionError) as error:
        raise _Broken(f"it is not {language} that can be read: {_where(error)}") from error
    if not isinstance(values, dict):
        raise _Broken("it holds no settings by name")
    return values


def _yaml(text: str) -> Any:
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return {}
    values = frontmatter.parse(text.replace("\r\n", "\n"))
    if isinstance(values, frontmatter.Fault):
        line = "" if values.line is None else f" (near line {max(values.line - 1, 1)})"
        raise ValueError(f"{values.code.removeprefix('frontmatter_').replace('_', ' ')}{line}")
    return values


def _words(error: OSError | files.NotReadable) -> str:
    return files.failure_reason(error).replace("_", " ")


def _where(error: Exception) -> str:
    """What a parser says of the place, on one line; it may name a key, never a value."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it nests too deeply"
    return " ".join(str(error).split())


def _told(problem: Problem) -> Diagnostic:
    source, key = printable(problem.source), printable(problem.key[:_SHOWN_KEY])
    if problem.kind == "config_unknown_key":
        message = f"{source} sets {key}, which is no setting there"
        return Diagnostic(kind=problem.kind, message=message, remedy="compare it with: wikid config list")
    message = f"{key} in {source} must be {problem.expects}"
    return Diagnostic(kind=problem.kind, message=message, remedy="correct it, or remove it")
