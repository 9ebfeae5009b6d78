"""Recall over real indexes of small vaults: modes, filters, layers, bundles."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from builders import FAKE_MODEL, HANG_GUARD_SECONDS, FakeEmbedder, page, write
from recalls import Recalls, ids, items, kinds
from wikid_daemon.index import jvm
from wikid_daemon.index.encoders import EmbedFailed
from wikid_daemon.indexer import Indexer
from wikid_daemon.searching import Absence
from wikid_daemon.vault import reading
from wikid_daemon.vaults import Layer
from wikid_protocol import records as r
from wikid_protocol.errors import RequestRefused

DATA = Path(__file__).parents[1] / "data"
ABSENT = Absence("model_absent", "no embedding model has been built", "wikid models build")


@pytest.fixture(scope="module")
def recalls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recalls]:
    found = Recalls(tmp_path_factory.mktemp("recalls"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def harbour(recalls: Recalls) -> tuple[str, Layer]:
    """Pages about a harbour, of several types and dates."""
    recalls.wiki(
        "harbour",
        concepts__tide=page("The tide turns twice a day at the quay.", title="Tide", updated="2026-03-10"),
        concepts__fog=page("Fog hides the tide marks at the quay.", title="Fog", created="2026-01-05"),
        concepts__undated=page("Nobody dated this tide note at the quay.", title="Undated"),
        entities__quay=page("The quay where the tide is read.", title="Quay", type="entity", updated="2026-05-20"),
        sources__warden=page("The warden's log of tide and quay.", title="Log", type="source", updated="2026-03-10"),
    )
    return "harbour", "project"


# -- modes -------------------------------------------------------------------------------------------------------------


def test_words_and_meaning_answer_together(recalls: Recalls, harbour: tuple[str, Layer]) -> None:
    answer = recalls.ask("Tide", harbour, mode="hybrid")
    assert (answer.mode_used, answer.diagnostics) == ("hybrid", ())
    assert ids(answer)[0] == "concepts/tide"
    reasons = items(answer)[0].match_reasons
    assert any(each.startswith("meaning") for each in reasons)
    assert any(each.startswith("words") for each in reasons)
    assert "title match" in reasons


def test_lexical_mode_never_asks_for_the_model(recalls: Recalls, harbour: tuple[str, Layer]) -> None:
    class Untouchable:
        identity = "none"

        def embed_query(self, _text: str) -> Any:
            raise AssertionError

        def familiarity(self, _text: str) -> float:
            raise AssertionError

    answer = recalls.ask("Tide", harbour, model=Untouchable())
    assert (answer.mode_used, answer.diagnostics) == ("lexical", ())


@pytest.mark.parametrize("mode", [None, "hybrid", "adaptive", "quality"])
def test_without_a_model_words_answer_and_the_remedy_is_told(
    recalls: Recalls, harbour: tuple[str, Layer], mode: str | None
) -> None:
    answer = recalls.ask("Tide", harbour, model=ABSENT, mode=mode)
    assert answer.mode_used == "lexical"
    assert [each.remedy for each in answer.diagnostics if each.kind == "model_absent"] == ["wikid models build"]
    assert ids(answer)[0] == "concepts/tide"


@pytest.mark.parametrize("mode", ["adaptive", "quality"])
def test_what_needs_a_reranker_says_that_there_is_none(recalls: Recalls, harbour: tuple[str, Layer], mode: str) -> None:
    answer = recalls.ask("what turns at the quay", harbour, mode=mode)
    assert (answer.mode_used, kinds(answer)) == ("hybrid", ["reranker_absent"])


def test_a_first_look_that_is_certain_needs_no_reranker(recalls: Recalls, harbour: tuple[str, Layer]) -> None:
    answer = recalls.ask("Tide", harbour, mode="adaptive")
    assert (answer.mode_used, answer.mode_reasons, kinds(answer)) == ("hybrid", ("certain",), [])


def test_with_little_time_words_answer(recalls: Recalls, harbour: tuple[str, Layer]) -> None:
    answer = recalls.ask("Tide", harbour, mode="hybrid", deadline_ms=3)
    assert (answer.mode_used, kinds(answer)) == ("lexical", ["deadline_short"])
    assert recalls.ask("Tide", harbour, mode="hybrid", deadline_ms=5_000).mode_used == "hybrid"


def test_before_the_first_vector_words_answer(recalls: Recalls) -> None:
    write(recalls.home / "young", "n.md", "# Young\n\nnot embedded yet\n")
    recalls.open(recalls.home / "young", "young", embed=False)
    answer = recalls.ask("Young", ("young", "registered"), mode="hybrid")
    assert (answer.mode_used, kinds(answer)) == ("lexical", ["vectors_missing"])
    assert ids(answer) == ["n"]


def test_a_language_that_the_model_does_not_know_is_left_to_the_words(
    recalls: Recalls, harbour: tuple[str, Layer]
) -> None:
    by_words = recalls.ask("tide quay marks", harbour)
    strange = recalls.ask("tide quay marks", harbour, mode="hybrid", model=FakeEmbedder(knows=0.0))
    assert ids(strange) == ids(by_words)
    assert [each.score for each in items(strange)] == [each.score for each in items(by_words)]


def test_a_query_that_the_model_refuses_is_answered_by_words(recalls: Recalls, harbour: tuple[str, Layer]) -> None:
    class Refusing:
        identity = FAKE_MODEL

        def embed_query(self, _text: str) -> Any:
            raise EmbedFailed(0, "no")

        def familiarity(self, _text: str) -> float:
            return 1.0

    answer = recalls.ask("Tide", harbour, mode="hybrid", model=Refusing())
    assert (answer.mode_used, kinds(answer)) == ("lexical", ["query_not_embedded"])
    assert ids(answer)[0] == "concepts/tide"


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "   ", "???", "()[]"])
def test_no_words_is_an_answer_with_a_reason(recalls: Recalls, harbour: tuple[str, Layer], query: str) -> None:
    answer = recalls.ask(query, harbour, mode=None)
    assert (answer.bundles, answer.reason, kinds(answer)) == ((), "no_reliable_memory", ["no_words"])


def test_the_length_of_a_query_is_counted_in_code_points(recalls: Recalls, harbour: tuple[str, Layer]) -> None:
    recalls.ask("🎉" * 2_000, harbour)
    with pytest.raises(RequestRefused) as refused:
        recalls.ask("🎉" * 2_001, harbour)
    assert refused.value.kind == "recall_query_too_long"


def test_a_cancelled_recall_stops_before_it_searches(recalls: Recalls, harbour: tuple[str, Layer]) -> None:
    with pytest.raises(RequestRefused) as refused:
        recalls.ask("tide", harbour, cancelled=True)
    assert refused.value.kind == "cancelled"


def test_types_narrow_the_answer_in_every_mode(recalls: Recalls, harbour: tuple[str, Layer]) -> None:
    for mode in ("lexical", "hybrid"):
        assert {each.type for each in items(recalls.ask("tide", harbour, mode=mode, types=("entity",)))} == {"entity"}
        both = recalls.ask("tide", harbour, mode=mode, types=("Entity", " source"), max_results=10)
        assert {each.type for each in items(both)} == {"entity", "source"}
    assert recalls.ask("tide", harbour, types=("nothing",)).bundles == ()


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        ({"since": "2026-03-10"}, {"concepts/tide", "entities/quay", "sources/warden"}),
        ({"since": "2026-03-11"}, {"entities/quay"}),
        ({"until": "2026-03-10"}, {"concepts/tide", "concepts/fog", "sources/warden"}),
        ({"since": "2026-01-05", "until": "2026-01-05"}, {"concepts/fog"}),
        ({"since": "2027-01-01"}, set()),
    ],
)
def test_a_period_is_of_the_pages_own_dates_and_includes_both_ends(
    recalls: Recalls, harbour: tuple[str, Layer], period: dict[str, str], expected: set[str]
) -> None:
    assert (
        set(ids(recalls.ask("tide", harbour, max_results=10, since=period.get("since"), until=period.get("until"))))
        == expected
    )


def test_in_a_small_vault_the_words_of_every_page_still_answer(recalls: Recalls, harbour: tuple[str, Layer]) -> None:
    assert len(ids(recalls.ask("tide quay", harbour, max_results=10))) == 5


def test_the_limits_of_an_answer(recalls: Recalls) -> None:
    root = recalls.home / "many"
    for number in range(25):
        write(root, f"n{number:02}.md", page(f"the lighthouse keeper number {number}", title=f"Keeper {number}"))
    recalls.open(root, "many")
    many: tuple[str, Layer] = ("many", "registered")
    assert len(recalls.ask("lighthouse keeper number", many).bundles) == 5
    assert len(recalls.ask("lighthouse keeper number", many, max_results=10).bundles) == 10
    ranks = [bundle.card.rank for bundle in recalls.ask("lighthouse keeper number", many).bundles if bundle.card]
    assert ranks == [1, 2, 3, 4, 5]
    assert len(recalls.ask("Keeper 3", many, max_results=10, policy="automatic").bundles) <= 3


def test_a_long_page_is_shown_by_the_part_that_matched(recalls: Recalls) -> None:
    root = recalls.home / "long"
    parts = [f"## Part {n}\n\n" + f"ordinary words of part {n}. " * 40 for n in range(20)]
    parts[13] += "\n\nThe needle lies under the anchor."
    text = page("# Long\n\n" + "\n\n".join(parts), title="Long")
    write(root, "long.md", text)
    recalls.open(root, "long")
    shown = items(recalls.ask("needle under the anchor", ("long", "registered")))[0]
    assert "needle lies under the anchor" in shown.excerpt
    assert len(shown.excerpt) <= 800
    assert shown.heading == "Part 13"
    first = shown.excerpt.removeprefix("… ").split("\n")[0].removesuffix(" …")
    assert first in text.split("\n")[shown.line - 1]


def test_automatic_recall_holds_back_what_explicit_recall_would_show(
    recalls: Recalls, harbour: tuple[str, Layer]
) -> None:
    for prompt in ("to do it in the", "yes", "ok go on", "fix it", "thanks a lot"):
        answer = recalls.ask(prompt, harbour, policy="automatic")
        assert (answer.bundles, answer.reason) == ((), "no_reliable_memory")
    assert ids(recalls.ask("Tide", harbour, policy="automatic"))[:1] == ["concepts/tide"]


def test_an_answer_says_how_current_it_is(recalls: Recalls, harbour: tuple[str, Layer]) -> None:
    answer = recalls.ask("Tide", harbour)
    store = recalls.indexers["harbour"].store
    assert store is not None
    assert (answer.generation, answer.stale, answer.pending) == (store.generation, False, 0)
    assert [(each.name, each.layer, each.stale) for each in answer.vaults] == [("harbour", "project", False)]
    assert answer.recall_id != recalls.ask("Tide", harbour).recall_id


def test_a_page_that_was_deleted_meanwhile_is_marked(recalls: Recalls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "GLANCE_SECONDS", HANG_GUARD_SECONDS)
    wiki = recalls.wiki(
        "deleted", concepts__gone=page("gone soon", title="Gone"), concepts__stays=page("x", title="Stays")
    )
    indexer = recalls.indexers["deleted"]
    indexer.close()  # nobody notices the deletion
    again = Indexer(indexer.vault, "m", lambda: None, lambda _indexer: None, jvm.detach)
    recalls.indexers["deleted"] = again
    again.start()
    again.sync(30)
    (wiki / "concepts" / "gone.md").unlink()
    found = [(each.page_id, each.missing) for each in items(recalls.ask("Gone", ("deleted", "project")))]
    assert found in ([], [("concepts/gone", True)])


def test_a_recall_does_not_wait_for_a_disk_that_is_silent(recalls: Recalls, monkeypatch: pytest.MonkeyPatch) -> None:
    wiki = recalls.wiki("silent", concepts__buoy=page("A buoy.", title="Buoy"))
    lexists, released = os.path.lexists, threading.Event()
    asked, answered = list[str](), list[bool]()

    def silent(path: str | Path) -> bool:
        if wiki in Path(path).parents:
            asked.append(os.fspath(path))
            answered.append(released.wait(HANG_GUARD_SECONDS))
        return lexists(path)

    monkeypatch.setattr(os.path, "lexists", silent)
    try:
        for _ in range(3):
            found = items(recalls.ask("Buoy", ("silent", "project")))
            assert [(each.page_id, each.missing) for each in found] == [("concepts/buoy", False)]
        assert len(asked) <= 1
        assert answered == []
    finally:
        released.set()


# -- layers ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def layered(recalls: Recalls) -> Sequence[tuple[str, Layer]]:
    """A project's vault above a personal one, with ids and contents in common."""
    same = page("Ropes are spliced on Mondays.", title="Ropes")
    recalls.wiki(
        "mine",
        concepts__anchor=page("My own anchor notes.", title="Anchor"),
        concepts__lamp=page("My lamp notes.", title="Lamp"),
        concepts__my_ropes=same,
        **{"sources__SRC-2026-01-01-001": page("My anchor source.", type="source", title="Anchor source")},
    )
    recalls.wiki(
        "ours",
        concepts__anchor=page("The project's anchor notes.", title="Anchor"),
        concepts__crane=page("The project's crane notes.", title="Crane"),
        concepts__our_ropes=same,
        **{"sources__SRC-2026-01-01-001": page("The project's anchor source.", type="source", title="Anchor source")},
    )
    return (("ours", "project"), ("mine", "personal"))


def where(answer: r.Recall) -> list[tuple[str, str]]:
    return [(item.vault, item.page_id) for item in items(answer)]


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_the_project_wins_a_duplicate_id(recalls: Recalls, layered: Sequence[tuple[str, Layer]], mode: str) -> None:
    found = where(recalls.ask("Anchor", *layered, mode=mode, max_results=10))
    assert found[0] == ("ours", "concepts/anchor")
    assert ("mine", "concepts/anchor") not in found


def test_a_source_of_each_layer_is_a_page_of_its_own(recalls: Recalls, layered: Sequence[tuple[str, Layer]]) -> None:
    found = where(recalls.ask("Anchor source", *layered, max_results=10))
    assert {vault for vault, page_id in found if page_id == "sources/SRC-2026-01-01-001"} == {"ours", "mine"}


@pytest.mark.usefixtures("layered")
def test_vaults_that_are_not_layers_never_hide_each_other(recalls: Recalls) -> None:
    found = where(recalls.ask("Anchor", ("ours", "registered"), ("mine", "registered"), max_results=10))
    assert {vault for vault, page_id in found if page_id == "concepts/anchor"} == {"ours", "mine"}


def test_the_same_content_is_shown_once(recalls: Recalls, layered: Sequence[tuple[str, Layer]]) -> None:
    found = where(recalls.ask("Ropes", *layered, max_results=10))
    assert found[0] == ("ours", "concepts/our_ropes")
    assert ("mine", "concepts/my_ropes") not in found


def test_both_layers_answer_in_one_ranking(recalls: Recalls, layered: Sequence[tuple[str, Layer]]) -> None:
    found = where(recalls.ask("lamp crane notes", *layered, max_results=10))
    assert {("ours", "concepts/crane"), ("mine", "concepts/lamp")} <= set(found)
    assert len(found) == len(set(found))


# -- bundles over the sample vault -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sample(recalls: Recalls) -> tuple[str, Layer]:
    root = recalls.home / "sample"
    shutil.copytree(DATA / "personal", root, symlinks=True)
    recalls.open(root, "sample")
    return "sample", "personal"


def bundle_of(answer: r.Recall, page_id: str) -> r.Bundle:
    return next(each for each in answer.bundles if each.card is not None and each.card.page_id == page_id)


def test_a_card_comes_with_the_evidence_it_is_derived_from(recalls: Recalls, sample: tuple[str, Layer]) -> None:
    bundle = bundle_of(recalls.ask("Autovacuum tuning for hot tables", sample), "concepts/autovacuum-tuning")
    assert {(each.page_id, each.relation) for each in bundle.evidence} == {
        ("sources/SRC-2026-03-04-001", "derived from"),
        ("sources/obs-2026-03-05-autovacuum-stalled-on-events-table", "derived from"),
    }
    assert bundle.card is not None
    assert (bundle.card.freshness, bundle.card.dates.verified) == ("current", "2026-05-02T18:00:00Z")


def test_a_dispute_stays_with_the_card_from_either_end(recalls: Recalls, sample: tuple[str, Layer]) -> None:
    pair = ("concepts/pgbouncer-breaks-prepared-statements", "concepts/pgbouncer-supports-prepared-statements")
    for query, card, other in (
        ("Transaction pooling breaks prepared statements", *pair),
        ("PgBouncer 1.21 tracks prepared statements", *reversed(pair)),
    ):
        answer = recalls.ask(query, sample)
        assert [(each.page_id, each.relation) for each in bundle_of(answer, card).conflicts] == [(other, "contradicts")]
        assert all(each.card is None or each.card.page_id != other for each in answer.bundles)


def test_freshness_follows_the_clock(recalls: Recalls, sample: tuple[str, Layer]) -> None:
    card = bundle_of(recalls.ask("Collation upgrade check", sample), "concepts/collation-upgrade").card
    assert card is not None
    assert card.freshness == "stale"


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
def test_no_page_is_shown_twice(recalls: Recalls, sample: tuple[str, Layer], mode: str) -> None:
    for query in ("postgres pooling", "retry budget", "kafka delivery guarantees", "redis aof", "idempotency keys"):
        answer = recalls.ask(query, sample, mode=mode, max_results=10)
        shown = [
            item.page_id
            for bundle in answer.bundles
            for item in (*([bundle.card] if bundle.card else []), *bundle.evidence)
        ]
        assert len(shown) == len(set(shown))
        for bundle in answer.bundles:
            assert len({each.page_id for each in (*bundle.evidence, *bundle.conflicts)}) == len(bundle.evidence) + len(
                bundle.conflicts
            )
