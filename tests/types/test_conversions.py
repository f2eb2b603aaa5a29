"""All writers convert values for columns of other types alike: what programs write as INSERT does, results as CAST does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest

import headrace
from tests.types.house import House

pytestmark = pytest.mark.spark

VALUES: Final[dict[str, Any]] = {"bo": True, "i": 7, "d": 1.5, "w": 3.0, "s": "12", "c": "2.5"}
SOURCES: Final = {"bo": "BOOL", "i": "BIGINT", "d": "DOUBLE", "w": "DOUBLE", "s": "VARCHAR(8)", "c": "NCHAR(8)"}
TARGETS: Final = {
    "bo": "BOOL",
    "i8": "TINYINT",
    "i32": "INT",
    "i64": "BIGINT",
    "u8": "TINYINT UNSIGNED",
    "u64": "BIGINT UNSIGNED",
    "f": "FLOAT",
    "d": "DOUBLE",
    "p": "DECIMAL(6, 2)",
    "s": "VARCHAR(4)",
    "n": "NCHAR(4)",
    "b": "VARBINARY(4)",
    "t": "TIMESTAMP",
}
ROUNDED: Final = {1.5: 2, "2.5": 3}
"""TDengine's INSERT rounds fractions for whole numbers; CAST truncates them."""
TICKS: Final = {True: 1, 7: 7, 1.5: 1, 3.0: 3, "12": 12}
TEXTS: Final = {True: "true", 7: "7", 1.5: "1.5", "12": "12", "2.5": "2.5"}


def expected(value: Any, target: str, *, computed: bool) -> Any:
    """Return what a column has of a value; `...` if it is refused."""
    match target:
        case "bo":
            return True
        case "i8" | "i32" | "i64" | "u8" | "u64":
            return int(float(value)) if computed or value not in ROUNDED else ROUNDED[value]
        case "f" | "d":
            return float(value)
        case "p":
            return Decimal(str(float(value))).quantize(Decimal("0.01"))
        case "s" | "n":
            return TEXTS.get(value, "3" if computed else "3.0")
        case "b":
            return value.encode() if isinstance(value, str) else ...
    is_written = isinstance(value, str) or type(value) is int
    return dt.datetime.fromtimestamp(TICKS[value] / 1000, dt.UTC) if value in TICKS and (computed or is_written) else ...


def cells(*, computed: bool) -> dict[str, Any]:
    """Return the columns that take a value, each with what it has then."""
    pairs = ((source, target) for source in SOURCES for target in TARGETS)
    found = {f"{source}_{target}": expected(VALUES[source], target, computed=computed) for source, target in pairs}
    return {name: value for name, value in found.items() if value is not ...}


def source_of(column: str) -> str:
    return column.split("_")[0]


@pytest.fixture(scope="module")
def connection(house: House) -> Iterator[headrace.Connection]:
    """Open a database with a row of all values, and a table with a column for each pair of types."""
    with headrace.connect(settings=house.connection.session.context.settings, dialect="tdengine") as connection:
        for sql in (
            "create database converted",
            "use converted",
            f"create table given (ts timestamp, {', '.join(f'{name} {sql}' for name, sql in SOURCES.items())})",
            "insert into given values (1, true, 7, 1.5, 3.0, '12', '2.5')",
            f"create stable cells (ts timestamp, {columns_sql()}) tags (way varchar(20))",
        ):
            connection.execute(sql)
        yield connection


def columns_sql() -> str:
    return ", ".join(f"{source}_{name} {sql}" for source in SOURCES for name, sql in TARGETS.items())


def sql_text(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


Writer = Callable[[headrace.Connection, str, list[str]], None]


def by_literals(connection: headrace.Connection, table: str, columns: list[str]) -> None:
    values = ", ".join(sql_text(VALUES[source_of(name)]) for name in columns)
    connection.execute(f"insert into {table} (ts, {', '.join(columns)}) values (1, {values})")


def by_parameters(connection: headrace.Connection, table: str, columns: list[str]) -> None:
    marks = ", ".join("?" for _ in columns)
    values = [VALUES[source_of(name)] for name in columns]
    connection.execute(f"insert into {table} (ts, {', '.join(columns)}) values (1, {marks})", values)


def by_dictionaries(connection: headrace.Connection, table: str, columns: list[str]) -> None:
    row = {"ts": 1, **{name: VALUES[source_of(name)] for name in columns}}
    connection.append([row], "converted.cells", subtable=table)


def by_arrow(connection: headrace.Connection, table: str, columns: list[str]) -> None:
    rows = pa.table({"ts": [1], **{name: [VALUES[source_of(name)]] for name in columns}})
    connection.append(rows, "converted.cells", subtable=table)


def by_selection(connection: headrace.Connection, table: str, columns: list[str]) -> None:
    values = ", ".join(sql_text(VALUES[source_of(name)]) for name in columns)
    connection.execute(f"insert into {table} (ts, {', '.join(columns)}) select 1, {values}")


def by_selection_of_rows(connection: headrace.Connection, table: str, columns: list[str]) -> None:
    items = ", ".join(map(source_of, columns))
    connection.execute(f"insert into {table} (ts, {', '.join(columns)}) select ts, {items} from given")


WRITTEN: Final[tuple[Writer, ...]] = (by_literals, by_parameters, by_dictionaries, by_arrow)
COMPUTED: Final[tuple[Writer, ...]] = (by_selection, by_selection_of_rows)


def write_cells(connection: headrace.Connection, writer: Writer, columns: list[str]) -> dict[str, Any]:
    """Write a row, and return what it has then."""
    table = writer.__name__
    connection.execute(f"create table if not exists {table} using cells tags ('{table}')")
    writer(connection, table, columns)
    (row,) = connection.execute(f"select {', '.join(columns)} from {table}").fetchall()
    return dict(zip(columns, row, strict=True))


@pytest.mark.parametrize("writer", [*WRITTEN, *COMPUTED], ids=lambda writer: writer.__name__)
def test_a_writer_converts_values_by_the_rule_of_all(connection: headrace.Connection, writer: Writer) -> None:
    wanted = cells(computed=writer in COMPUTED)
    assert write_cells(connection, writer, list(wanted)) == wanted


@pytest.mark.parametrize("writer", [*WRITTEN, by_selection], ids=lambda writer: writer.__name__)
def test_a_writer_refuses_what_no_column_of_a_type_holds(connection: headrace.Connection, writer: Writer) -> None:
    taken = cells(computed=writer is by_selection)
    for column in (f"{source}_{target}" for source in SOURCES for target in TARGETS if f"{source}_{target}" not in taken):
        with pytest.raises(headrace.Error, match=column):
            write_cells(connection, writer, [column])


def test_a_stream_converts_results_as_an_inserted_query(connection: headrace.Connection) -> None:
    wanted = cells(computed=True)
    connection.execute(f"create stable results (ts timestamp, {columns_sql()}) tags (way varchar(20))")
    items = ", ".join(f"{source_of(name)} {name}" for name in wanted)
    options = "trigger at_once fill_history 1"
    connection.execute(f"create stream s {options} into results (ts, {', '.join(wanted)}) as select ts, {items} from given")
    connection.settle()
    assert connection.execute(f"select {', '.join(wanted)} from results").fetchall() == [tuple(wanted.values())]
