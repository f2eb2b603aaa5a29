from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.errors import LimitError
from headrace.model.tables import TBNAME, Column, Database, Table
from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.storage import Tables
from headrace.storage.types import STORAGE_TYPES, TYPE_METADATA, arrow_type
from headrace.storage.values.rows import rows_to_arrow
from tests.storage.samples import METERS, POWER, TS

# The least and the greatest that each kind can hold, as a statement gives them.
EXTREMES = {
    DataType(TypeKind.BOOL): (False, True),
    DataType(TypeKind.TINYINT): (-(2**7), 2**7 - 1),
    DataType(TypeKind.SMALLINT): (-(2**15), 2**15 - 1),
    DataType(TypeKind.INT): (-(2**31), 2**31 - 1),
    DataType(TypeKind.BIGINT): (-(2**63), 2**63 - 1),
    DataType(TypeKind.UTINYINT): (0, 2**8 - 1),
    DataType(TypeKind.USMALLINT): (0, 2**16 - 1),
    DataType(TypeKind.UINT): (0, 2**32 - 1),
    DataType(TypeKind.UBIGINT): (0, 2**64 - 1),
    DataType(TypeKind.FLOAT): (-3.4028234663852886e38, 3.4028234663852886e38),
    DataType(TypeKind.DOUBLE): (-1.7976931348623157e308, 5e-324),
    DataType(TypeKind.DECIMAL, 38, 10): (Decimal("-9999999999999999999999999999.9999999999"), Decimal("0.0000000001")),
    DataType(TypeKind.VARCHAR, 6): ("", "äöü"),
    DataType(TypeKind.NCHAR, 3): ("", "äö😀"),
    DataType(TypeKind.VARBINARY, 4): (b"", b"\x00\xff\x00\xff"),
    DataType(TypeKind.GEOMETRY, 100): ("POINT (1.0 2.0)", "POLYGON((0 0, 1 0, 1 1, 0 0))"),
    DataType(TypeKind.DATE): (date(1, 1, 1), date(9999, 12, 31)),
}


def test_every_type_can_be_stored() -> None:
    assert set(STORAGE_TYPES) == set(TypeKind)


@pytest.mark.parametrize("type_", EXTREMES, ids=str)
def test_a_type_holds_its_extremes_and_null_exactly(tables: Tables, type_: DataType) -> None:
    table = Table("power", "extremes", (TS, Column("v", type_)))
    least, greatest = EXTREMES[type_]
    instants = [(1, least), (2, greatest), (3, None)]
    tables.create(table, POWER)
    tables.writer.write(table, POWER, rows_to_arrow(table, POWER, ("ts", "v"), instants, tbnames=["d"] * 3, now=0))  # type: ignore[arg-type]

    assert tables.scan(table).sort_by("ts")["v"].to_pylist() == [least, greatest, None]


@pytest.mark.parametrize(
    ("precision", "tick"), [("ms", 1_700_000_000_123), ("us", 1_700_000_000_123_456), ("ns", 1_700_000_000_123_456_789)]
)
def test_an_instant_is_stored_to_the_tick(tables: Tables, precision: str, tick: int) -> None:
    database = Database("power", Precision(precision))
    table = Table("power", "instants", (TS, Column("other", DataType(TypeKind.TIMESTAMP))))
    tables.create(table, database)
    tables.writer.write(table, database, rows_to_arrow(table, database, ("ts", "other"), [(tick, tick + 1)], tbnames=["d"], now=0))

    unit = 1_000 if precision == "ms" else 1
    stored = tables.scan(table)
    assert stored["ts"].cast(pa.int64()).to_pylist() == [tick * unit]
    assert stored["other"].cast(pa.int64()).to_pylist() == [(tick + 1) * unit]


def test_stored_columns_are_the_declared_ones_then_the_subtable(tables: Tables) -> None:
    schema = tables.schema(METERS, POWER)

    assert schema.names == ["ts", "a", "b", TBNAME]
    assert [schema.field(name).metadata for name in ("ts", "b")] == [{TYPE_METADATA: b"TIMESTAMP"}, {TYPE_METADATA: b"DOUBLE"}]


@pytest.mark.parametrize("type_", [DataType(TypeKind.DECIMAL, 39, 0), DataType(TypeKind.DECIMAL, 5, 6)], ids=str)
def test_a_decimal_that_cannot_be_stored_is_refused(type_: DataType) -> None:
    with pytest.raises(LimitError, match="cannot be stored"):
        arrow_type(type_, Precision.MILLISECOND)
