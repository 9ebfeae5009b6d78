"""What each path costs now against what was recorded: who is worse, who only seemed so, and which record counts."""

from __future__ import annotations

import gc
import json
from collections.abc import Collection

import pytest

from wikid_daemon.bench import compare
from wikid_daemon.bench.compare import (
    Compared,
    Costs,
    Record,
    RecordsUnreadable,
    Verdict,
    comparison_table,
    is_worse,
    kind_of,
    last_of_kind,
    read_records,
)
from wikid_daemon.bench.cost import Measured, Run, Work, judged, middle, runs


class Remeasured:
    """Answers each request to measure again with the next of these, and keeps who was asked about."""

    def __init__(self, *answers: Costs) -> None:
        self._answers = list(answers)
        self.asked: list[list[str]] = []

    def __call__(self, suspects: Collection[str]) -> Costs:
        self.asked.append(list(suspects))
        return self._answers.pop(0)


def verdicts(compared: Collection[Compared]) -> dict[str, Verdict]:
    return {each.path: each.verdict for each in compared}


def record(commit: str = "abc", python: str = "3.11.7", statistic: str = "s", **paths: float) -> Record:
    return Record(commit, "2026-01-31", python, "a processor", statistic, paths or {"parse": 0.5}, {})


# -- costs -------------------------------------------------------------------------------------------------------------


def test_a_cost_is_the_middle_of_the_ratios_for_one_item() -> None:
    found = judged([Run(2.0, 1.0), Run(12.0, 4.0), Run(400.0, 1.0)], items=2)
    assert found.value == 1.5
    assert found.micros == 1e6


def test_of_several_processes_the_middle_is_taken_path_by_path() -> None:
    found = middle(
        [Measured({"a": each}, {"a": each}) for each in (3.0, 1.0, 2.0)] + [Measured({"b": 7.0}, {"b": 9.0})]
    )
    assert found == Measured({"a": 2.0, "b": 7.0}, {"a": 1.0, "b": 9.0})


def test_garbage_is_not_collected_while_a_path_is_measured_and_is_again_afterwards() -> None:
    collecting = list[bool]()
    found = runs(Work(lambda: collecting.append(gc.isenabled())), seconds=0.0)
    assert len(found) >= 3
    assert not collecting[-1]
    assert gc.isenabled()


# -- verdicts ----------------------------------------------------------------------------------------------------------


def test_a_path_that_costs_about_the_same_is_fine_and_is_measured_once() -> None:
    again = Remeasured()
    found = compare.compare({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 1.19, "b": 0.81, "c": 1.0}, again)
    assert verdicts(found) == {"a": "same", "b": "same", "c": "same"}
    assert again.asked == []
    assert not is_worse(found)


def test_a_path_is_worse_where_it_costs_a_fifth_more_each_of_three_times() -> None:
    again = Remeasured({"a": 1.25}, {"a": 1.4})
    found = compare.compare({"a": 1.0, "b": 1.0}, {"a": 1.3, "b": 1.0}, again)
    assert verdicts(found) == {"a": "worse", "b": "same"}
    assert again.asked == [["a"], ["a"]]
    assert is_worse(found)
    assert found[0].measured == [1.3, 1.25, 1.4]
    assert found[0].change == pytest.approx(0.25)


def test_a_path_that_is_fine_when_measured_again_was_noise() -> None:
    again = Remeasured({"a": 1.1})
    found = compare.compare({"a": 1.0}, {"a": 2.0}, again)
    assert verdicts(found) == {"a": "noise"}
    assert again.asked == [["a"]]
    assert not is_worse(found)
    assert "measured again it is not" in comparison_table(found)


def test_the_second_look_clears_a_path_as_well_and_asks_only_about_who_is_still_suspected() -> None:
    again = Remeasured({"a": 1.0, "b": 1.5, "c": 1.5}, {"b": 1.05, "c": 1.5})
    found = compare.compare({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 1.5, "b": 1.5, "c": 1.5}, again)
    assert verdicts(found) == {"a": "noise", "b": "noise", "c": "worse"}
    assert again.asked == [["a", "b", "c"], ["b", "c"]]


def test_a_path_that_costs_a_fifth_less_is_better_and_the_table_says_to_record_it() -> None:
    found = compare.compare({"a": 1.0}, {"a": 0.5}, Remeasured())
    assert verdicts(found) == {"a": "better"}
    assert not is_worse(found)
    assert "make bench-record" in comparison_table(found)


def test_a_new_path_is_told_and_never_worse() -> None:
    found = compare.compare({"a": 1.0}, {"a": 1.0, "b": 9.0}, Remeasured())
    assert verdicts(found) == {"a": "same", "b": "new"}
    assert found[1].change is None
    assert not is_worse(found)


def test_a_path_that_is_missing_is_told_with_what_it_cost() -> None:
    found = compare.compare({"a": 1.0, "b": 3.0}, {"a": 1.0}, Remeasured())
    assert verdicts(found) == {"a": "same", "b": "missing"}
    assert (found[1].recorded, found[1].now, found[1].change) == (3.0, None, None)
    assert not is_worse(found)


def test_a_suspect_that_cannot_be_measured_again_stays_worse() -> None:
    found = compare.compare({"a": 1.0}, {"a": 1.5}, Remeasured({}, {}))
    assert verdicts(found) == {"a": "worse"}


def test_the_table_has_a_row_for_each_path_with_its_change() -> None:
    found = compare.compare({"a": 1.0, "gone": 2.0}, {"a": 1.5, "fresh": 1.0}, Remeasured({"a": 1.5}, {"a": 1.5}))
    lines = comparison_table(found).splitlines()
    assert len(lines) == 4
    assert lines[1].split()[:4] == ["a", "1", "1.5", "+50.0%"]
    assert "WORSE" in lines[1]
    assert lines[2].split()[:4] == ["fresh", "–", "1", "–"]
    assert lines[3].split()[:4] == ["gone", "2", "–", "–"]


# -- the results file --------------------------------------------------------------------------------------------------


def test_records_come_back_as_they_were_written_in_order() -> None:
    written = [record("one", a=1.25), record("two", a=2.5, b=0.001_234)]
    assert read_records("".join(each.to_line() for each in written)) == written


def test_a_record_is_one_line_of_json_with_where_it_comes_from() -> None:
    line = record("abc", a=1.234_567).to_line()
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert json.loads(line) == {
        "commit": "abc",
        "date": "2026-01-31",
        "python": "3.11.7",
        "cpu": "a processor",
        "statistic": "s",
        "paths": {"a": 1.235},
        "micros": {},
    }


def test_what_a_later_version_adds_to_a_record_is_passed_over() -> None:
    line = json.dumps({**json.loads(record().to_line()), "weather": "fair"})
    assert read_records(f"{line}\n\n") == [record()]


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "{}", '"text"', record().to_line().replace("0.5", '"dear"'), record().to_line().replace("0.5", "0")],
)
def test_a_line_that_is_no_record_is_named(line: str) -> None:
    with pytest.raises(RecordsUnreadable, match="line 2 "):
        read_records(record().to_line() + line.rstrip("\n") + "\n")


def test_the_last_record_of_the_same_minor_version_of_python_counts() -> None:
    records = [record("old"), record("patch", "3.11.9"), record("newer", "3.12.1")]
    found = last_of_kind(records, kind_of("3.11.2", "s"))
    assert found is not None
    assert found.commit == "patch"


def test_a_record_of_another_python_or_by_another_statistic_is_not_compared() -> None:
    assert last_of_kind([record(python="3.1.11")], kind_of("3.11.7", "s")) is None
    assert last_of_kind([record(statistic="other")], kind_of("3.11.7", "s")) is None
    assert last_of_kind([], kind_of("3.11.7", "s")) is None
