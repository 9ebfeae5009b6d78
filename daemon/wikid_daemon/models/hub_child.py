"""Fetches one model from the hub, run as ``python -m wikid_daemon.models.hub_child PUBLISHER/NAME CACHE``.

A process of its own: the library brings its threads and its HTTP client, and is stopped by ending it. It says how far
it is in lines of JSON, ``{"message", "share"}``, and why it failed as ``{"failure", "reason"}``.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError
from huggingface_hub.utils.tqdm import disable_progress_bars

from wikid_daemon.models.location import GRAPH_PLACES

EXIT_FAILED: Final = 69
LOOK_SECONDS: Final = 0.5
SETTINGS: Final = (
    "tokenizer.json",
    "config.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "tokenizer_config.json",
    "1_Pooling/config.json",
    "2_Dense/config.json",
    "LICENSE",
    "LICENSE.txt",
    "NOTICE",
)


def needed(offered: Mapping[str, int]) -> dict[str, int]:
    """Of a model's files, by name and size, those that wikid reads; none where no graph is among them."""
    graph = next((place for place in GRAPH_PLACES if place in offered), None)
    if graph is None:
        return {}
    beside = (f"{graph}_data", f"{graph}.data")
    return {name: size for name, size in offered.items() if name in (graph, *SETTINGS) or name.startswith(beside)}


def fetch(name: str, cache: Path) -> str | None:
    """Fetch what is needed of the model; the kind of the failure, if there is one."""
    info = HfApi().model_info(name, files_metadata=True)
    wanted = needed({each.rfilename: each.size or 0 for each in info.siblings or ()})
    if not wanted:
        return "no_graph"
    cache.mkdir(parents=True, exist_ok=True)
    blobs = cache / f"models--{name.replace('/', '--')}" / "blobs"
    whole = sum(wanted.values())
    if shutil.disk_usage(cache).free + _bytes_in(blobs) < whole:
        raise OSError(28, "No space left on device")
    done = threading.Event()
    watch = threading.Thread(target=_tell_share, args=(name, blobs, whole, done), daemon=True)
    watch.start()
    try:
        # what `main` names is changed before anything is fetched of it: until all of the new one is there, the old one
        # has to be found
        snapshot_download(name, revision=info.sha, cache_dir=cache, allow_patterns=list(wanted))
        snapshot_download(name, cache_dir=cache, allow_patterns=list(wanted))
    finally:
        done.set()
        watch.join()
    return None


def _tell_share(name: str, blobs: Path, whole: int, done: threading.Event) -> None:
    while True:
        share = min(_bytes_in(blobs) / max(whole, 1), 1.0)
        _say(message=f"Fetching {name} ({whole / 1e6:,.0f} MB)", share=round(share, 3))
        if done.wait(LOOK_SECONDS):
            return


def _bytes_in(blobs: Path) -> int:
    """On disk so far, half files with what they hold."""
    total = 0
    for entry in os.scandir(blobs) if blobs.is_dir() else ():
        try:
            total += entry.stat().st_size
        except FileNotFoundError:  # just put in its place
            continue
    return total


def _say(**said: object) -> None:
    print(json.dumps(said), flush=True)


def main(arguments: list[str]) -> int:
    name, cache = arguments
    disable_progress_bars()
    reason = ""
    try:
        failure = fetch(name, Path(cache))
    except GatedRepoError:
        failure = "not_allowed"
    except RepositoryNotFoundError:
        failure = "not_found"
    except Exception as error:  # noqa: BLE001 - the library's and its HTTP client's own kinds, told by their words
        failure, reason = "other", " ".join(f"{type(error).__name__}: {error}".split())[:500]
    if failure is None:
        return 0
    _say(failure=failure, reason=reason)
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
