"""The check that every daemon of the suite is held to."""

from __future__ import annotations

from pathlib import Path

from builders import write
from privacy import leaks


def test_the_check_sees_words_lines_and_paths(tmp_path: Path) -> None:
    write(tmp_path / "notes", "a.md", "# A\n\nNobody else may read this line.\n")
    roots = [tmp_path / "notes"]
    assert leaks('{"event": "started", "pid": 7}', roots) == []
    assert leaks('{"query": "tok01zebra"}', roots) == ["tok01zebra"]
    assert leaks("E: Nobody else may read this line.", roots) == ["Nobody else may read this line."]
    assert leaks(f"opened {tmp_path / 'notes'}", roots) == [str(tmp_path / "notes")]
