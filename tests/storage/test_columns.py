"""Vectorized conversion of columns gives the same values as converting them one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import DataError
from headrace.model.statements import RowValue
from headrace.model.tables import Column, Database, Table
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.storage.types import arrow_type
from headrace.storage.values.columns import InvalidValues, to_stored_column
from headrace.storage.values.rows import rows_to_arrow
from headrace.storage.values.scalars import InvalidValueError, TimeContext, to_stored
from tests.storage.samples import TS

TYPES = [
    DataType(TypeKind.BOOL),
    DataType(TypeKind.TINYINT),
    DataType(TypeKind.UINT),
    DataType(TypeKind.BIGINT),
    DataType(TypeKind.UBIGINT),
    DataType(TypeKind.FLOAT),
    DataType(TypeKind.DOUBLE),
    DataType(TypeKind.DECIMAL, 10, 2),
    DataType(TypeKind.VARCHAR, 5),
    DataType(TypeKind.NCHAR, 4),
    DataType(TypeKind.TIMESTAMP),
]
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "+05:30"])
MOMENTS = st.datetimes(timezones=st.none()).map(lambda moment: moment.replace(year=1900 + moment.year % 200))
TEXTS = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.integers(-200, 300).map(str),
    st.floats(width=32).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9).map(str),
    MOMENTS.map(lambda moment: moment.isoformat(sep=" ")),
    MOMENTS.map(lambda moment: moment.isoformat() + "Z"),
    MOMENTS.map(lambda moment: moment.strftime("%Y-%m-%d %H:%M")),
    st.sampled_from(["", " 1", "true", "False", "nan", "inf", "1e3", "äöü", "2024-02-30", "+4", "007"]),
    st.text(max_size=6),
)
SCALARS = st.one_of(st.integers(-(2**65), 2**65), st.integers(-200, 300), st.floats(), st.booleans(), TEXTS)


def one_by_one(values: list[Any], type_: DataType, moment: TimeContext) -> tuple[list[object], list[int]]:
    """Return stored values, and the positions of the invalid ones."""
    stored: list[object] = []
    bad: list[int] = []
    for position, value in enumerate(values):
        try:
            stored.append(to_stored(value, type_, moment))
        except InvalidValueError:
            stored.append(None)
            bad.append(position)
    return stored, bad


def as_stored(values: list[Any], type_: DataType, moment: TimeContext) -> list[object]:
    arrow = arrow_type(type_, moment.precision)
    array = pa.array(values, pa.int64()).cast(arrow) if pa.types.is_timestamp(arrow) else pa.array(values, arrow)
    return list(array.to_pylist())


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(values=st.lists(st.none() | TEXTS, min_size=1, max_size=4), zone=ZONES, precision=st.sampled_from(list(Precision)))
@settings(max_examples=60, deadline=None)
def test_texts_of_a_file_convert_alike_vectorized_and_singly(
    type_: DataType, values: list[str | None], zone: str, precision: Precision
) -> None:
    moment, invalid_values = TimeContext(0, zone, precision), InvalidValues()
    column = pa.chunked_array([pa.array(values, pa.string())])
    stored = to_stored_column(column, Column("v", type_), moment, invalid_values, is_key=False, is_time=False)
    expected, bad = one_by_one(values, type_, moment)

    assert stored.to_pylist() == as_stored(expected, type_, moment)
    assert [invalid_value.row for invalid_value in invalid_values.first()] == bad


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(values=st.lists(st.none() | SCALARS, min_size=1, max_size=4), zone=ZONES, precision=st.sampled_from(list(Precision)))
@settings(max_examples=60, deadline=None)
def test_values_of_a_statement_convert_alike_vectorized_and_singly(
    type_: DataType, values: list[RowValue], zone: str, precision: Precision
) -> None:
    database, moment = Database("d", precision, zone), TimeContext(0, zone, precision)
    table = Table("d", "t", (TS, Column("v", type_)))
    given_rows = [(position, value) for position, value in enumerate(values)]
    expected, bad = one_by_one(values, type_, moment)
    if bad:
        with pytest.raises(DataError, match=f"row {bad[0] + 1}:"):
            rows_to_arrow(table, database, ("ts", "v"), given_rows, tbnames=["d"] * len(values), now=0)
    else:
        stored = rows_to_arrow(table, database, ("ts", "v"), given_rows, tbnames=["d"] * len(values), now=0)
        assert stored["v"].to_pylist() == as_stored(expected, type_, moment)


NATIVE = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.decimal128(20, 3), st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**12), max_value=10**12)),
    (pa.timestamp("us"), MOMENTS),
    (pa.timestamp("ns", "UTC"), MOMENTS),
]


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(data=st.data(), native=st.sampled_from(NATIVE), zone=ZONES, precision=st.sampled_from(list(Precision)))
@settings(max_examples=60, deadline=None)
def test_typed_values_of_a_file_convert_alike_vectorized_and_singly(
    type_: DataType, data: st.DataObject, native: tuple[pa.DataType, st.SearchStrategy[Any]], zone: str, precision: Precision
) -> None:
    source, strategy = native
    column = pa.chunked_array([pa.array(data.draw(st.lists(st.none() | strategy, min_size=1, max_size=3)), source)])
    moment, invalid_values = TimeContext(0, zone, precision), InvalidValues()
    stored = to_stored_column(column, Column("v", type_), moment, invalid_values, is_key=False, is_time=False)
    expected, bad = one_by_one(column.to_pylist(), type_, moment)

    assert stored.to_pylist() == as_stored(expected, type_, moment)
    assert [invalid_value.row for invalid_value in invalid_values.first()] == bad
