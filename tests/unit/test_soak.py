"""The soak of the embedder: what its texts are like, and when memory counts as straying."""

from __future__ import annotations

from itertools import islice

import pytest

from wikid_daemon.bench.sandbox import BenchmarkFailed
from wikid_daemon.bench.soak import LONGEST_WORDS, Reading, figure, texts, to_json


def readings(*resident_mb: float) -> list[Reading]:
    return [Reading(1_000 * place, mb, 50.0) for place, mb in enumerate(resident_mb, start=1)]


def test_texts_are_of_every_length_and_the_same_in_every_run() -> None:
    made = list(islice(texts(), 300))
    assert made == list(islice(texts(), 300))
    lengths = [len(text.split()) for text in made]
    assert min(lengths) < 8
    assert 0.7 * LONGEST_WORDS < max(lengths) <= LONGEST_WORDS
    assert len(set(made)) > 290


def test_what_the_first_tenth_takes_is_warm_up() -> None:
    found = figure(readings(*[100.0], *[200.0] * 9, *[204.0] * 10))
    assert found.value == pytest.approx(2.0)
    assert found.met


@pytest.mark.parametrize("last", [211.0, 189.0])
def test_memory_may_stray_neither_up_nor_down(last: float) -> None:
    found = figure(readings(*[200.0] * 19, last))
    assert found.value == pytest.approx(5.5)
    assert found.met is False
    assert found.to_json()["end_mb"] == last


def test_a_run_that_is_too_short_tells_nothing() -> None:
    with pytest.raises(BenchmarkFailed, match="more"):
        figure(readings(200.0))


def test_readings_are_plain_values() -> None:
    assert to_json(readings(200.123456)) == [{"embeddings": 1_000, "resident_mb": 200.1, "per_cpu_second": 50.0}]
