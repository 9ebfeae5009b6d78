"""A recall over several vaults while the index of one cannot be searched: it is damaged, or another takes its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import apsw
import pytest

from builders import page
from recalls import Recalls, ids, kinds
from wikid_daemon.index.lucene import LexicalIndexDamaged
from wikid_daemon.index.store import Store
from wikid_daemon.vaults import Layer

QUAY: tuple[str, Layer] = ("quay", "project")
SHED: tuple[str, Layer] = ("shed", "personal")


@pytest.fixture(scope="module")
def recalls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recalls]:
    found = Recalls(tmp_path_factory.mktemp("vaults"))
    found.wiki("quay", concepts__tide=page("The tide turns twice a day.", title="Tide"))
    found.wiki("shed", concepts__oil=page("Oil for the tide lamps.", title="Oil"))
    yield found
    found.close()


def fails(
    recalls: Recalls,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    problems: Sequence[Exception],
    names: Sequence[str] = ("shed",),
) -> None:
    """Have these vaults' indexes raise these when asked, one after the other, and answer again after them."""
    harmed, plain, left = [recalls.indexers[name].store for name in names], getattr(Store, method), iter(problems)

    def asked(self: Store, *args: Any) -> Any:
        problem = next(left, None) if self in harmed else None
        if problem is not None:
            raise problem
        return plain(self, *args)

    monkeypatch.setattr(Store, method, asked)


@pytest.mark.parametrize(
    ("method", "problem"),
    [("lexical", LexicalIndexDamaged("no")), ("terms", LexicalIndexDamaged("no")), ("load", apsw.CorruptError("no"))],
)
def test_the_other_vaults_answer_and_the_one_is_told_of(
    recalls: Recalls, monkeypatch: pytest.MonkeyPatch, method: str, problem: Exception
) -> None:
    fails(recalls, monkeypatch, method, [problem] * 100)
    answer = recalls.ask("tide", QUAY, SHED)
    assert (ids(answer), kinds(answer), answer.stale) == (["concepts/tide"], ["vault_opening"], True)
    assert [each.vault_id for each in answer.diagnostics] == [recalls.indexers["shed"].vault.vault_id]


@pytest.mark.parametrize("problem", [LexicalIndexDamaged("closed"), apsw.ConnectionClosedError("closed")])
def test_an_index_that_was_replaced_meanwhile_is_asked_anew(
    recalls: Recalls, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    fails(recalls, monkeypatch, "load", [problem])
    answer = recalls.ask("tide", QUAY, SHED)
    assert (sorted(ids(answer)), kinds(answer)) == (["concepts/oil", "concepts/tide"], [])


@pytest.mark.parametrize("names", [["shed"], ["quay", "shed"]])
def test_where_no_vault_answers_the_recall_is_refused(
    recalls: Recalls, monkeypatch: pytest.MonkeyPatch, names: Sequence[str]
) -> None:
    fails(recalls, monkeypatch, "lexical", [LexicalIndexDamaged("no")] * 100, names)
    with pytest.raises(LexicalIndexDamaged):
        recalls.ask("tide", *[vault for vault in (QUAY, SHED) if vault[0] in names])
