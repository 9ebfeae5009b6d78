"""A vault's corrections as judged queries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders import page, tree, write
from wikid_daemon.bench.corrections import first_sentence, write_golden
from wikid_daemon.bench.dataset import DatasetUnusable
from wikid_daemon.bench.golden import read_golden
from wikid_daemon.vault.vault import init_vault, open_vault


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("The kiln cools for nine hours. Not six.", "The kiln cools for nine hours."),
        ("# Correction\n\nVersion 2.1 is **wrong**; use 3.0.\nReally.", "Version 2.1 is wrong; use 3.0."),
        ("- [Kiln cooling](/concepts/kiln.md)\n\n> It takes nine hours", "It takes nine hours"),
        ("In [[concepts/kiln|the kiln]] page nine is right!", "In the kiln page nine is right!"),
        ("窯は九時間冷ます。六時間ではない。", "窯は九時間冷ます。"),
        ("The flag foo_bar_baz is 2 * 3 now", "The flag foo_bar_baz is 2 * 3 now"),
        ("# Only\n\n[a link](/concepts/kiln.md)", ""),
        ("", ""),
    ],
)
def test_the_first_sentence_is_prose_without_marks(body: str, sentence: str) -> None:
    assert first_sentence(body) == sentence


def _vault(root: Path) -> tuple[Path, Path]:
    """A vault with one page and one that is no correction; its pages' folder."""
    init_vault(root, "kiln", "personal")
    wiki = root / ".llm-wiki" / "wiki"
    write(wiki, "concepts/kiln.md", page("It cools for six hours.", title="Kiln"))
    write(wiki, "sources/obs-plain.md", page("An observation.", type="source", title="Plain"))
    return root, wiki


def _correction(body: str, vault_id: str, **more: str) -> str:
    head = {"status": "observation", "category": "recall-correction", "corrected_page": "concepts/kiln"}
    fields = {**head, "vault_id": vault_id, "query_hash": "ab12", **more}
    return page(body, type="source", title="The kiln is slower", **fields)


def test_a_correction_becomes_a_query_that_the_correction_answers_best(tmp_path: Path) -> None:
    root, wiki = _vault(tmp_path / "vault")
    own = open_vault(root, name=None, state_home=tmp_path / "state").vault_id
    body = "The kiln cools for nine hours. See [Kiln](/concepts/kiln.md)."
    write(wiki, "sources/obs-1.md", _correction(body, own))
    write(wiki, "sources/obs-2.md", _correction("[Kiln](/concepts/kiln.md)", "another-vault"))
    write(wiki, "sources/obs-3.md", "---\ncategory: recall-correction\nbroken")
    before = tree(root)
    target = tmp_path / "golden.jsonl"

    assert write_golden(root, target) == 2
    assert tree(root) == before
    rows = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert rows[0] == {
        "id": "sources/obs-1",
        "query": "The kiln cools for nine hours.",
        "relevant": {"sources/obs-1": 2, "concepts/kiln": 1},
        "query_hash": "ab12",
    }
    # what another vault's page said is not in this one
    assert rows[1]["relevant"] == {"sources/obs-2": 2}
    assert rows[1]["query"] == "The kiln is slower"
    assert [each.id for each in read_golden(target)] == ["sources/obs-1", "sources/obs-2"]


def test_a_vault_without_corrections_is_told(tmp_path: Path) -> None:
    root, _ = _vault(tmp_path / "vault")
    with pytest.raises(DatasetUnusable, match="no recall correction"):
        write_golden(root, tmp_path / "golden.jsonl")
    with pytest.raises(DatasetUnusable, match="does not exist"):
        write_golden(tmp_path / "nowhere", tmp_path / "golden.jsonl")
    assert not (tmp_path / "golden.jsonl").exists()
