"""The processor that aggregates gives what a plain loop over the rows gives, for any cut into batches."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ProgrammingError
from headrace.model.time import Precision
from headrace.model.types import BIGINT, DOUBLE
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import InsertEvent, Measurement, StatementEvent
from headrace.pipes.processors import aggregate
from headrace.pipes.processors.aggregate_operators import OPERATORS
from tests.pipes.processors.streams import CONTEXT, Row, cuts, insert, row, rows, rows_in, run_cut, same, through_ipc

COLUMNS = ("d1", "i1", "t1")
SECOND = 1000
ALL = ",".join(OPERATORS)
TEXT_OPERATORS = ("count", "first", "last")


@dataclass
class Window:
    """The points of a window in the order of their arrival."""

    points: list[tuple[int, Any]] = field(default_factory=list)

    @property
    def values(self) -> list[Any]:
        return [value for _, value in self.points]

    def at_end(self, choose: Callable[..., int]) -> Any:
        end = choose(time for time, _ in self.points)
        return [value for time, value in self.points if time == end][-1]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def results(window: Window) -> dict[str, Any]:
    """Return all aggregates of a window, from their definitions."""
    values = window.values
    out: dict[str, Any] = {"count": len(values), "first": window.at_end(min), "last": window.at_end(max)}
    if isinstance(values[0], str):
        return out
    rms, peak, magnitude = math.sqrt(mean([x * x for x in values])), max(map(abs, values)), mean([abs(x) for x in values])
    center, variance = statistics.fmean(values), statistics.pvariance(values)
    third, fourth = (mean([(x - center) ** power for x in values]) for power in (3, 4))
    out |= {"sum": float(sum(values)), "avg": mean(values), "min": min(values), "max": max(values), "var": variance, "rms": rms}
    out |= {"peak": peak, "extreme": max(values) if max(values) >= -min(values) else min(values)}
    out |= {"ff": divide(rms, magnitude), "cf": divide(peak, rms), "pf": divide(peak, magnitude)}
    out |= {"ce": divide(peak, mean([math.sqrt(abs(x)) for x in values]) ** 2)}
    return out | {"skew": divide(third, variance**1.5), "kurt": divide(fourth, variance**2)}


def divide(first: float, second: float) -> float:
    return first / second if second else math.nan


def model(found: Sequence[Row], seconds: int, width: int) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the results of the closed windows by device and start."""
    windows: dict[str, dict[int, Window]] = {}
    newest: dict[str, int] = {}
    out = {}
    for one in found:
        for name, value in one.values.items():
            key, last = f"{one.device}.{name}", one.time // (seconds * SECOND)
            newest[key] = max(newest.get(key, last), last)
            opened = windows.setdefault(key, {})
            for number in range(last - width + 1, last + 1):
                if number > newest[key] - width:
                    opened.setdefault(number, Window()).points.append((one.time, value))
            for number in [number for number in opened if number <= newest[key] - width]:
                out[key, number * seconds * SECOND] = results(opened.pop(number))
    return out


def attributes(width: int, **others: str) -> dict[str, str]:
    sliding = {"windowing-strategy": "sliding", "sliding.window-seconds": str(2 * width)} if width > 1 else {}
    return {"operators": ALL, "sliding.seconds": "2", **sliding, **others}


def by_device(found: Sequence[Row]) -> list[Row]:
    return sorted(found, key=lambda one: one.device)


WHOLE = st.integers(0, 40).map(lambda time: time * SECOND // 3)
NUMBERS = rows(COLUMNS, times=WHOLE).map(
    lambda found: [one for one in found if math.isfinite(one.values.get("d1", 0)) and is_small(one)]
)


def is_small(one: Row) -> bool:
    return bool(abs(one.values.get("d1", 0)) < 1e9)


@given(cuts(NUMBERS), st.integers(1, 3))
def test_results_are_those_of_a_loop_over_the_rows(cut: tuple[list[Row], list[list[Row]]], width: int) -> None:
    whole, batches = cut
    found = run_cut(aggregate.create, attributes(width), batches, COLUMNS)
    expected = model(whole, 2, width)
    assert {(one.device, one.time) for one in found} == expected.keys()
    assert len(found) == len(expected)
    for one in found:
        values = expected[one.device, one.time]
        assert one.values == (values if "avg" not in values else pytest.approx(values, nan_ok=True, rel=1e-6, abs=1e-9))


@given(cuts(rows(COLUMNS, times=WHOLE)), st.integers(1, 3))
def test_any_cut_into_batches_gives_the_same_bits(cut: tuple[list[Row], list[list[Row]]], width: int) -> None:
    whole, batches = cut
    cut_rows = run_cut(aggregate.create, attributes(width), batches, COLUMNS)
    assert same(by_device(cut_rows), by_device(run_cut(aggregate.create, attributes(width), [whole], COLUMNS)))


@pytest.mark.parametrize("devices", [1, 2000])
def test_fractions_are_summed_in_the_order_of_their_arrival(devices: int) -> None:
    values = np.random.default_rng(1).normal(size=20_000)
    found = [row(at * 5, f"root.db.d{at % devices}", d1=float(value)) for at, value in enumerate(values)]
    whole = run_cut(aggregate.create, attributes(1), [found], ["d1"])
    cut = run_cut(aggregate.create, attributes(1), [found[:7001], found[7001:7003], found[7003:]], ["d1"])
    assert same(by_device(cut), by_device(whole))
    assert next(one.values["sum"] for one in whole if one.device == "root.db.d0.d1") == sum(
        one.values["d1"] for one in found[:400] if one.device == "root.db.d0"
    )


def test_large_values_that_are_close_have_an_exact_variance() -> None:
    found = [row(at * 100, "root.db.d", d1=1e9 + at % 2) for at in range(30)]
    result = run_cut(aggregate.create, attributes(1), [found], ["d1"])
    assert result[0].values["var"] == 0.25


def test_names_of_results() -> None:
    given = {
        "operators": "AVG, count,max",
        "output.measurements": "mean,`a b`",
        "output.database": "root.rollup",
        "sliding.seconds": "60",
    }
    processor = aggregate.create(PipeAttributes(given), CONTEXT)
    statement = StatementEvent("CREATE DATABASE root.a", "schema.database.create")
    found = [row(0, "root.db.a.d", i1=1), row(59_999, "root.db.a.d", i1=4), row(60_000, "root.db.a.d", i1=9)]
    result = processor.process([insert(found, ["i1"]), statement], 0)
    assert rows_in(result) == [Row(0, "root.rollup.a.d.i1", {"mean": 2.5, "`a b`": 2, "max": 4})]
    assert isinstance(result[0], InsertEvent)
    assert result[0].data.database == "root.rollup"
    assert list(result[0].data.columns.values()) == [
        Measurement("mean", DOUBLE),
        Measurement("`a b`", BIGINT),
        Measurement("max", BIGINT),
    ]
    assert result[1] is statement


def test_windows_begin_at_the_boundary_in_the_precision_of_the_rows() -> None:
    given = {"operators": "count", "sliding.seconds": "60", "sliding.boundary-time": "1970-01-01T00:00:10"}
    processor = aggregate.create(PipeAttributes(given), CONTEXT)
    found = [row(seconds * 10**6, "root.db.d", d1=1.0) for seconds in (9, 10, 69, 70, 71)]
    result = processor.process([insert(found, precision=Precision.MICROSECOND)], 0)
    assert [(one.time, one.values["count"]) for one in rows_in(result)] == [(-50 * 10**6, 1), (10 * 10**6, 2)]


def test_an_open_window_is_delivered_after_the_greatest_delay() -> None:
    given = {"operators": "sum", "sliding.seconds": "60", "output.max-delay-seconds": "5"}

    def restarted(before: Any) -> Any:
        processor = aggregate.create(PipeAttributes(given), CONTEXT)
        processor.restore(through_ipc(before.state()))
        return processor

    processor = aggregate.create(PipeAttributes(given), CONTEXT)
    assert processor.wake_at is None
    assert processor.process([insert([row(0, "root.db.d", d1=1.0)])], 100_000) == []
    processor = restarted(processor)
    assert processor.wake_at == 105_000
    assert processor.process([], 104_999) == []
    assert rows_in(processor.process([], 105_000)) == [row(0, "root.db.d.d1", sum=1.0)]
    assert processor.wake_at is None
    processor = restarted(processor)
    assert processor.process([], 200_000) == []
    result = processor.process([insert([row(1, "root.db.d", d1=2.0), row(60_000, "root.db.d", d1=5.0)])], 300_000)
    assert rows_in(result) == [row(0, "root.db.d.d1", sum=3.0)]
    assert processor.wake_at == 305_000
    assert rows_in(processor.process([], 200_000)) == [row(60_000, "root.db.d.d1", sum=5.0)], "the clock was set back"


def test_a_series_of_text_has_the_results_that_it_can_have() -> None:
    found = [row(0, "root.db.d", t1="a"), row(1, "root.db.d", t1="b"), row(2000, "root.db.d", t1="c")]
    assert run_cut(aggregate.create, attributes(1), [found], ["t1"]) == [
        Row(0, "root.db.d.t1", {"count": 2, "first": "a", "last": "b"})
    ]
    assert run_cut(aggregate.create, {"operators": "avg", "sliding.seconds": "2"}, [found], ["t1"]) == []


def test_a_state_of_other_parameters_is_discarded() -> None:
    before = aggregate.create(PipeAttributes({"operators": "sum"}), CONTEXT)
    before.process([insert([row(0, "root.db.d", d1=1.0)])], 0)
    after = aggregate.create(PipeAttributes({"operators": "sum,avg"}), CONTEXT)
    after.restore(through_ipc(before.state()))
    result = after.process([insert([row(1, "root.db.d", d1=2.0), row(120_000, "root.db.d", d1=0.0)])], 0)
    assert rows_in(result) == [row(0, "root.db.d.d1", sum=2.0, avg=2.0)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "The parameter operators must not be empty."),
        ({"operators": "avg,mode"}, "The aggregator and output name {mode=mode} is invalid."),
        ({"operators": "avg", "output.measurements": "a.b"}, "The output measurements a.b contains illegal measurements, "),
        ({"operators": "avg", "output.database": "db"}, "The output database db shall start with root."),
        ({"operators": "avg", "sliding.seconds": "0"}, "The parameter sliding.seconds must be greater than 0"),
        ({"operators": "avg", "windowing-strategy": "hopping"}, "The processor hopping-windowing-processor is not a windowing"),
        ({"operators": "avg", "windowing-strategy": ""}, "The parameter windowing-strategy must not be empty."),
        ({"operators": "avg", "windowing-strategy": "sliding"}, "The parameter sliding.window-seconds must be a multiple of"),
        ({"operators": "avg", "sliding.boundary-time": "noon"}, "Input time format noon error."),
        ({"operators": "avg", "output.databse": "root.a"}, "Unknown parameter output.databse"),
        ({"operators": "avg,max", "output.measurements": "a,a"}, "The aggregator and output name {avg=a, max=a} is invalid."),
    ],
)
def test_invalid_parameters_are_rejected(given: dict[str, str], message: str) -> None:
    with pytest.raises(ProgrammingError) as caught:
        aggregate.validate(PipeAttributes(given))
    assert caught.value.message.startswith(f"1107: {message}")
