"""Notes, vaults, an embedder and a clock for tests."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from wikid_daemon.core.summary import PageSummary
from wikid_daemon.searching import Absence
from wikid_daemon.settings_files import Effective, SettingsFiles

Vector = NDArray[np.float32]
T = TypeVar("T")

HANG_GUARD_SECONDS = 90.0  # longer than a minute, after which the scan finds what no event told
NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


def until(
    condition: Callable[[], T | Literal[False] | None], what: str = "it", seconds: float = HANG_GUARD_SECONDS
) -> T:
    """The first true value of `condition`; fails the test when none comes before the hang guard."""
    pause, give_up = threading.Event(), time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= give_up:
            raise AssertionError(f"{what} did not come true in {seconds:.0f} s")
        pause.wait(0.01)


# -- notes -------------------------------------------------------------------------------------------------------------


def write(root: Path, path: str, content: str | bytes) -> Path:
    """Save a note the plain way: open, truncate, write."""
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return place


def save_atomically(root: Path, path: str, content: str) -> Path:
    """Save a note as most editors do: a temporary file beside it, then a rename."""
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{place.name}.tmp")
    temporary.write_text(content, encoding="utf-8")
    os.replace(temporary, place)
    return place


def page(body: str, *, type: str = "concept", title: str = "", **fields: str) -> str:
    """A page with frontmatter; `fields` are written as they are, so a value may be any YAML."""
    head = {"type": type, **({"title": title} if title else {}), **fields}
    lines = "".join(f"{key}: {value}\n" for key, value in head.items())
    return f"---\n{lines}---\n\n{body}\n"


_FILLER = (
    "The harbour keeps a ledger of every boat that enters. Each morning the warden walks along the quay and writes "
    "down names, cargo and the time of the tide. Storms move the schedule by hours and nobody complains, since ropes "
    "and lamps need care. In winter the lighthouse burns longer, the pilots drink tea, and children count the gulls "
    "that rest on the breakwater before the evening ferry comes home with its lanterns lit."
)


def numbered_note(number: int) -> str:
    """One of the twenty notes of the base fixture: found by its own token `tokNNzebra`."""
    token = f"tok{number:02}zebra"
    return page(f"# Note {number}\n\n{_FILLER}\n\nIts own word is {token}.", title=f"Note {number}")


def base_notes(root: Path, count: int = 20) -> None:
    """A folder of valid notes `n01.md` … with one word each that no other has."""
    for number in range(1, count + 1):
        write(root, f"n{number:02}.md", numbered_note(number))


def summary(**changes: object) -> PageSummary:
    """What the catalog keeps of a stable canonical page, with `changes`."""
    given: dict[str, object] = {
        "title": "A page",
        "type": "concept",
        "role": "canonical",
        "status": "stable",
        "description": "",
        "domain": None,
        "category": None,
        "aliases": (),
        "tags": (),
        "recall_triggers": (),
        "created": None,
        "updated": None,
        "stale_after": None,
        "generated_at": None,
        "verified": (),
    }
    return PageSummary(**{**given, **changes})  # type: ignore[arg-type]


def tree(root: Path) -> dict[str, str]:
    """SHA-256 of every file below `root`, by relative path."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


# -- the embedder and the clock ----------------------------------------------------------------------------------------


FAKE_MODEL: Final = "all-minilm-l6-v2@fake"  # a calibrated model, by its name


class FakeEmbedder:
    """Deterministic unit vectors: the sum of one fixed random direction a word, so shared words mean a high cosine.

    `embedded` lists every passage that was embedded, in order; a text with `poison` in it is refused.
    """

    def __init__(self, identity: str = FAKE_MODEL, dims: int = 32, *, poison: str = "", knows: float = 1.0) -> None:
        self.identity = identity
        self.dims = dims
        self.embedded: list[str] = []
        self.refused = 0
        self._poison = poison
        self._knows = knows

    def passages(self, texts: Iterable[str]) -> Iterator[Vector | Exception]:
        for text in texts:
            if self._poison and self._poison in text:
                self.refused += 1
                yield ValueError("refused")
                continue
            self.embedded.append(text)
            yield self.embed_query(text)

    def relent(self) -> None:
        """Refuse nothing any more."""
        self._poison = ""

    def embed_query(self, text: str) -> Vector:
        total = np.zeros(self.dims, np.float32)
        for word in text.lower().split():
            total += self._direction(word.strip(".,:;#*"))
        norm = float(np.linalg.norm(total))
        return total / norm if norm else self._direction("")

    def familiarity(self, _text: str) -> float:
        return self._knows

    def _direction(self, word: str) -> Vector:
        seed = int.from_bytes(hashlib.sha256(f"{self.identity}|{word}".encode()).digest()[:8], "big")
        vector = np.random.default_rng(seed).standard_normal(self.dims).astype(np.float32)
        unit: Vector = vector / np.linalg.norm(vector)
        return unit


class Clock:
    """A time that only moves when told to."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def environment(home: Path, **more: str) -> Mapping[str, str]:
    """An environment in which nothing of the user's own is seen: home and every XDG folder below `home`."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
    folders = {name: str(home / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    return {**kept, "HOME": str(home), **folders, **more}


NO_RERANKER: Final = Absence("reranker_absent", "no reranker in this test")


def default_settings() -> Effective:
    """What applies where nobody has set anything."""
    return SettingsFiles(Path("/nonexistent"), {"HOME": "/nonexistent"}).settings_for(None)
