"""The processor that keeps changed values does what a plain loop over the rows does, for any cut into batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ProgrammingError
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DeleteEvent, StatementEvent
from headrace.pipes.processors import changing_value
from headrace.pipes.processors.jumps import keep_differing
from tests.pipes.processors.streams import CONTEXT, Row, cuts, insert, row, rows, rows_in, run_cut, same, through_ipc

COLUMNS = ("d1", "i1", "t1", "b1")
LIMITS = st.tuples(st.sampled_from([0.0, 1.0, 2.5]), st.integers(0, 3), st.sampled_from([3, 10, 1 << 62]))


def model(found: Sequence[Row], deviation: float, shortest: int, longest: int) -> list[Row]:
    """Sample row by row."""
    last: dict[tuple[str, str], tuple[int, Any]] = {}
    result = []
    for one in found:
        kept = {}
        for name, value in one.values.items():
            key = (one.device, name)
            if key not in last or is_kept(last[key], one.time, value, deviation, shortest, longest):
                last[key] = (one.time, value)
                kept[name] = value
        if kept:
            result.append(Row(one.time, one.device, kept))
    return result


def is_kept(last: tuple[int, Any], time: int, value: Any, deviation: float, shortest: int, longest: int) -> bool:
    passed, before = abs(time - last[0]), last[1]
    if passed <= shortest:
        return False
    if passed >= longest or isinstance(value, (bool, str)):
        return passed >= longest or value != before
    both_nan = math.isnan(value) and math.isnan(before)
    return value != before and not both_nan and not abs(value - before) <= deviation


def attributes(limits: tuple[float, int, int]) -> dict[str, str]:
    names = ("compression-deviation", "min-time-interval", "max-time-interval")
    return {f"changing-value.{name}": str(value) for name, value in zip(names, limits, strict=True)}


def in_order(one: Row) -> Row:
    return Row(one.time, one.device, {name: one.values[name] for name in COLUMNS if name in one.values})


@given(cuts(rows(COLUMNS)), LIMITS)
def test_any_cut_into_batches_gives_what_a_loop_over_the_rows_gives(
    cut: tuple[list[Row], list[list[Row]]], limits: tuple[float, int, int]
) -> None:
    whole, batches = cut
    expected = [in_order(one) for one in model(whole, *limits)]
    assert same(run_cut(changing_value.create, attributes(limits), batches, COLUMNS), expected)


@pytest.mark.parametrize("devices", [1, 60, 2000])
@pytest.mark.parametrize("deviation", [0.0, 3.0, 100.0])
def test_long_and_many_series_give_what_a_loop_over_the_rows_gives(devices: int, deviation: float) -> None:
    generator = np.random.default_rng(1)
    values = generator.integers(-5, 5, 20_000).cumsum()
    found = [row(at, f"root.db.d{at % devices}", d1=float(value)) for at, value in enumerate(values)]
    limits = (deviation, 0, 1 << 62)
    assert run_cut(changing_value.create, attributes(limits), [found[:7000], found[7000:]], ["d1"]) == model(found, *limits)


def test_a_point_is_found_far_behind_the_last_kept_one() -> None:
    values = np.zeros(100_000)
    values[[60_000, 60_001, 99_999]] = 1, 2, 3
    kept = keep_differing(np.array([0, len(values)]), lambda first, second: values[first] != values[second])
    assert np.flatnonzero(kept).tolist() == [0, 60_000, 60_001, 60_002, 99_999]


def test_floats_differ_as_the_numbers_that_were_written() -> None:
    import pyarrow as pa

    from headrace.pipes.processors.sampling import comparable

    numbers = comparable(pa.array([0.1, 0.3], pa.float32()))
    assert numbers.tolist() == [0.1, 0.3]


def test_other_events_pass() -> None:
    statement, delete = (
        StatementEvent("CREATE DATABASE root.a", "schema.database.create"),
        DeleteEvent(insert([row(1, "d", d1=1.0)]).data),
    )
    processor = changing_value.create(PipeAttributes({}), CONTEXT)
    same_value = insert([row(1, "d", d1=1.0), row(2, "d", d1=1.0)])
    events = processor.process([statement, same_value, delete, same_value], 0)
    assert [type(event).__name__ for event in events] == ["StatementEvent", "InsertEvent", "DeleteEvent"]
    assert rows_in(events) == [row(1, "d", d1=1.0)]


def test_a_state_of_other_parameters_is_discarded() -> None:
    before = changing_value.create(PipeAttributes({}), CONTEXT)
    before.process([insert([row(1, "d", d1=1.0)])], 0)
    after = changing_value.create(PipeAttributes({"changing-value.compression-deviation": "2"}), CONTEXT)
    after.restore(through_ipc(before.state()))
    assert rows_in(after.process([insert([row(2, "d", d1=1.0)])], 0)) == [row(2, "d", d1=1.0)]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"changing-value.compression-deviation": "-1"}, "changing-value.compression-deviation must be >= 0, but got -1.0"),
        ({"processor.changing-value.min-time-interval": "x"}, 'For input string: "x"'),
        (
            {"changing-value.min-time-interval": "5", "changing-value.max-time-interval": "2"},
            "changing-value.min-time-interval must be <= changing-value.max-time-interval, but got 5 and 2",
        ),
        ({"changing-value.deviation": "1"}, "Unknown parameter changing-value.deviation"),
        (
            {"down-sampling.split-file": "yes"},
            "Invalid value yes of down-sampling.split-file. The value should be one of [true, false]",
        ),
    ],
)
def test_invalid_parameters_are_rejected(attributes: dict[str, str], message: str) -> None:
    with pytest.raises(ProgrammingError) as caught:
        changing_value.validate(PipeAttributes(attributes))
    assert caught.value.message == f"1107: {message}"
