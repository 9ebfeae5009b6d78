"""Automatic recall of the real daemon with its real models: what has nothing to do with a vault injects nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import base_notes, until
from daemon_process import DaemonProcess
from wikid_client.layout.context import recall_context
from wikid_protocol import records as r

DATA = Path(__file__).parents[1] / "data"

EMPTY_PROMPTS = ("to do it in the", "yes", "ok go on", "fix it")  # known input T25
FOREIGN = (
    "how do I make sourdough bread",
    "who won the football world cup in 1998",
    "explain the rules of castling in chess",
    "what is the capital of Mongolia",
    "write a haiku about autumn leaves",
    "which vaccines does a newborn need",
    "how far away is the Andromeda galaxy",
    "translate good morning into Portuguese",
    "what did Thomas Aquinas say about natural law",
    "can a landlord keep the deposit",
    "how does photosynthesis work",
    "recommend a film by Akira Kurosawa",
    "why did the Bronze Age collapse",
    "what is the difference between a sonata and a symphony",
    "how do I tie a bow tie",
    "wie hoch ist der Mount Everest",
    "quelle est la recette de la ratatouille",
    "東京タワーの高さは",
    "how long do dinosaurs eggs take to hatch",
    "draw a cat with ASCII characters",
)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[DaemonProcess]:
    home = tmp_path_factory.mktemp("automatic")
    base_notes(home / "v0")
    shutil.copytree(DATA / "personal", home / "personal", symlinks=True)
    with DaemonProcess(home, XDG_CACHE_HOME=str(model_cache)) as running:
        running.add(home / "v0", "v0")
        running.add(home / "personal", "sample")
        until(lambda: warm(running), "models and vectors being ready", seconds=300)
        yield running


def warm(daemon: DaemonProcess) -> bool:
    status = daemon.client.status()
    ready = {each.purpose for each in status.models if each.state == "ready"}
    return ready == {"embedder", "reranker"} and all(each.chunks == each.embedded > 0 for each in status.vaults)


def automatic(daemon: DaemonProcess, prompt: str, vault: str) -> r.Recall:
    return daemon.client.recall(prompt, vault=vault, policy="automatic")


def in_time(daemon: DaemonProcess, prompt: str, vault: str) -> r.Recall:
    """The answer of a machine that has the time for it, which a loaded one has not always."""
    answers: list[r.Recall] = []

    def answered() -> bool:
        answers.append(automatic(daemon, prompt, vault))
        return all(each.kind != "too_late" for each in answers[-1].diagnostics)

    until(answered, "an answer within 250 ms", seconds=120)
    return answers[-1]


@pytest.mark.parametrize("prompt", [*EMPTY_PROMPTS, *FOREIGN])
def test_t25_foreign_and_empty_prompts_inject_nothing(daemon: DaemonProcess, prompt: str) -> None:
    for vault in ("v0", "sample"):
        answer = in_time(daemon, prompt, vault)
        assert (answer.bundles, answer.reason) == ((), "no_reliable_memory")
        assert recall_context(answer).startswith("No reliable memory")


@pytest.mark.parametrize(
    ("prompt", "page"),
    [
        ("autovacuum tuning for the events table", "concepts/autovacuum-tuning"),
        ("does pgbouncer support prepared statements", "concepts/pgbouncer-supports-prepared-statements"),
    ],
)
def test_what_the_vault_knows_is_injected_with_its_card_first(daemon: DaemonProcess, prompt: str, page: str) -> None:
    answer = in_time(daemon, prompt, "sample")
    bundle = answer.bundles[0]
    assert bundle.card is not None
    shown = {bundle.card.page_id, *(each.page_id for each in bundle.conflicts)}
    assert page in shown
    assert len(answer.bundles) <= 3
    assert len(recall_context(answer)) <= 8_000
