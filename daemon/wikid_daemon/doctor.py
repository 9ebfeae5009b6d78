"""`doctor`: what is wrong, or soon will be, and what to do about it. Looks at everything, changes nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from wikid_daemon import log as logs
from wikid_daemon.checkup import Checkup, existing, room, unopened
from wikid_daemon.core.names import printable
from wikid_daemon.event_logs import EventLogs
from wikid_daemon.index import jvm
from wikid_daemon.models.build import ABANDONED_SECONDS, STAGING_PREFIX
from wikid_daemon.models.catalogue import CATALOGUE
from wikid_daemon.models.location import models_folder
from wikid_daemon.models.resting import is_at_rest
from wikid_daemon.settings_files import SettingsFiles
from wikid_daemon.threads import Cancelled
from wikid_daemon.vaults import Vaults
from wikid_protocol.doctor import endpoint_findings
from wikid_protocol.endpoint import Folders
from wikid_protocol.methods import NoParams
from wikid_protocol.records import DoctorFinding, DoctorReport, ModelRecord

BUILD_REMEDY: Final = "wikid models build"
ENGINES: Final = ("pyserini", "faiss-cpu", "onnxruntime", "tokenizers", "apsw", "watchfiles")
_ORDER: Final = ("error", "warning", "info")
_ENGLISH: Final = ("en",)
_JAVA: Final = "java_missing"

events = structlog.get_logger("doctor")


class Doctor:
    """Answers `doctor`. `models` are those that `status` tells of; `free` gives the bytes left where a folder is."""

    def __init__(
        self,
        vaults: Vaults,
        event_logs: EventLogs,
        models: Callable[[], Sequence[ModelRecord]],
        settings: SettingsFiles,
        folders: Folders,
        endpoint: Path,
        *,
        free: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
    ) -> None:
        self._vaults = vaults
        self._models = models
        self._settings = settings
        self._folders = folders
        self._endpoint = endpoint
        self._free = free
        self._checkup = Checkup(event_logs, self._knows_english_alone, folders.state, free)

    def methods(self) -> Mapping[str, Callable[[Any], object]]:
        """The methods of the protocol that are answered here."""
        return {"doctor": self.report}

    def report(self, _params: NoParams) -> DoctorReport:
        """All findings, the worst first. One look that fails is a finding itself, and hides no other."""
        looks: dict[str, Callable[[], Iterable[DoctorFinding]]] = {
            "endpoint": lambda: endpoint_findings(self._endpoint),
            "engines": _engines,
            "models": lambda: model_findings(self._models(), models_folder(self._folders.cache)),
            "settings": self._settings_found,
            "registry": self._registry,
            "disk": self._disk,
            "log": self._log,
            "list of vaults": self._unopened,
        }
        for indexer in self._vaults.all():
            looks[f"vault {indexer.vault.name}"] = partial(self._checkup.of, indexer)
        found = [finding for name, look in looks.items() for finding in _looked(name, look)]
        if any(each.kind == _JAVA and each.vault is None for each in found):
            found = [each for each in found if each.kind != _JAVA or each.vault is None]
        found.sort(key=lambda each: _ORDER.index(each.severity))
        return DoctorReport(findings=tuple(found), checked=tuple(looks))

    def _knows_english_alone(self) -> bool:
        ready = [each for each in self._models() if each.purpose == "embedder" and each.state == "ready"]
        return any(each.name in CATALOGUE and CATALOGUE[each.name].languages == _ENGLISH for each in ready)

    def _settings_found(self) -> Iterator[DoctorFinding]:
        for each in self._settings.settings_for(None).diagnostics:
            yield DoctorFinding(severity="warning", kind=each.kind, message=each.message, remedy=each.remedy)

    def _registry(self) -> Iterator[DoctorFinding]:
        place = printable(str(self._folders.config / "vaults.json"))
        for fault in self._vaults.faults():
            remedy = f"correct {place}, or add the missing vaults again; the damaged file is kept beside it"
            yield DoctorFinding(severity="error", kind="registry_damaged", message=fault, remedy=remedy)

    def _disk(self) -> Iterator[DoctorFinding]:
        seen: set[int] = set()
        for what, folder in (("wikid's own state", self._folders.state), ("the models", self._folders.cache)):
            place = existing(folder)
            device = place.stat().st_dev
            if device not in seen:
                seen.add(device)
                yield from room(what, place, self._free(place))

    def _log(self) -> Iterator[DoctorFinding]:
        path = self._folders.state / logs.FILE_NAME
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)))
        except OSError as problem:
            message = f"{printable(str(path))} cannot be written: {problem.strerror}"
            remedy = "wikid restart makes it anew; else check who owns the folder"
            yield DoctorFinding(severity="warning", kind="log_not_writable", message=message, remedy=remedy)

    def _unopened(self) -> Iterator[DoctorFinding]:
        yield from map(unopened, self._vaults.unopened())


def model_findings(models: Sequence[ModelRecord], folder: Path) -> Iterator[DoctorFinding]:
    """What keeps notes from being found by meaning, and what builds have left in the models' `folder`."""
    embedders = [each for each in models if each.purpose == "embedder"]
    usable = any(each.state in ("ready", "loading") or is_at_rest(each) for each in embedders)
    wanted = next((each for each in embedders if each.state == "absent"), None)
    remedy_of_wanted = BUILD_REMEDY if wanted is None else wanted.remedy or BUILD_REMEDY
    for each in models:
        if each.state == "failed":
            message = f"the {each.purpose} {each.name} cannot be used: {each.reason or 'it does not load'}"
            remedy = f"wikid models build {each.name}" if each.name in CATALOGUE else "check it: wikid models list"
            yield DoctorFinding(severity="error", kind="model_failed", message=message, remedy=remedy)
    if any(each.state == "built" for each in embedders) and not usable:
        message = "the embedding model that is chosen is not there, though another is"
        remedy = f"{remedy_of_wanted}; or choose one that is there: wikid models list, wikid models use NAME"
        yield DoctorFinding(severity="warning", kind="model_not_chosen", message=message, remedy=remedy)
    elif not usable and all(each.state != "failed" for each in embedders):
        message = "no embedding model is there: notes are found by their words alone"
        # what has to be fetched from elsewhere, or is a name of nothing, is not for a repair to decide
        can_build = wanted is None or wanted.name in CATALOGUE
        yield DoctorFinding(
            severity="warning", kind="model_absent", message=message, remedy=remedy_of_wanted, fix=can_build
        )
    is_ready = any(each.state == "ready" for each in embedders)
    if is_ready and any(each.purpose == "reranker" and each.state == "absent" for each in models):
        message = "no reranker is there: doubtful answers get no second look"
        yield DoctorFinding(severity="warning", kind="reranker_absent", message=message, remedy="wikid restart")
    left = [each for each in folder.glob(f"{STAGING_PREFIX}*") if _seconds_old(each) > ABANDONED_SECONDS]
    if left:
        message = f"a build of a model was never finished ({len(left)} in {printable(str(folder))})"
        remedy = "the next `wikid models build` removes what it left"
        yield DoctorFinding(severity="info", kind="model_half_built", message=message, remedy=remedy)


def _looked(name: str, look: Callable[[], Iterable[DoctorFinding]]) -> list[DoctorFinding]:
    try:
        return list(look())
    except Cancelled:
        raise
    except Exception as problem:  # noqa: BLE001 - one look must not hide what the others find
        events.warning("look_failed", kind=name.partition(" ")[0], error=type(problem).__name__)
        message = f"{name} could not be looked at ({type(problem).__name__})"
        remedy = "the same command again; if it stays, wikid.log says where"
        return [DoctorFinding(severity="warning", kind="check_failed", message=message, remedy=remedy)]


def _engines() -> Iterator[DoctorFinding]:
    found: list[str] = []
    for name in ENGINES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            message = f"the package {name} is not installed where the daemon runs"
            remedy = "install wikid's daemon again, as its README says"
            yield DoctorFinding(severity="error", kind="package_missing", message=message, remedy=remedy)
    try:
        found.append(f"Java at {printable(str(jvm.java_home()))}")
    except jvm.JavaUnavailable as problem:
        message = f"notes are not found by their words: {problem}"
        remedy = "then: wikid restart"
        yield DoctorFinding(severity="error", kind=_JAVA, message=message, remedy=remedy)
    message = ", ".join((f"Python {platform.python_version()}", *found))
    yield DoctorFinding(severity="info", kind="versions", message=message)


def _seconds_old(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0
