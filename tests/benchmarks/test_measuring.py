"""Measurement, comparison and reports of samples."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from rich.console import Console

from benchmarks import report
from benchmarks.compare import DifferentError, check_equal
from benchmarks.deltalog import DeltaLogReader, NoCommitError, commit_time, has_rows, has_transaction
from benchmarks.measure import Timings, format_duration, interleave
from benchmarks.probe import Probe, TimedFunction
from benchmarks.results import Limit, Measurement

ROWS = pa.table({"k": [1, 2, 3], "v": [0.1, 0.2, None]})


def build_measurement(ours: float, theirs: float | None, limit: Limit) -> Measurement:
    return Measurement("a thing", Timings((ours,)), None if theirs is None else Timings((theirs,)), limit)


def test_sides_alternate_in_changing_order_and_the_first_round_is_discarded() -> None:
    turns: list[str] = []

    def side(name: str) -> Sequence[float]:
        turns.append(name)
        return [float(len(turns))]

    timings = interleave({"a": lambda: side("a"), "b": lambda: side("b")}, 2)

    assert turns == ["a", "b", "b", "a", "a", "b"]
    assert timings == {"a": Timings((4.0, 5.0)), "b": Timings((3.0, 6.0))}


def test_a_quantile_is_a_sample_that_this_share_does_not_exceed() -> None:
    timings = Timings(tuple(float(number) for number in range(100)))

    assert (timings.median, timings.quantile(0.95), timings.max) == (49.5, 95.0, 99.0)


@pytest.mark.parametrize(("seconds", "text"), [(0.00123, "1.23 ms"), (0.0456, "45.6 ms"), (0.789, "789 ms"), (12.34, "12.3 s")])
def test_durations_have_three_digits(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("measured", "is_met"),
    [
        (build_measurement(1.0, 2.0, Limit(ratio=0.5)), True),
        (build_measurement(1.1, 2.0, Limit(ratio=0.5)), False),
        (build_measurement(1.0, None, Limit(seconds=1.0)), True),
        (build_measurement(1.1, None, Limit(seconds=1.0)), False),
    ],
)
def test_a_limit_is_on_the_ratio_or_on_our_seconds(measured: Measurement, is_met: bool) -> None:
    assert measured.is_met is is_met


def test_equal_rows_may_come_in_any_order_and_differ_in_last_digits() -> None:
    check_equal(ROWS, pa.table({"v": [None, 0.1 + 1e-12, 0.2], "k": [3, 1, 2]}), ["k"])


@pytest.mark.parametrize(
    "other", [{"k": [1, 2], "v": [0.1, 0.2]}, {"k": [1, 2, 4], "v": [0.1, 0.2, None]}, {"k": [1, 2, 3], "v": [0.1, 0.21, None]}]
)
def test_different_rows_are_an_error(other: dict[str, list[float]]) -> None:
    with pytest.raises(DifferentError):
        check_equal(ROWS, pa.table(other), ["k"])


def test_a_log_reader_waits_for_the_expected_commit(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    write_deltalake(uri, ROWS)
    log = DeltaLogReader(uri)
    properties = CommitProperties(app_transactions=[Transaction("app", 3)])
    write_deltalake(uri, ROWS.slice(0, 0), mode="append")
    write_deltalake(uri, ROWS, mode="append", commit_properties=properties)

    assert log.wait(has_rows, 1) == commit_time(uri, 2)
    with pytest.raises(NoCommitError):
        log.wait(has_rows, 0.01)


def test_a_log_reader_finds_the_transactions_of_a_commit(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    log = DeltaLogReader(uri)
    write_deltalake(uri, ROWS, commit_properties=CommitProperties(app_transactions=[Transaction("app", 3)]))
    write_deltalake(uri, ROWS, mode="append", commit_properties=CommitProperties(app_transactions=[Transaction("app", 5)]))

    assert log.wait(has_transaction("app", 4), 1) == commit_time(uri, 1)


def test_a_probe_times_calls_while_it_is_active_and_restores_the_functions() -> None:
    class Thing:
        def work(self) -> int:
            return 7

    before = Thing.work
    probe = Probe([TimedFunction("work", Thing, "work"), TimedFunction("never", Thing, "__repr__")])
    with probe.activate():
        assert Thing().work() == 7
    Thing().work()

    assert Thing.work is before
    assert {name: len(timings.samples) for name, timings in probe.timings().items()} == {"work": 1}


def test_a_report_has_the_details_and_is_saved_with_all_samples(tmp_path: Path) -> None:
    measured = Measurement("a thing", Timings((0.1, 0.3, 0.2)), Timings((0.4,)), Limit(ratio=0.4), parts={"step": Timings((0.05,))})
    text = StringIO()
    report.print_report([measured], report.Machine.current(), Console(file=text, width=160))
    report.save_report([measured], report.Machine.current(), tmp_path / "out.json")

    assert "200 ms (100 - 300)" in text.getvalue()
    assert "0.50 ×" in text.getvalue()
    assert "step: 50.0 ms" in text.getvalue()
    assert json.loads((tmp_path / "out.json").read_text())["results"][0]["headrace"] == [0.1, 0.3, 0.2]
