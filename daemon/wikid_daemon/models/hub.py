"""Fetches a model from the Hugging Face hub, on request only, with the hub's own library in a child process.

The library keeps what it fetched in its cache, goes on where an earlier fetch ended, and puts a file in its place only
when it is whole. Of the many files of a model only one graph and what belongs to it are fetched.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from wikid_daemon.models.build import Progress
from wikid_daemon.models.child import Cancelled, run_child
from wikid_daemon.models.failures import BuildFailure, ModelBuildFailed, ModelUnusable
from wikid_daemon.models.fetch import disk_full, says_disk_full, says_no_network
from wikid_daemon.models.hub_cache import hub_cache, is_hub_name, is_offline, snapshot
from wikid_daemon.models.location import GRAPH_PLACES, ModelFolder, damaged_files, read_model_folder

LIBRARY = "huggingface_hub"


def pull(name: str, env: Mapping[str, str], progress: Progress, cancelled: Cancelled) -> ModelFolder:
    """Fetch the model ``publisher/name`` as it is now, or what is missing of it. Raises ModelBuildFailed."""
    if not is_hub_name(name):
        raise _failed(
            BuildFailure.UNKNOWN_MODEL,
            f"{name!r} is not the name of a model on the hub.",
            "Name it PUBLISHER/MODEL, as in its address on huggingface.co.",
        )
    if is_offline(env):
        raise _failed(
            BuildFailure.OFFLINE, "HF_HUB_OFFLINE keeps the hub out of reach.", "Unset it, and restart wikid."
        )
    if importlib.util.find_spec(LIBRARY) is None:
        raise _failed(
            BuildFailure.NO_HUB_CLIENT,
            "The library that fetches from the hub is not installed.",
            "Install it: pip install 'wikid-memory[hub]'. A model folder on this machine needs no library.",
        )
    cache = hub_cache(env)
    progress(f"Asking the hub for {name}", 0.0)
    with tempfile.TemporaryDirectory(prefix="wikid-pull-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "wikid_daemon.models.hub_child", name, str(cache)]
        try:
            code, lines = run_child(command, Path(folder), lambda line: _tell(line, progress), cancelled)
        except OSError as error:
            code, lines = -1, [f"it could not be started ({error.strerror})"]
    if code != 0:
        raise _explained(name, lines)
    return _checked(name, env, progress)


def _tell(line: str, progress: Progress) -> None:
    said = _said(line)
    share = said.get("share")
    if "message" in said:
        progress(str(said["message"]), share if isinstance(share, int | float) else None)


def _said(line: str) -> dict[str, object]:
    """What the child says; nothing for a line that the library wrote."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _checked(name: str, env: Mapping[str, str], progress: Progress) -> ModelFolder:
    progress(f"Checking {name}", 1.0)
    place = snapshot(env, name)
    if place is None:
        raise _failed(BuildFailure.HUB_FAILED, f"{name} was fetched and is not in the cache.", "Try it again.")
    try:
        folder = read_model_folder(place)
    except ModelUnusable as problem:
        raise _failed(BuildFailure.NO_GRAPH, problem.reason, problem.hint) from problem
    if damaged := damaged_files(folder):
        reason = f"Files of {name} are not what the hub says they are: {', '.join(damaged)}."
        raise _failed(BuildFailure.CHECKSUM_WRONG, reason, folder.remedy)
    return folder


def _explained(name: str, lines: list[str]) -> ModelBuildFailed:
    said = next((found for line in reversed(lines) if "failure" in (found := _said(line))), {})
    words = str(said.get("reason") or (lines[-1] if lines else "it said nothing"))
    if says_disk_full(words):
        return disk_full()
    match said.get("failure"):
        case "not_found":
            reason = f"The hub has no model {name}, or shows it only to those it knows."
            return _failed(BuildFailure.MODEL_NOT_FOUND, reason, "Check the name, and HF_TOKEN for a private model.")
        case "not_allowed":
            reason = f"The hub gives {name} only to those who accepted its terms."
            return _failed(BuildFailure.NOT_ALLOWED, reason, "Accept them on its page, and set HF_TOKEN.")
        case "no_graph":
            places = ", ".join(GRAPH_PLACES)
            reason = f"{name} holds none of {places}: wikid reads ONNX graphs."
            return _failed(
                BuildFailure.NO_GRAPH, reason, "Choose an ONNX export, often under onnx-community or Xenova."
            )
    if says_no_network(words):
        reason = f"The hub could not be reached for {name}."
        return _failed(BuildFailure.NO_NETWORK, reason, "Check the network, the proxy and HF_ENDPOINT, then try again.")
    return _failed(BuildFailure.HUB_FAILED, f"{name} could not be fetched: {words}", "Try it again: it goes on there.")


def _failed(kind: BuildFailure, reason: str, hint: str) -> ModelBuildFailed:
    return ModelBuildFailed(kind, reason, hint)
