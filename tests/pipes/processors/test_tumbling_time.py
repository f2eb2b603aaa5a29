"""Sampling by time does what a plain loop over the rows does, for any cut into batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ProgrammingError
from headrace.model.time import Precision
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.processors import tumbling_time
from tests.pipes.processors.streams import CONTEXT, Row, cuts, insert, row, rows, rows_in, run_cut, same, sorted_rows, through_ipc

COLUMNS = ("d1", "i1", "t1")
SECOND = 1000


def model(found: Sequence[Row], seconds: int) -> list[Row]:
    """Sample row by row."""
    last: dict[tuple[str, str], int] = {}
    result = []
    for one in found:
        is_kept = False
        for name in (name for name in COLUMNS if name in one.values):
            key = (one.device, name)
            is_kept = is_kept or key not in last or abs(one.time - last[key]) >= seconds * SECOND
            if is_kept:
                last[key] = one.time
        if is_kept:
            result.append(Row(one.time, one.device, {name: one.values[name] for name in COLUMNS if name in one.values}))
    return result


def attributes(seconds: int) -> dict[str, str]:
    return {"processor.tumbling-time.interval-seconds": str(seconds)}


@given(cuts(rows(COLUMNS, times=st.integers(0, 40).map(lambda time: time * SECOND // 4)) | sorted_rows(COLUMNS)), st.integers(1, 4))
def test_any_cut_into_batches_gives_what_a_loop_over_the_rows_gives(cut: tuple[list[Row], list[list[Row]]], seconds: int) -> None:
    whole, batches = cut
    assert same(run_cut(tumbling_time.create, attributes(seconds), batches, COLUMNS), model(whole, seconds))


@pytest.mark.parametrize("devices", [1, 60, 2000])
@pytest.mark.parametrize("columns", [("d1",), ("d1", "i1")])
@pytest.mark.parametrize("seconds", [1, 60, 10**6])
def test_long_and_many_series_give_what_a_loop_over_the_rows_gives(devices: int, columns: tuple[str, ...], seconds: int) -> None:
    generator = np.random.default_rng(1)
    times = np.sort(generator.integers(0, 10**7, 20_000)).tolist()
    found = [
        Row(time, f"root.db.d{at % devices}", {name: 1 for name in columns if at % 3 or name != "i1" or at > 10_000})
        for at, time in enumerate(times)
    ]
    result = run_cut(tumbling_time.create, attributes(seconds), [found[:7000], found[7000:]], columns)
    assert result == model(found, seconds)


def test_the_interval_is_counted_in_the_precision_of_the_rows() -> None:
    processor = tumbling_time.create(PipeAttributes(attributes(1)), CONTEXT)
    times = (0, 999_999, 1_000_000, 1_999_999)
    events = processor.process([insert([row(time, "d", d1=1.0) for time in times], precision=Precision.MICROSECOND)], 0)
    assert [one.time for one in rows_in(events)] == [0, 1_000_000]


def test_a_state_of_other_parameters_is_discarded() -> None:
    before = tumbling_time.create(PipeAttributes(attributes(60)), CONTEXT)
    before.process([insert([row(1, "d", d1=1.0)])], 0)
    for seconds, kept in ((60, []), (50, [row(2, "d", d1=1.0)])):
        after = tumbling_time.create(PipeAttributes(attributes(seconds)), CONTEXT)
        after.restore(through_ipc(before.state()))
        assert rows_in(after.process([insert([row(2, "d", d1=1.0)])], 0)) == kept


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0", "1107: The value of tumbling-time.interval-seconds must be greater than 0, but got 0."),
        ("1.5", '1107: For input string: "1.5"'),
    ],
)
def test_invalid_parameters_are_rejected(value: str, message: str) -> None:
    with pytest.raises(ProgrammingError) as caught:
        tumbling_time.validate(PipeAttributes({"tumbling-time.interval-seconds": value}))
    assert caught.value.message == message
