from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.errors import DataError, NotFoundError, ProgrammingError
from headrace.model.spans import Span
from headrace.model.statements import Now, RowValue, TagValue
from headrace.model.tables import TBNAME, Column, Database, Table
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.storage.values.rows import rows_to_arrow, tags_to_arrow
from tests.storage.samples import KEYED, METERS, POWER, TS

NOW = 1_700_000_000_123
BERLIN = Database("power", Precision.MILLISECOND, "Europe/Berlin")


def converted(
    kind: TypeKind, value: RowValue, length: int | None = None, scale: int | None = None, database: Database = POWER
) -> object:
    """Return what a value becomes in a column of a type."""
    table = Table("power", "t", (TS, Column("v", DataType(kind, length, scale))))
    stored = rows_to_arrow(table, database, ("ts", "v"), [(0, value)], tbnames=["d1"], now=NOW)
    return stored["v"][0].as_py()


def instant(value: RowValue, database: Database = POWER) -> int:
    """Return the ticks that a value becomes as a row's timestamp."""
    table = Table("power", "t", (TS,))
    stored: int = rows_to_arrow(table, database, ("ts",), [(value,)], tbnames=["d1"], now=NOW)["ts"].cast(pa.int64())[0].as_py()
    return stored // 1_000 if database.precision is Precision.MILLISECOND else stored


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (TypeKind.INT, "42", 42),
        (TypeKind.INT, " -7 ", -7),
        (TypeKind.INT, 2.5, 3),
        (TypeKind.INT, -2.5, -3),
        (TypeKind.INT, "1e3", 1000),
        (TypeKind.INT, True, 1),
        (TypeKind.TINYINT, -128.4, -128),
        (TypeKind.BIGINT, "9223372036854775807", 2**63 - 1),
        (TypeKind.UBIGINT, 2**64 - 1, Decimal(2**64 - 1)),
        (TypeKind.DOUBLE, 1, 1.0),
        (TypeKind.DOUBLE, "2.5e3", 2500.0),
        (TypeKind.DOUBLE, False, 0.0),
        (TypeKind.BOOL, 0, False),
        (TypeKind.BOOL, 0.5, True),
        (TypeKind.BOOL, "TRUE", True),
        (TypeKind.BOOL, "false", False),
        (TypeKind.VARCHAR, 12, "12"),
        (TypeKind.VARCHAR, True, "true"),
        (TypeKind.NCHAR, 1.5, "1.5"),
        (TypeKind.VARBINARY, "\\x00fF", b"\x00\xff"),
        (TypeKind.VARBINARY, "ab", b"ab"),
        (TypeKind.FLOAT, "-3.4028235e38", -3.4028234663852886e38),
        (TypeKind.INT, None, None),
        (TypeKind.VARCHAR, None, None),
    ],
)
def test_a_value_is_converted_to_its_columns_type(kind: TypeKind, value: RowValue, expected: object) -> None:
    assert converted(kind, value) == expected


def test_a_decimal_is_rounded_to_its_scale_halves_away_from_zero() -> None:
    assert converted(TypeKind.DECIMAL, "1.005", 5, 2) == Decimal("1.01")
    assert converted(TypeKind.DECIMAL, -2.675, 5, 2) == Decimal("-2.68")


@pytest.mark.parametrize(
    ("kind", "value", "allowed"),
    [
        (TypeKind.TINYINT, 128, "from -128 to 127"),
        (TypeKind.TINYINT, 127.5, "from -128 to 127"),
        (TypeKind.UTINYINT, -1, "from 0 to 255"),
        (TypeKind.UBIGINT, 2**64, "from 0 to 18446744073709551615"),
        (TypeKind.INT, "many", "a whole number"),
        (TypeKind.INT, "", "a whole number"),
        (TypeKind.INT, "1_000", "a whole number"),
        (TypeKind.DOUBLE, "nan", "a finite number"),
        (TypeKind.DOUBLE, float("inf"), "a finite number"),
        (TypeKind.FLOAT, 1e39, "3.402823e"),
        (TypeKind.FLOAT, "3.4028236e38", "3.402823e"),
        (TypeKind.BOOL, "maybe", "true, false or a number"),
        (TypeKind.GEOMETRY, "POINT(1 2", "well-known text"),
        (TypeKind.VARBINARY, "\\x0", "hexadecimal digits"),
        (TypeKind.VARCHAR, "\ud800", "UTF-8"),
        (TypeKind.TIMESTAMP, "yesterday", "YYYY-MM-DD"),
        (TypeKind.TIMESTAMP, 10**16, "years 1 to 9999"),
        (TypeKind.DATE, "2024-02-30", "a date"),
    ],
)
def test_an_invalid_value_is_refused_with_the_allowed_values(kind: TypeKind, value: RowValue, allowed: str) -> None:
    with pytest.raises(DataError) as refused:
        converted(kind, value)
    assert allowed in refused.value.hint
    assert "is not valid for v" in refused.value.message


def test_varchar_is_counted_in_bytes_and_nchar_in_characters() -> None:
    assert converted(TypeKind.VARCHAR, "äö", 4) == "äö"
    assert converted(TypeKind.NCHAR, "äöü", 3) == "äöü"
    with pytest.raises(DataError, match="row 1"):
        converted(TypeKind.VARCHAR, "äöü", 4)
    with pytest.raises(DataError, match="row 1"):
        converted(TypeKind.NCHAR, "äöüß", 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-01", "2024-05-01T00:00:00+02:00"),
        ("2024-05-01 12:30", "2024-05-01T12:30:00+02:00"),
        ("2024-5-1 9:30:05.5", "2024-05-01T09:30:05.500+02:00"),
        ("2024-01-01T12:00:00.1239", "2024-01-01T12:00:00.123+01:00"),
        ("2024-05-01T12:00:00Z", "2024-05-01T12:00:00+00:00"),
        ("2024-05-01 12:00:00+08:00", "2024-05-01T12:00:00+08:00"),
        ("2024-05-01 12:00:00-0330", "2024-05-01T12:00:00-03:30"),
        ("2024-10-27 02:30:00", "2024-10-27T02:30:00+02:00"),
    ],
)
def test_text_without_a_zone_is_in_the_databases_zone(text: str, expected: str) -> None:
    since = datetime.fromisoformat(expected) - datetime(1970, 1, 1, tzinfo=UTC)
    assert instant(text, BERLIN) == round(since.total_seconds() * 1000)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_714_557_600_000, 1_714_557_600_000),
        ("1714557600000", 1_714_557_600_000),
        (Now(), NOW),
        (Now(-3_600 * 10**9), NOW - 3_600_000),
        (0, 0),
    ],
)
def test_an_instant_may_be_a_number_of_ticks_or_now(value: RowValue, expected: int) -> None:
    assert instant(value) == expected


def test_now_is_in_the_ticks_of_the_database() -> None:
    assert instant(Now(1_500), Database("power", Precision.NANOSECOND)) == NOW * 1_000_000 + 1_500
    assert instant(Now(1_500), Database("power", Precision.MICROSECOND)) == NOW * 1_000 + 1


@pytest.mark.parametrize("value", [-1, "-1", "1969-12-31 23:59:59", True, "2024-13-01", "2024-05-01 25:00", "", 1.5])
def test_a_row_needs_a_timestamp_not_before_1970(value: RowValue) -> None:
    with pytest.raises(DataError, match="is not valid for ts"):
        instant(value)


def test_other_timestamps_may_be_before_1970() -> None:
    assert converted(TypeKind.TIMESTAMP, "1969-12-31T23:59:59Z") == datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)


def test_an_invalid_row_is_named_with_subtable_row_column_and_span() -> None:
    spans = [Span(0, 5), Span(6, 9)]
    with pytest.raises(DataError) as refused:
        rows_to_arrow(METERS, POWER, ("ts", "a"), [(1, 1), (2, "x")], tbnames=["d1", "d2"], now=NOW, spans=spans)

    assert refused.value.message == "d2, row 2: 'x' is not valid for a, which is INT"
    assert refused.value.span == spans[1]


@pytest.mark.parametrize(("table", "row"), [(METERS, (None, 1)), (KEYED, (1, None))])
def test_a_null_in_the_key_is_refused(table: Table, row: tuple[RowValue, ...]) -> None:
    with pytest.raises(DataError, match=r"row 2: \w+ is NULL"):
        rows_to_arrow(table, POWER, [column.name for column in table.columns[:2]], [(1, 1), row], tbnames=["d", "d"], now=NOW)


@pytest.mark.parametrize(
    ("columns", "row", "error", "message"),
    [
        (("ts", "c"), (1, 1), NotFoundError, "c is no column of meters"),
        (("ts", "site"), (1, 1), NotFoundError, "site is a tag, not a column of meters"),
        (("ts", "a", "a"), (1, 1, 1), ProgrammingError, "column a is named twice"),
        (("a",), (1,), ProgrammingError, "ts is missing"),
        (("ts", "a"), (1,), ProgrammingError, "row 1 has 1 values for 2 columns"),
    ],
)
def test_columns_must_be_the_tables_own_and_complete(
    columns: tuple[str, ...], row: tuple[RowValue, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        rows_to_arrow(METERS, POWER, columns, [row], tbnames=["d1"], now=NOW)


def test_columns_that_are_not_named_are_null() -> None:
    stored = rows_to_arrow(METERS, POWER, ("b", "ts"), [(1.5, 1)], tbnames=["d1"], now=NOW)

    assert stored.to_pylist() == [{"ts": datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC), "a": None, "b": 1.5, TBNAME: "d1"}]


def test_a_column_may_name_the_subtable() -> None:
    stored = rows_to_arrow(METERS, POWER, (TBNAME, "ts"), [("d1", 1), ("d2", 1)], tbnames=None, now=NOW)

    assert stored[TBNAME].to_pylist() == ["d1", "d2"]
    with pytest.raises(DataError, match="meters, row 1: tbname is NULL"):
        rows_to_arrow(METERS, POWER, (TBNAME, "ts"), [(None, 1)], tbnames=None, now=NOW)


def test_no_rows_are_an_empty_table_of_the_stored_columns() -> None:
    stored = rows_to_arrow(METERS, POWER, ("ts",), [], tbnames=[], now=NOW)

    assert (stored.num_rows, stored.column_names) == (0, ["ts", "a", "b", TBNAME])


def test_omitted_tags_are_null_and_json_is_validated() -> None:
    table = Table("power", "t", (TS,), (Column("site", DataType(TypeKind.INT)), Column("about", DataType(TypeKind.JSON))))
    values = {"about": TagValue('{"floor": 3}')}

    assert tags_to_arrow(table, POWER, "d1", values, now=NOW).to_pylist() == [{TBNAME: "d1", "site": None, "about": '{"floor": 3}'}]
    with pytest.raises(DataError) as refused:
        tags_to_arrow(table, POWER, "d1", {"about": TagValue("[1]", Span(3, 6))}, now=NOW)
    assert refused.value.span == Span(3, 6)
