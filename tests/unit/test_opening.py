"""While an index is still being opened nothing is said to be absent: it is not known yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import NO_RERANKER, base_notes, default_settings
from wikid_client import render
from wikid_client.testing import sample_recall
from wikid_daemon import pages
from wikid_daemon.indexer import Indexer
from wikid_daemon.recall import Recaller
from wikid_daemon.searching import Absence, Models
from wikid_daemon.vault.vault import open_vault
from wikid_daemon.vaults import Applied
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused
from wikid_protocol.methods import PageGetParams, PageSearchParams, RecallParams

NO_MODEL = Absence("model_absent", "no model: words alone answered")


@pytest.fixture
def applied(tmp_path: Path) -> Applied:
    """A vault whose indexer was made and has not begun: it has no index to ask."""
    base_notes(tmp_path / "notes", 3)
    vault = open_vault(tmp_path / "notes", name="notes", state_home=tmp_path / "state")
    return Applied(Indexer(vault, "m", lambda: None, lambda _: None, lambda: None), "registered", "named")


def recalled(applied: Applied) -> r.Recall:
    recaller = Recaller(lambda: Models(NO_MODEL, NO_RERANKER))
    return recaller.recall(RecallParams(query="tok02zebra"), [applied], default_settings(), lambda: False)


def test_a_page_of_a_vault_that_is_being_opened_may_be_there(applied: Applied) -> None:
    with pytest.raises(RequestRefused) as refused:
        pages.get(PageGetParams(page_id="n02"), [applied], "marker")
    assert (refused.value.kind, refused.value.row.retry) == ("vault_unavailable", True)
    assert refused.value.hint
    with pytest.raises(RequestRefused) as refused:
        pages.get(PageGetParams(page_id="n02"), [], "marker")
    assert refused.value.kind == "page_not_found"


@pytest.mark.parametrize(("state", "kind"), [("indexing", "vault_opening"), ("failed", "vault_not_opened")])
def test_what_was_not_looked_through_is_told(applied: Applied, state: str, kind: str) -> None:
    applied.indexer.state.state = state  # type: ignore[assignment]
    found = pages.search(PageSearchParams(query="n02"), [applied])
    assert ([each.kind for each in found.diagnostics], found.matches, found.stale) == ([kind], (), True)
    answer = recalled(applied)
    assert (answer.reason, answer.diagnostics[0].kind) == (kind, kind)
    assert answer.bundles == ()


def test_a_search_of_every_vault_alone_says_that_there_is_no_memory() -> None:
    recaller = Recaller(lambda: Models(NO_MODEL, NO_RERANKER))
    answer = recaller.recall(RecallParams(query="tok02zebra"), [], default_settings(), lambda: False)
    assert answer.reason == "no_reliable_memory"


def test_a_person_and_a_model_are_told_that_it_is_too_early() -> None:
    opening = r.Diagnostic(kind="vault_opening", message="notes is still being opened")
    answer = sample_recall(reason="vault_opening", diagnostics=(opening,))
    assert "still being opened: ask again" in render.recall_text(answer, "x")
    assert "No reliable memory" not in render.recall_context(answer) + render.recall_text(answer, "x")
    found = render.matches_text(r.PageMatches(matches=(), diagnostics=(opening,)), "x")
    assert "notes is still being opened" in found
