"""What an answer may hold, and in which order: automatic and explicit recall over real indexes (seed A, Packing)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import page, write
from recalls import Recalls, items
from wikid_client.layout.context import recall_context
from wikid_daemon.settings_files import Effective, SettingsFiles
from wikid_daemon.vaults import Layer
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

KILN: tuple[str, Layer] = ("kiln", "project")
QUERY = "raku kiln lid cools glaze"


@pytest.fixture
def recalls(tmp_path: Path) -> Iterator[Recalls]:
    found = Recalls(tmp_path)
    yield found
    found.close()


def settings(tmp_path: Path, **values: object) -> Effective:
    lines = "".join(
        f"{key} = {str(value).lower() if isinstance(value, bool) else repr(value)}\n" for key, value in values.items()
    )
    write(tmp_path / "config", "config.toml", lines)
    return SettingsFiles(tmp_path / "config", {"HOME": str(tmp_path)}).settings_for(None)


def kiln(number: int, **fields: str) -> str:
    return page(f"The raku kiln lid cools the glaze, number {number}.", title=f"Kiln {number}", **fields)


def cards(answer: r.Recall) -> list[str]:
    return [bundle.card.page_id for bundle in answer.bundles if bundle.card is not None]


def test_automatic_recall_gives_at_most_three_bundles_of_two_pieces_of_evidence(recalls: Recalls) -> None:
    pages = {f"concepts__k{n}": kiln(n, domain=f"d{n}") for n in range(6)}
    supports = "[{target: concepts/k0, type: supports}]"
    pages |= {
        f"sources__s{n}": page(f"Raku kiln lid glaze log {n}. [k](/concepts/k0.md)", type="source", relations=supports)
        for n in range(4)
    }
    recalls.wiki("kiln", **pages)
    answer = recalls.ask(QUERY, KILN, policy="automatic")
    assert len(answer.bundles) == 3
    assert all(len(each.evidence) <= 2 for each in answer.bundles)
    assert any(len(each.evidence) == 2 for each in answer.bundles)
    assert all(len(each.excerpt) <= 800 for each in items(answer))


def test_of_one_type_and_domain_two_cards_stand_where_there_is_an_alternative(recalls: Recalls) -> None:
    same = {f"concepts__k{n}": kiln(n, domain="clay") for n in range(4)}
    other = page("A raku kiln lid cools, they say of the glaze.", title="Else", domain="fire")
    recalls.wiki("kiln", **same, concepts__other=other)
    assert "concepts/other" in cards(recalls.ask(QUERY, KILN, policy="automatic"))
    assert "concepts/other" not in cards(recalls.ask(QUERY, KILN, max_results=3))


def test_without_being_asked_unpromoted_evidence_stands_only_where_no_card_does(recalls: Recalls) -> None:
    recalls.wiki(
        "kiln",
        concepts__card=kiln(1),
        sources__entry=page("The raku kiln lid cools the glaze, says the log.", type="source", title="Log"),
        sources__alone=page("Anagama flame marks come from the wood ash alone.", type="source", title="Ash"),
    )
    automatic = recalls.ask(QUERY, KILN, policy="automatic")
    assert all(bundle.card is not None for bundle in automatic.bundles)
    explicit = recalls.ask(QUERY, KILN)
    assert [bundle.card is None for bundle in explicit.bundles] == [False, True]
    alone = recalls.ask("anagama flame marks wood ash", KILN, policy="automatic")
    assert [(bundle.card, len(bundle.evidence)) for bundle in alone.bundles] == [(None, 1)]
    assert "unpromoted evidence" in recall_context(alone)


def test_a_short_skill_is_written_out_and_a_long_one_is_not(recalls: Recalls, tmp_path: Path) -> None:
    steps = "Open the raku kiln lid.\n\nLet the glaze cool.\n"
    recalls.wiki(
        "kiln",
        skills__short=page(steps, type="skill", title="Open a raku kiln"),
        skills__long=page(steps * 60, type="skill", title="Open a raku kiln slowly"),
    )
    found: dict[str, str | None] = {
        item.page_id: item.body for item in items(recalls.ask("raku kiln lid glaze cool", KILN))
    }
    assert found["skills/long"] is None
    body = found["skills/short"]
    assert body is not None
    assert "Open the raku kiln lid." in body
    assert "Let the glaze cool." in body
    off = recalls.ask("raku kiln lid glaze cool", KILN, settings=settings(tmp_path, recallSkillInlineMax=0))
    assert all(item.body is None for item in items(off))


def test_a_large_vault_is_listed_by_links_where_a_person_asked(recalls: Recalls, tmp_path: Path) -> None:
    recalls.wiki("kiln", **{f"concepts__k{n}": kiln(n) for n in range(4)})
    assert not recalls.ask(QUERY, KILN).links_first
    few = settings(tmp_path, recallLinksThreshold=3)
    assert recalls.ask(QUERY, KILN, settings=few).links_first
    assert not recalls.ask(QUERY, KILN, settings=few, policy="automatic").links_first
    exactly = settings(tmp_path, recallLinksThreshold=4)
    assert not recalls.ask(QUERY, KILN, settings=exactly).links_first


def test_a_configured_mode_that_is_none_fails_closed(recalls: Recalls, tmp_path: Path) -> None:
    recalls.wiki("kiln", concepts__k=kiln(1))
    wrong = settings(tmp_path, retrievalMode="turbo")
    with pytest.raises(RequestRefused) as refused:
        recalls.ask(QUERY, KILN, settings=wrong, mode=None)
    assert refused.value.kind == "config_invalid"
    assert recalls.ask(QUERY, KILN, settings=wrong, mode="lexical").bundles


def test_stale_and_deprecated_pages_stay_findable_behind_what_holds(recalls: Recalls) -> None:
    recalls.wiki(
        "kiln",
        concepts__old=kiln(1, status="deprecated"),
        concepts__new=kiln(2),
        concepts__stale=kiln(3, stale_after="2020-01-01"),
    )
    found: dict[str, r.Item] = {item.page_id: item for item in items(recalls.ask(QUERY, KILN))}
    assert found["concepts/old"].status == "deprecated"
    assert found["concepts/stale"].freshness == "stale"
    assert cards(recalls.ask(QUERY, KILN))[-1] == "concepts/old"


def test_a_person_s_verification_lifts_a_page_only_while_it_holds(recalls: Recalls) -> None:
    by_mara = "[{by: 'human:mara', at: '2026-01-01T00:00:00Z'}]"
    overtaken = {"verified": by_mara, "generated": "{by: x/1, at: '2026-02-01T00:00:00Z'}"}
    recalls.wiki(
        "kiln",
        concepts__a_overtaken=kiln(1, **overtaken),
        concepts__b_plain=kiln(1),
        concepts__c_verified=kiln(1, verified=by_mara),
    )
    answer = recalls.ask(QUERY, KILN, explain=True)
    assert answer.explain is not None
    factors = {each["page_id"]: each["multiplier"] for each in answer.explain["order"]}
    assert factors["concepts/c_verified"] == pytest.approx(1.05)
    assert factors["concepts/a_overtaken"] == factors["concepts/b_plain"] == pytest.approx(1.03)


def test_a_contradiction_stays_with_its_seed_however_low_it_ranks(recalls: Recalls) -> None:
    relation = "[{target: concepts/denial, type: contradicts}]"
    claim = page(
        "The raku kiln lid cools the glaze. [denial](/concepts/denial.md)", title="Raku kiln lid", relations=relation
    )
    crowd = {f"concepts__k{n:02}": kiln(n) for n in range(20)}
    recalls.wiki("kiln", concepts__claim=claim, concepts__denial=page("It does not.", title="Denial"), **crowd)
    for policy in ("explicit", "automatic"):
        answer = recalls.ask("raku kiln lid", KILN, policy=policy)
        bundle = next(each for each in answer.bundles if each.card and each.card.page_id == "concepts/claim")
        assert [(each.page_id, each.relation) for each in bundle.conflicts] == [("concepts/denial", "contradicts")]
        text = recall_context(answer)
        assert "concepts/claim" in text
        assert "concepts/denial" in text


def test_generic_and_related_links_add_nothing(recalls: Recalls) -> None:
    body = "The raku kiln lid cools. [a](/concepts/a.md) [b](/concepts/b.md)"
    recalls.wiki(
        "kiln",
        concepts__seed=page(body, title="Seed", relations="[{target: concepts/a, type: related_to}]"),
        concepts__a=page("Nothing of it.", title="A"),
        concepts__b=page("Nothing of it either.", title="B"),
    )
    assert {item.page_id for item in items(recalls.ask("raku kiln lid", KILN))} == {"concepts/seed"}


def log_of(target: str, relation: str = "supports") -> str:
    """A source that holds the words, about a card that does not."""
    return page(
        f"Anagama flame marks come from wood ash. [it](/{target}.md)",
        type="source",
        title="Firing log",
        relations=f"[{{target: {target}, type: {relation}}}]",
    )


def test_evidence_brings_the_card_that_it_supports_with_what_disputes_that(recalls: Recalls) -> None:
    disputed = "[{target: concepts/denial, type: contradicts}]"
    claim = page("Fly it hot. [no](/concepts/denial.md)", title="Claim", relations=disputed)
    recalls.wiki(
        "kiln",
        sources__entry=log_of("concepts/claim"),
        concepts__claim=claim,
        concepts__denial=page("No.", title="Denial"),
    )
    bundle = recalls.ask("anagama flame marks wood ash", KILN).bundles[0]
    assert bundle.card is not None
    assert (bundle.card.page_id, bundle.card.relation) == ("concepts/claim", "supported by the evidence")
    assert [each.page_id for each in bundle.evidence] == ["sources/entry"]
    assert [(each.page_id, each.relation) for each in bundle.conflicts] == [("concepts/denial", "contradicts")]


@pytest.mark.parametrize(
    ("relation", "fields"),
    [("related_to", {}), ("supports", {"status": "deprecated"}), ("supports", {"type": "source"})],
)
def test_evidence_brings_nothing_that_may_not_lead(recalls: Recalls, relation: str, fields: dict[str, str]) -> None:
    claim = page("Fly it hot.", title="Claim", **fields)
    recalls.wiki("kiln", sources__entry=log_of("concepts/claim", relation), concepts__claim=claim)
    bundle = recalls.ask("anagama flame marks wood ash", KILN).bundles[0]
    assert (bundle.card, [each.page_id for each in bundle.evidence]) == (None, ["sources/entry"])


def test_evidence_brings_no_superseded_card(recalls: Recalls) -> None:
    later = page(
        "Hotter. [old](/concepts/claim.md)", title="Later", relations="[{target: concepts/claim, type: supersedes}]"
    )
    recalls.wiki(
        "kiln",
        sources__entry=log_of("concepts/claim"),
        concepts__claim=page("Fly it hot.", title="Claim"),
        concepts__later=later,
    )
    assert recalls.ask("anagama flame marks wood ash", KILN).bundles[0].card is None
