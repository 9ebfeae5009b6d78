"""The page half of a correction (seed A, Feedback)."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import NOW, Clock, page, tree, write
from wikid_daemon.core.conflicts import conflicts
from wikid_daemon.core.document import parse_page
from wikid_daemon.core.feedback import Correction, correction_of
from wikid_daemon.core.page import KnowledgeDocument
from wikid_daemon.correcting import Corrections
from wikid_daemon.index import jvm
from wikid_daemon.indexer import Indexer
from wikid_daemon.vault.registry import Registry
from wikid_daemon.vault.vault import Vault
from wikid_daemon.vault.writing import WriteRefused
from wikid_daemon.vaults import Vaults

HASH = "ab" * 32
PAGE = "concepts/flèche"


class World:
    """A vault with one page, and the corrections of its daemon."""

    def __init__(self, home: Path) -> None:
        self.vaults = Vaults(Registry(home / "vaults.json"), home / "state", self._indexer, {"HOME": str(home)})
        self.indexer = self.vaults.init(home / "notes", "test", "personal", "notes")
        self.vault = self.indexer.vault
        self.wiki = self.vault.pages_root
        write(self.wiki, f"{PAGE}.md", page("It flies.", title="The [swift] arrow"))
        self.clock = Clock()
        self.corrections = Corrections(self.vaults, self.clock)

    @staticmethod
    def _indexer(vault: Vault, machine: str) -> Indexer:
        return Indexer(vault, machine, lambda: None, lambda _indexer: None, jvm.detach)

    def save(self, text: str, page_id: str = PAGE) -> str:
        return self.corrections.save(self.vault, page_id, text, HASH)

    def document(self, page_id: str) -> KnowledgeDocument:
        data = (self.wiki / f"{page_id}.md").read_bytes()
        found = parse_page(f"{page_id}.md", data, strict=True).document
        assert found is not None
        return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_correction_is_an_observation_that_links_to_what_it_corrects(world: World) -> None:
    page_id = world.save('It "glides":\nno more.')
    assert page_id == "sources/obs-2026-07-01-correction-the-swift-arrow"
    found = world.document(page_id)
    assert (found.type, found.category, found.metadata["status"]) == ("source", "recall-correction", "observation")
    assert found.metadata["corrected_page"] == PAGE
    assert found.metadata["query_hash"] == HASH
    assert [link.target for link in found.links if link.kind == "markdown"] == [PAGE]
    assert 'It "glides":\nno more.' in found.body
    told = correction_of(found, world.vault.vault_id)
    assert told is not None
    assert (told.corrected, told.query_hash, told.at.date()) == (PAGE, HASH, NOW.date())
    assert isinstance(told, Correction)
    [conflict] = conflicts([world.document(PAGE), found], ())
    assert (conflict.state, conflict.reasons) == ("proposed", ("correction",))
    world.vaults.close()


def test_the_same_words_are_one_page_and_others_are_another(world: World) -> None:
    first = world.save("It glides.")
    assert world.save("It glides.") == first
    assert world.save("It falls.") == f"{first}-2"
    world.vaults.close()


@pytest.mark.parametrize(
    ("page_id", "text", "kind"),
    [
        (PAGE, "  \n", "invalid_params"),
        ("concepts/none", "x", "page_not_found"),
        ("../x", "x", "outside_vault"),
    ],
)
def test_what_corrects_nothing_is_not_saved(world: World, page_id: str, text: str, kind: str) -> None:
    before = tree(world.wiki)
    with pytest.raises(WriteRefused) as caught:
        world.save(text, page_id)
    assert (caught.value.kind, tree(world.wiki)) == (kind, before)
    world.vaults.close()
