"""INSERT … SELECT and INSERT … FILE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.errors import DataError, Error, NotFoundError, NotSupportedError, ProgrammingError, TypeMismatchError
from headrace.service.endpoint import sql_runner

START = 1_700_000_000_000


def stored(connection: headrace.Connection, table: str) -> list[tuple[Any, ...]]:
    """Return the stored rows by subtable and time, in the order of the columns."""
    context = connection.session.context
    rows = context.tables.scan(context.catalog.tables.get("d", table))
    return sorted((row.pop("tbname"), int(row.pop("ts").timestamp() * 1000) - START, *row.values()) for row in rows.to_pylist())


def commits(connection: headrace.Connection, table: str) -> int:
    return connection.session.context.tables.version(connection.session.context.catalog.tables.get("d", table))


def lower_driver_rows(connection: headrace.Connection, rows: int) -> None:
    """Have results of more than `rows` rows written by executors."""
    context = connection.session.context
    object.__setattr__(context, "settings", context.settings.replace({"driver_rows": rows}))


@pytest.fixture
def filled(readings: headrace.Connection) -> headrace.Connection:
    """The supertable with three rows, and a plain table `copies (ts, a, b, note)`."""
    readings.execute("create table copies (ts timestamp, a bigint, b int, note varchar(4))")
    readings.execute(f"insert into dev1 values ({START}, 1, 1.4) ({START + 1}, 2, null) dev2 values ({START + 2}, 3, 2.5)")
    return readings


@pytest.mark.parametrize("driver_rows", [1_000, 1])
def test_the_rows_of_a_query_are_inserted_in_one_commit(filled: headrace.Connection, driver_rows: int) -> None:
    lower_driver_rows(filled, driver_rows)
    before = commits(filled, "copies")
    cursor = filled.execute("insert into copies (ts, b, a) select ts, b, a from readings")
    assert cursor.rowcount == 3
    assert commits(filled, "copies") == before + 1
    assert stored(filled, "copies") == [
        ("copies", 0, 1, 1, None),
        ("copies", 1, 2, None, None),
        ("copies", 2, 3, 2, None),
    ], "fractions are truncated as by CAST, and columns that are not named are NULL"


@pytest.mark.parametrize("driver_rows", [1_000, 1])
def test_columns_that_are_not_named_keep_their_values(filled: headrace.Connection, driver_rows: int) -> None:
    lower_driver_rows(filled, driver_rows)
    filled.execute(f"insert into copies values ({START}, 7, 7, 'old') ({START + 9}, 9, 9, 'x')")
    filled.execute("insert into copies (ts, a) select ts, a * 10 from readings")
    assert stored(filled, "copies") == [
        ("copies", 0, 10, 7, "old"),
        ("copies", 1, 20, None, None),
        ("copies", 2, 30, None, None),
        ("copies", 9, 9, 9, "x"),
    ]


@pytest.mark.parametrize("driver_rows", [1_000, 1])
def test_a_column_can_name_the_subtables(filled: headrace.Connection, driver_rows: int) -> None:
    lower_driver_rows(filled, driver_rows)
    filled.execute("create stable other (ts timestamp, a int) tags (g int)")
    with pytest.raises(NotFoundError, match="other has no subtable o1"):
        filled.execute("insert into other (tbname, ts, a) select replace(tbname, 'dev', 'o'), ts, a from readings")
    filled.execute("create table o1 using other tags (1) o2 using other tags (2)")
    filled.execute("insert into other (tbname, ts, a) select replace(tbname, 'dev', 'o'), ts, a from readings")
    assert stored(filled, "other") == [("o1", 0, 1), ("o1", 1, 2), ("o2", 2, 3)]


@pytest.mark.parametrize("driver_rows", [1_000, 1])
@pytest.mark.parametrize(
    ("query", "says", "blamed"),
    [
        ("select ts, 99999999999 * a, b, 'n' from readings", "", ""),
        ("select ts, a, a * 3000000000, 'n' from readings", "is not valid for b, which is INT", "a * 3000000000"),
        (
            "select ts, a, a, concat('too', 'long') from readings",
            "not valid for note, which is VARCHAR(4)",
            "concat('too', 'long')",
        ),
        ("select cast(null as timestamp), a, a, 'n' from readings", "NULL is not valid for ts", "cast(null as timestamp)"),
        ("select a - 5, a, a, 'n' from readings", "is not valid for ts", "a - 5"),
    ],
)
def test_an_invalid_value_is_refused_by_column_and_nothing_is_written(
    filled: headrace.Connection, driver_rows: int, query: str, says: str, blamed: str
) -> None:
    lower_driver_rows(filled, driver_rows)
    statement = f"insert into copies {query}"
    if not says:
        filled.execute(statement)
        assert len(stored(filled, "copies")) == 3
        return
    with pytest.raises(DataError) as caught:
        filled.execute(statement)
    assert says in caught.value.message
    assert caught.value.span is not None
    assert statement[caught.value.span.start : caught.value.span.end] == blamed
    assert stored(filled, "copies") == []


@pytest.mark.parametrize(
    ("statement", "error", "says", "blamed"),
    [
        ("insert into copies select ts, a from readings", ProgrammingError, "the query has 2 columns, copies takes 4", "select"),
        ("insert into copies (ts, a, a) select ts, a, a from readings", ProgrammingError, "named twice", "(ts, a, a)"),
        ("insert into copies (a) select a from readings", ProgrammingError, "ts of copies is required", "(a)"),
        ("insert into copies (ts, x) select ts, a from readings", NotFoundError, "x is no column", "(ts, x)"),
        (
            "insert into copies (ts, a) select ts, cast('x' as varbinary(4)) from readings",
            TypeMismatchError,
            "column a is BIGINT",
            "cast",
        ),
        ("insert into readings select ts, a, b from copies", ProgrammingError, "which subtable", "readings"),
        ("insert into missing select ts, a from readings", NotFoundError, "missing not found", "missing"),
        ("insert into copies select ts, z, a, a from readings", NotFoundError, "z", "z"),
    ],
)
def test_a_statement_that_cannot_work_is_refused_with_its_place(
    filled: headrace.Connection, statement: str, error: type[Error], says: str, blamed: str
) -> None:
    with pytest.raises(error) as caught:
        filled.execute(statement)
    assert says in caught.value.message
    assert caught.value.span is not None
    assert statement[caught.value.span.start : caught.value.span.end].startswith(blamed)


def test_timestamps_are_converted_between_precisions(filled: headrace.Connection) -> None:
    filled.execute("create database n precision 'ns'")
    filled.execute("create table n.fine (ts timestamp, a int)")
    filled.execute("insert into n.fine select ts, a from readings")
    assert filled.execute("select cast(ts as bigint), a from n.fine order by ts").fetchall() == [
        (START * 1_000_000, 1),
        ((START + 1) * 1_000_000, 2),
        ((START + 2) * 1_000_000, 3),
    ]
    filled.execute("insert into copies (ts, a) select ts + 999u, a from n.fine")
    assert [row[1] for row in stored(filled, "copies")] == [0, 1, 2], "fractions of a tick are truncated"


def test_a_table_can_be_read_and_written_by_one_statement(filled: headrace.Connection) -> None:
    filled.execute("insert into dev1 select ts + 1m, a, b from dev1")
    assert [row[:3] for row in stored(filled, "readings")] == [
        ("dev1", 0, 1),
        ("dev1", 1, 2),
        ("dev1", 60_000, 1),
        ("dev1", 60_001, 2),
        ("dev2", 2, 3),
    ]


def test_an_empty_result_makes_no_commit(filled: headrace.Connection) -> None:
    before = commits(filled, "copies")
    assert filled.execute("insert into copies (ts, a) select ts, a from readings where a > 99").rowcount == 0
    assert commits(filled, "copies") == before


def test_a_stream_sees_one_commit(filled: headrace.Connection) -> None:
    query = "select _wstart, count(*) n, sum(a) total from copies interval(1m)"
    filled.execute(f"create stream s trigger at_once into totals as {query}")
    filled.execute("insert into copies (ts, a) select ts, a from readings")
    filled.settle()
    assert filled.execute("select n, total from totals").fetchall() == [(3, 6)]


def test_parameters_of_the_query_are_expressions(filled: headrace.Connection) -> None:
    filled.execute("insert into copies (ts, a) select ts, a from readings where a >= ? and b > ?", [3, 1.5])
    assert stored(filled, "copies") == [("copies", 2, 3, None, None)]
    cursor = filled.cursor()
    cursor.executemany("insert into copies (ts, a) select ts, a from readings where a = ?", [(1,), (2,)])
    assert len(stored(filled, "copies")) == 3


def test_explain_describes_the_insert(filled: headrace.Connection) -> None:
    lines = [row[0] for row in filled.execute("explain insert into copies (ts, a) select ts, a from readings").fetchall()]
    assert lines[0] == "write the rows of a query to d.copies (columns ts, a), one commit"
    assert lines[-1] == "needs the right to write table d.copies, read table d.readings"


# Files


@pytest.mark.parametrize(
    "text",
    [
        f"{START},1,1.5\n{START + 1},2,\n",
        f"ts,a,b\n{START},1,1.5\n{START + 1},2,NULL\n",
        f"b,TS,a\n1.5,{START},1\n,{START + 1},2\n",
        f"'{START}', '1', 1.5\n'{START + 1}', 2, NULL\n",
        "'2023-11-14 22:13:20', 1, '1.5'\n'2023-11-14 22:13:20.001', 2,\n",
        "ts,a,b\r'2023-11-14 22:13:20', 1, '1.5'\r'2023-11-14 22:13:20.001', 2,\r",
        f"\ufeff'{START}', 1, 1.5\n\n'{START + 1}', 2, NULL",
    ],
    ids=["plain", "names", "names in another order", "single quotes", "times", "CR", "BOM and a last line without an end"],
)
def test_a_file_is_inserted(readings: headrace.Connection, tmp_path: Path, text: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(text.encode())
    cursor = readings.execute(f"insert into dev1 file '{file}'")
    assert cursor.rowcount == 2
    assert stored(readings, "readings") == [("dev1", 0, 1, 1.5), ("dev1", 1, 2, None)]


def test_listed_columns_take_the_values_in_order(readings: headrace.Connection, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f"time,value\n{START},7\n")
    readings.execute(f"insert into dev1 (ts, a) file '{file}'")
    assert stored(readings, "readings") == [("dev1", 0, 7, None)]


def test_files_of_several_subtables_are_one_commit_and_create_them(readings: headrace.Connection, tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text(f"{START},1,1\n")
    two.write_text(f"{START},2,2\n{START + 1},3,3\n")
    before = commits(readings, "readings")
    readings.execute(f"insert into dev1 file '{one}' dev9 using readings tags ('west', 9) file '{two}'")
    assert commits(readings, "readings") == before + 1
    assert stored(readings, "readings") == [("dev1", 0, 1, 1), ("dev9", 0, 2, 2), ("dev9", 1, 3, 3)]
    assert [row[5] for row in readings.execute("show tags from dev9").fetchall()] == ["west", "9"]


def test_a_column_of_the_file_can_name_the_subtables(readings: headrace.Connection, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f"tbname,ts,a\ndev1,{START},1\ndev2,{START},2\n")
    readings.execute(f"insert into readings file '{file}'")
    assert stored(readings, "readings") == [("dev1", 0, 1, None), ("dev2", 0, 2, None)]


def test_a_large_file_is_converted_by_workers(readings: headrace.Connection, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("".join(f"{START + row},{row},0.5\n" for row in range(5_000)))
    readings.session.context.tables.small_write_rows = 0
    assert readings.execute(f"insert into dev1 file '{file}'").rowcount == 5_000
    assert [row[2] for row in stored(readings, "readings")] == list(range(5_000))


def test_a_parquet_file_is_matched_by_name(readings: headrace.Connection, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [4], "ts": pa.array([START], pa.timestamp("ms", "UTC"))}), file)
    readings.execute(f"insert into dev2 file '{file}'")
    assert stored(readings, "readings") == [("dev2", 0, 4, None)]


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (f"{START},1,1\n{START + 1},x,1\n", DataError, "rows.csv, row 2: 'x' is not valid for a, which is INT"),
        (f"{START},1,1\n,2,1\n", DataError, "rows.csv, row 2: NULL is not valid for ts"),
        (f"{START},1\n", DataError, "row 1: 2 values"),
        (f"'{START}',1\n", DataError, "row 1: 2 values"),
        (f"'{START}',1,1\n'{START + 1},2,2\n'{START + 2}',3,3\n", DataError, "rows.csv, row 2: a quote opens and does not close"),
        (f'{START},1,1\n{START + 1},2,"2\n', DataError, "rows.csv, row 2: a quote opens and does not close"),
        ("time,a,b\n1,2,3\n", NotFoundError, "readings has no column 'time'"),
    ],
)
def test_an_invalid_file_is_refused_with_its_row(
    readings: headrace.Connection, tmp_path: Path, text: str, error: type[Error], says: str
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text)
    with pytest.raises(error) as caught:
        readings.execute(f"insert into dev1 file '{file}'")
    assert says in caught.value.message
    assert stored(readings, "readings") == []


def test_a_missing_file_is_refused_with_its_place(readings: headrace.Connection) -> None:
    with pytest.raises(NotFoundError) as caught:
        readings.execute("insert into dev1 file '/nowhere/x.csv'")
    assert "line 1, column 23" in str(caught.value)


def test_a_request_cannot_name_a_file_of_the_server(readings: headrace.Connection, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f"{START},1,1\n")
    run = sql_runner(readings.session.context)
    with pytest.raises(NotSupportedError, match="one of the server"):
        run(f"insert into dev1 file '{file}'", "tdengine", "d")
