"""Values of pipes are converted like those of INSERT: what a column or a series cannot have is an error, never cut or wrapped."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import DataError
from headrace.model.tables import Column, Database
from headrace.model.time import Precision
from headrace.model.trees import Device, Timeseries
from headrace.model.types import DataType, TypeKind
from headrace.pipes.events import DEVICE, TIME, DeviceRows, Measurement
from headrace.pipes.sinks.delta_layouts import SupertableLayout
from headrace.pipes.sinks.times import times_of_ticks
from headrace.pipes.sinks.write_back import EventPoints
from headrace.storage.types import arrow_type, field

K = TypeKind
REFUSED = object()
TICKS = 1_700_000_000_123
INSTANT = datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)

CASES: list[tuple[TypeKind, Any, DataType, Any]] = [
    (K.INT, 127, DataType(K.TINYINT), 127),
    (K.INT, 128, DataType(K.TINYINT), REFUSED),
    (K.INT, -7, DataType(K.UINT), REFUSED),
    (K.BIGINT, 2**63 - 1, DataType(K.INT), REFUSED),
    (K.BIGINT, 2**63 - 1, DataType(K.UBIGINT), Decimal(2**63 - 1)),
    (K.BIGINT, -1, DataType(K.UBIGINT), REFUSED),
    (K.BIGINT, 123456789, DataType(K.DECIMAL, 10, 2), REFUSED),
    (K.BIGINT, TICKS, DataType(K.TIMESTAMP), INSTANT),
    (K.BIGINT, 2**63 - 1, DataType(K.TIMESTAMP), REFUSED),
    (K.TIMESTAMP, TICKS, DataType(K.TIMESTAMP), INSTANT),
    (K.TIMESTAMP, TICKS, DataType(K.BIGINT), TICKS),
    (K.TIMESTAMP, TICKS, DataType(K.INT), REFUSED),
    (K.DOUBLE, 1e300, DataType(K.FLOAT), REFUSED),
    (K.DOUBLE, 1e300, DataType(K.BIGINT), REFUSED),
    (K.DOUBLE, float("nan"), DataType(K.INT), REFUSED),
    (K.BOOL, True, DataType(K.INT), 1),
    (K.BOOL, True, DataType(K.TIMESTAMP), REFUSED),
    (K.VARCHAR, "12", DataType(K.INT), 12),
    (K.VARCHAR, "abc", DataType(K.INT), REFUSED),
    (K.VARCHAR, "", DataType(K.DOUBLE), REFUSED),
    (K.VARCHAR, "abcd", DataType(K.VARCHAR, 4), "abcd"),
    (K.VARCHAR, "abcde", DataType(K.VARCHAR, 4), REFUSED),
    (K.VARCHAR, "äöü", DataType(K.VARCHAR, 4), REFUSED),
    (K.VARCHAR, "äöüß", DataType(K.NCHAR, 4), "äöüß"),
    (K.VARCHAR, "äöüßx", DataType(K.NCHAR, 4), REFUSED),
    (K.VARBINARY, b"abc", DataType(K.VARBINARY, 2), REFUSED),
    (K.VARCHAR, "2023-11-14 22:13:20.123", DataType(K.TIMESTAMP), INSTANT),
    (K.VARCHAR, "yesterday", DataType(K.TIMESTAMP), REFUSED),
]


def events_of(source: TypeKind, value: Any) -> DeviceRows:
    """Return a row without a value, and one with it."""
    type_ = pa.int64() if source is K.TIMESTAMP else arrow_type(DataType(source), Precision.MILLISECOND)
    devices = pa.chunked_array([pa.array(["root.a.d"] * 2).dictionary_encode()])
    rows = pa.table({TIME: pa.array([1, 2], pa.int64()), DEVICE: devices, "c": pa.array([None, value], type_)})
    return DeviceRows(rows, {"c": Measurement("v", DataType(source))}, Precision.MILLISECOND)


@pytest.mark.parametrize(("source", "value", "column", "expected"), CASES, ids=lambda one: str(one)[:24])
def test_a_supertable_of_another_home_gets_what_it_can_hold(source: TypeKind, value: Any, column: DataType, expected: Any) -> None:
    data = events_of(source, value)
    present = pa.schema(
        [
            field(Column("ts", DataType(K.TIMESTAMP)), Precision.MILLISECOND),
            field(Column("v", column), Precision.MILLISECOND),
            pa.field("tbname", pa.string()),
        ]
    )
    if expected is REFUSED:
        with pytest.raises(DataError, match="v"):
            SupertableLayout("ts").rows(data, present)
        return
    converted = SupertableLayout("ts").rows(data, present)
    assert converted["v"].to_pylist() == [None, expected]
    assert converted.schema.field("v").type == present.field("v").type


@pytest.mark.parametrize(
    ("ticks", "precision", "stored"),
    [
        (2**63 - 1, Precision.MILLISECOND, Precision.NANOSECOND),
        (2**62, Precision.MILLISECOND, Precision.MICROSECOND),
        (-(2**63), Precision.MICROSECOND, Precision.NANOSECOND),
    ],
)
def test_times_out_of_range_are_refused_by_name(ticks: int, precision: Precision, stored: Precision) -> None:
    with pytest.raises(DataError, match="time has times from"):
        times_of_ticks(pa.chunked_array([pa.array([0, ticks], pa.int64())]), precision, stored, "time")


def stored_tables(rows: object) -> list[pa.Table]:
    assert isinstance(rows, list)
    return rows


SERIES: list[tuple[TypeKind, Any, TypeKind, Any]] = [
    (K.INT, 7, K.BIGINT, 7),
    (K.BIGINT, 2**31, K.INT, REFUSED),
    (K.BIGINT, TICKS, K.TIMESTAMP, INSTANT),
    (K.BIGINT, 2**63 - 1, K.TIMESTAMP, REFUSED),
    (K.TIMESTAMP, TICKS, K.TIMESTAMP, INSTANT),
    (K.TIMESTAMP, TICKS, K.BIGINT, TICKS),
    (K.TIMESTAMP, TICKS, K.INT, REFUSED),
    (K.BOOL, True, K.TIMESTAMP, REFUSED),
    (K.VARCHAR, "2023-11-14 22:13:20.123", K.TIMESTAMP, INSTANT),
    (K.VARCHAR, "yesterday", K.TIMESTAMP, REFUSED),
    (K.VARCHAR, "12", K.INT, 12),
    (K.VARCHAR, "abc", K.INT, REFUSED),
    (K.DOUBLE, 1e300, K.INT, REFUSED),
    (K.DOUBLE, 1e300, K.FLOAT, REFUSED),
    (K.DOUBLE, float("nan"), K.BIGINT, REFUSED),
]


@pytest.mark.parametrize(("source", "value", "series", "expected"), SERIES, ids=lambda one: str(one)[:24])
def test_a_series_of_another_type_gets_what_it_can_hold(source: TypeKind, value: Any, series: TypeKind, expected: Any) -> None:
    target, database = Timeseries("v", DataType(series), "v"), Database("root.a")
    data = events_of(source, value)
    points = EventPoints(data, {"root.a.d": database}, [], "UTC", 0)
    devices = {"root.a.d": Device("root.a", "root.a.d", (target,))}
    if expected is REFUSED:
        with pytest.raises(DataError, match="v"):
            points.stored(devices)
        return
    (rows,) = stored_tables(points.stored(devices)["root.a"].rows)
    assert rows["v"].to_pylist() == [None, expected]
    assert rows.schema.field("v").type == arrow_type(target.type, Precision.MILLISECOND)
