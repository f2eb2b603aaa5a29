"""Rows of devices as plain tuples, as events, and cut into batches: what the tests of processors share."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from headrace.model.time import Precision
from headrace.model.types import BIGINT, BOOL, DOUBLE, VARCHAR, DataType, TypeKind
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DeviceRows, Event, InsertEvent, Measurement
from headrace.pipes.plugins import PipeContext, Processor, Tables

FLOAT: Final = DataType(TypeKind.FLOAT)
TYPES: Final = {"i": (BIGINT, pa.int64()), "d": (DOUBLE, pa.float64()), "t": (VARCHAR, pa.string()), "b": (BOOL, pa.bool_())}
"""Type and Arrow type of a column by the first letter of its name."""
CONTEXT: Final = PipeContext(context=None, pipe_id="p1", name="pipe")  # type: ignore[arg-type]


@dataclass(frozen=True)
class Row:
    """A row of a device, with the values that it has."""

    time: int
    device: str
    values: Mapping[str, Any]


def row(time: int, device: str, **values: Any) -> Row:
    return Row(time, device, values)


def insert(rows: Sequence[Row], columns: Iterable[str] = ("d1",), precision: Precision = Precision.MILLISECOND) -> InsertEvent:
    """Return the event of some rows, with all of some columns."""
    names = list(columns)
    arrays = {name: pa.array([row.values.get(name) for row in rows], TYPES[name[0]][1]) for name in names}
    table = pa.table(
        {
            "time": pa.array([row.time for row in rows], pa.int64()),
            "device": pa.array([row.device for row in rows], pa.string()).dictionary_encode(),
            **arrays,
        }
    )
    return InsertEvent(DeviceRows(table, {name: Measurement(name, TYPES[name[0]][0]) for name in names}, precision, "root.db"))


def rows_in(events: Iterable[Event]) -> list[Row]:
    """Return the rows of events, without NULL."""
    return [one for event in events if isinstance(event, InsertEvent) for one in rows_of(event)]


def rows_of(event: InsertEvent) -> list[Row]:
    """Return the rows of an event, without NULL; columns are named as what they hold."""
    names = {name: column.name for name, column in event.data.columns.items()}
    return [
        Row(one["time"], one["device"], {names[name]: one[name] for name in names if one[name] is not None})
        for one in event.data.rows.to_pylist()
    ]


def through_ipc(state: Tables | None) -> Tables:
    """Return a state as it is after it was written and read."""
    assert state is not None
    return {name: read(write(table)) for name, table in state.items()}


def write(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def read(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def run_cut(
    create: Callable[[PipeAttributes, PipeContext], Processor],
    attributes: Mapping[str, str],
    batches: Iterable[Sequence[Row]],
    columns: Iterable[str],
    now: int = 0,
) -> list[Row]:
    """Return the rows that come out if each batch is processed by a new processor with the state after the one before."""
    rows, state = [], None
    for batch in batches:
        processor = create(PipeAttributes(attributes), CONTEXT)
        if state is not None:
            processor.restore(state)
        rows += rows_in(processor.process([insert(batch, columns)], now))
        state = through_ipc(processor.state())
    return rows


VALUES: Final = {
    "d": st.one_of(st.integers(-4, 4).map(float), st.sampled_from([float("nan"), float("inf"), 0.5, 1e300])),
    "i": st.integers(-4, 4),
    "t": st.sampled_from(["a", "b", ""]),
    "b": st.booleans(),
}


def rows(columns: Sequence[str], devices: int = 3, times: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[list[Row]]:
    """Return a strategy of rows in the order of their arrival: mostly later ones, some late, each with at least one value."""
    values = st.dictionaries(st.sampled_from(columns), st.none(), min_size=1).flatmap(
        lambda chosen: st.fixed_dictionaries({name: VALUES[name[0]] for name in chosen})
    )
    names = st.integers(0, devices - 1).map(lambda number: f"root.db.d{number}")
    return st.lists(st.builds(Row, st.integers(0, 40) if times is None else times, names, values), max_size=40)


def sorted_rows(columns: Sequence[str], devices: int = 3) -> st.SearchStrategy[list[Row]]:
    """Return a strategy of rows in the order of time."""
    return rows(columns, devices).map(lambda found: sorted(found, key=lambda row: row.time))


@st.composite
def cuts(draw: st.DrawFn, rows: st.SearchStrategy[list[Row]]) -> tuple[list[Row], list[list[Row]]]:
    """Return rows, and the same in batches."""
    whole = draw(rows)
    bounds = [0, *sorted(draw(st.lists(st.integers(0, len(whole)), max_size=5))), len(whole)]
    return whole, [whole[start:end] for start, end in pairwise(bounds)]


def same(first: Sequence[Row], second: Sequence[Row]) -> bool:
    """Return whether rows are equal; NaN is equal to NaN."""
    return repr(list(first)) == repr(list(second))
