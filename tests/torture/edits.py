"""Someone who edits a vault without rest: seeded, so that a campaign can be run again."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from builders import write

WORDS: Final = (
    *("harbour", "ledger", "tide", "storm", "lantern", "pilot", "rope", "gulls", "quay", "ferry", "winter", "cargo"),
    *("retry_budget", "pool.size", "v1.0.21", "queue", "cache", "index", "commit", "merge"),
)
FOLDERS: Final = ("concepts", "entities", "analyses", "concepts/deep", "moved")


class Scribbler:
    """Edits the notes below `root`, one random operation at a time. `operations` counts them."""

    def __init__(self, root: Path, seed: int) -> None:
        self._root = root
        self._random = random.Random(seed)
        self._made = 0
        self.operations = 0

    def fill(self, count: int) -> None:
        """So many new notes, besides one that is never touched: an emptied vault counts as unmounted."""
        write(self._root, "anchor.md", self._text())
        for _ in range(count - 1):
            self._create()

    def edit(self) -> None:
        """One operation. Half of them are saves; as many notes are made as go."""
        operations: list[tuple[Callable[[], None], int]] = [
            (self._save, 6),
            (self._append, 3),
            (self._save_atomically, 4),
            (self._edit_without_a_trace, 2),
            (self._create, 3),
            (self._delete, 3),
            (self._rename, 3),
            (self._break, 1),
            (self._swap_file_and_folder, 1),
            (self._move_folder, 1),
        ]
        chosen = self._random.choices([each for each, _ in operations], [weight for _, weight in operations])[0]
        chosen()
        self.operations += 1

    def _notes(self) -> list[Path]:
        return [path for path in sorted(self._root.rglob("*.md")) if path.is_file() and path.name != "anchor.md"]

    def _note(self) -> Path:
        return self._random.choice(self._notes() or [self._new()])

    def _new(self) -> Path:
        self._made += 1
        return write(self._root, f"{self._random.choice(FOLDERS)}/n{self._made:05}.md", self._text())

    def _text(self) -> str:
        words = self._random.choices(WORDS, k=self._random.choice((8, 40, 40, 900)))
        title = " ".join(self._random.choices(WORDS, k=2))
        body = "\n\n".join(f"## {words[at]}\n\n{' '.join(words[at : at + 150])}" for at in range(0, len(words), 150))
        return f"---\ntype: concept\ntitle: {title}\n---\n\n# {title}\n\n{body}\n"

    def _create(self) -> None:
        self._new()

    def _save(self) -> None:
        self._note().write_text(self._text(), encoding="utf-8")

    def _append(self) -> None:
        with self._note().open("a", encoding="utf-8") as note:
            note.write(f"\n{' '.join(self._random.choices(WORDS, k=5))}\n")

    def _save_atomically(self) -> None:
        note = self._note()
        temporary = note.with_name(f".{note.name}.tmp")
        temporary.write_text(self._text(), encoding="utf-8")
        os.replace(temporary, note)

    def _edit_without_a_trace(self) -> None:
        """The same size and the same modification time."""
        note = self._note()
        before, data = note.stat(), note.read_bytes()
        note.write_bytes(data.replace(b"storm", b"gales") if b"storm" in data else data.replace(b"gales", b"storm"))
        os.utime(note, ns=(before.st_atime_ns, before.st_mtime_ns))

    def _delete(self) -> None:
        self._note().unlink()

    def _rename(self) -> None:
        note, folder = self._note(), self._root / self._random.choice(FOLDERS)
        folder.mkdir(parents=True, exist_ok=True)
        os.replace(note, folder / self._random.choice((note.name, note.name.upper().replace(".MD", ".md"))))

    def _break(self) -> None:
        self._note().write_bytes(self._random.choice((b"", b"---\ntitle: [\n---\n", b"\xff\xfe\x00", b"storm")))

    def _swap_file_and_folder(self) -> None:
        place = self._root / "plan.md"
        if place.is_dir():
            shutil.rmtree(place)
            write(self._root, "plan.md", self._text())
        else:
            place.unlink(missing_ok=True)
            write(self._root, "plan.md/inner.md", self._text())

    def _move_folder(self) -> None:
        source, target = self._root / "concepts" / "deep", self._root / "moved" / "deep"
        if target.is_dir():
            source, target = target, source
        if source.is_dir() and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
