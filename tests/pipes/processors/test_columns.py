"""All processors take rows in every form that a source may hand over."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.model.time import Precision
from headrace.model.types import BIGINT, DataType, TypeKind
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.builtin import BY_NAME
from headrace.pipes.events import DeviceRows, InsertEvent, Measurement
from headrace.pipes.processors.aggregate_operators import OPERATORS
from tests.pipes.processors.streams import CONTEXT, Row, insert, row, rows_in, through_ipc

ATTRIBUTES = {
    "tumbling-time-sampling-processor": {"tumbling-time.interval-seconds": "1"},
    "sdt-sampling-processor": {},
    "changing-value-sampling-processor": {},
    "aggregate-processor": {"operators": "count,first,last,max", "sliding.seconds": "1"},
}
ROWS = [row(at * 300, f"root.db.d{at % 2}", d1=float(at % 3), t1="abc"[at // 5]) for at in range(12)]
DAY = datetime.date(2024, 5, 1)


def process(name: str, *events: InsertEvent) -> list[Row]:
    """Return the rows that come out, with a restart after each event."""
    rows, state = [], None
    for event in events:
        processor = BY_NAME[name].create()(PipeAttributes(ATTRIBUTES[name]), CONTEXT)
        if state is not None:
            processor.restore(state)
        rows += rows_in(processor.process([event], 0))
        state = through_ipc(processor.state())
    return rows


def with_table(event: InsertEvent, table: pa.Table) -> InsertEvent:
    return InsertEvent(event.data.with_rows(table))


def cast(event: InsertEvent, column: str, type_: pa.DataType) -> InsertEvent:
    table = event.data.rows
    return with_table(event, table.set_column(table.column_names.index(column), column, table.column(column).cast(type_)))


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_the_form_of_texts_and_chunks_does_not_matter(name: str) -> None:
    first, second = insert(ROWS[:7], ["d1", "t1"]), insert(ROWS[7:], ["d1", "t1"])
    expected = process(name, first, second)
    assert expected
    plain = [cast(event, "device", pa.string()) for event in (first, second)]
    large = [cast(event, "device", pa.large_string()) for event in (first, second)]
    encoded = cast(second, "t1", pa.dictionary(pa.int32(), pa.string()))
    chunked = with_table(second, pa.concat_tables([second.data.rows.slice(0, 2), insert(ROWS[9:], ["d1", "t1"]).data.rows]))
    for events in (plain, large, [first, encoded], [first, chunked]):
        assert process(name, *events) == expected


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_events_without_rows_or_values_have_no_results(name: str) -> None:
    assert process(name, insert([], ["d1", "t1"]), insert([Row(1, "root.db.d", {})], ["d1", "t1"])) == []


@pytest.mark.parametrize("name", ATTRIBUTES)
@pytest.mark.parametrize(
    ("type_", "arrow", "values"),
    [
        (DataType(TypeKind.DATE), pa.date32(), [DAY, DAY + datetime.timedelta(1)]),
        (DataType(TypeKind.VARBINARY), pa.binary(), [b"a", b"b"]),
        (DataType(TypeKind.DECIMAL, 10, 2), pa.decimal128(10, 2), [Decimal("1.50"), Decimal("2.50")]),
        (DataType(TypeKind.FLOAT), pa.float32(), [1.5, 2.5]),
        (DataType(TypeKind.TINYINT), pa.int8(), [-128, 127]),
        (DataType(TypeKind.TIMESTAMP), pa.int64(), [1 << 60, (1 << 60) + 1]),
    ],
)
def test_values_of_all_types_come_out_as_they_went_in(name: str, type_: DataType, arrow: pa.DataType, values: list[Any]) -> None:
    events = [typed(type_, arrow, at * 2000, value) for at, value in enumerate([*values, *values])]
    delivered = [value for one in process(name, *events) for key, value in one.values.items() if key != "count"]
    assert delivered
    assert set(delivered) <= set(values)


def typed(type_: DataType, arrow: pa.DataType, time: int, value: Any) -> InsertEvent:
    table = pa.table({"time": [time], "device": ["root.db.d"], "c": pa.array([value], arrow)})
    return InsertEvent(DeviceRows(table, {"c": Measurement("s", type_)}, Precision.MILLISECOND, "root.db"))


@pytest.mark.parametrize(
    ("type_", "arrow", "values"),
    [
        (DataType(TypeKind.DECIMAL, 10, 2), pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-2.50")]),
        (DataType(TypeKind.FLOAT), pa.float32(), [1.5, -2.5]),
        (DataType(TypeKind.TINYINT), pa.int8(), [127, -128]),
        (DataType(TypeKind.UBIGINT), pa.uint64(), [1, (1 << 64) - 1]),
    ],
)
def test_all_operators_are_defined_for_all_numbers(type_: DataType, arrow: pa.DataType, values: list[Any]) -> None:
    processor = BY_NAME["aggregate-processor"].create()(PipeAttributes({"operators": ",".join(OPERATORS)}), CONTEXT)
    assert processor.process([typed(type_, arrow, at, value) for at, value in enumerate(values)], 0) == []
    result = rows_in(processor.process([typed(type_, arrow, 120_000, values[0])], 0))[0].values
    numbers = [float(value) for value in values]
    assert result.keys() == OPERATORS.keys()
    assert (result["avg"], result["min"], result["max"]) == (sum(numbers) / 2, min(values), max(values))
    assert result["cf"] == pytest.approx(float(result["peak"]) / result["rms"])


def test_series_of_other_types_are_other_series() -> None:
    float_, double = DataType(TypeKind.FLOAT), BIGINT
    events = [typed(float_, pa.float32(), 0, 1.0), typed(double, pa.int64(), 1, 1), typed(float_, pa.float32(), 2, 1.0)]
    assert [one.time for one in process("changing-value-sampling-processor", *events)] == [0, 1]
