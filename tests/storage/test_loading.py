from __future__ import annotations

import datetime as dt
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.errors import DataError, Error, NotFoundError, ProgrammingError
from headrace.model.tables import TBNAME, Database, Table
from headrace.model.time import Precision
from headrace.storage import Tables
from headrace.storage.loading.conversion import LoadTarget, convert_split
from headrace.storage.loading.loader import LoadMetrics, LoadOptions
from headrace.storage.loading.splits import FileSplit, describe, split_files
from headrace.storage.loading.splits import read_split as read_piece
from headrace.storage.values.columns import InvalidValues
from tests.storage.samples import METERS, PLAIN, POWER, Row, open_tables, read, rows

Writing = Callable[[str, str], Path]


@pytest.fixture
def file(tmp_path: Path) -> Writing:
    """Return a function that writes a file and returns its path."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def no_spark() -> NoReturn:
    raise AssertionError("Spark is not needed here")


def load(tables: Tables, *files: Path, table: Table = METERS, database: Database = POWER, **options: Any) -> LoadMetrics:
    return tables.loader(no_spark, table, database).load(files, options=LoadOptions(**options))


def stored(tables: Tables) -> list[Row]:
    return read(tables.scan(METERS))


def test_a_csv_file_is_loaded_by_its_column_names_without_regard_to_case(meters: Tables, file: Writing) -> None:
    loaded = load(meters, file("a.csv", "B, TS ,tbname\n1.5,2024-05-01 00:00:00,d1\n,1714521601000,d2\n"))

    assert (loaded.inserted, loaded.updated, loaded.bytes) == (2, 0, 59)
    assert stored(meters) == [
        {"ts": 1714521600000, "a": None, "b": 1.5, TBNAME: "d1"},
        {"ts": 1714521601000, "a": None, "b": None, TBNAME: "d2"},
    ]


def test_ndjson_may_leave_columns_out_and_mix_numbers_and_text(meters: Tables, file: Writing) -> None:
    text = '{"ts": 1, "a": 1, "tbname": "d1"}\n\n{"TS": "1970-01-01T00:00:00.002Z", "b": "2.5", "tbname": "d1"}\n'
    text = text.replace("TS", "ts")
    load(meters, file("a.ndjson", text))

    assert [(row["ts"], row["a"], row["b"]) for row in stored(meters)] == [(1, 1, None), (2, None, 2.5)]


def test_parquet_is_loaded_from_any_fitting_types(meters: Tables, tmp_path: Path) -> None:
    moment = dt.datetime(2024, 5, 1, 12, 0, 0, 123456)
    columns = {"ts": pa.array([moment]), "a": pa.array([7], pa.uint8()), TBNAME: pa.array(["d1"]).dictionary_encode()}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    load(meters, tmp_path / "a.parquet")

    assert stored(meters) == [{"ts": 1714564800123, "a": 7, "b": None, TBNAME: "d1"}]


def test_parquet_timestamps_without_a_zone_are_in_the_databases_zone(meters: Tables, tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": pa.array([dt.datetime(2024, 5, 1, 2)]), TBNAME: ["d1"]}), tmp_path / "a.parquet")
    load(meters, tmp_path / "a.parquet", database=Database("power", Precision.MILLISECOND, "Europe/Berlin"))

    assert [row["ts"] for row in stored(meters)] == [1714521600000]


def test_all_rows_may_be_of_one_subtable(meters: Tables, file: Writing) -> None:
    load(meters, file("a.csv", "ts,a\n1,1\n"), tbname="d7")

    assert stored(meters)[0][TBNAME] == "d7"


def test_a_plain_table_needs_no_subtable(tables: Tables, file: Writing) -> None:
    tables.create(PLAIN, POWER)
    load(tables, file("a.csv", "ts,a\n1,1\n"), table=PLAIN)

    assert tables.scan(PLAIN)[TBNAME].to_pylist() == ["plain"]


def test_columns_missing_in_the_file_keep_their_values(meters: Tables, file: Writing) -> None:
    meters.writer.write(METERS, POWER, rows([{"ts": 1, "a": 1, "b": 1.0}]))
    loaded = load(meters, file("a.csv", "ts,b,tbname\n1,,d1\n2,2,d1\n"))

    assert (loaded.inserted, loaded.updated) == (1, 1)
    assert [(row["a"], row["b"]) for row in stored(meters)] == [(1, None), (None, 2.0)]


@pytest.mark.parametrize("small_write_rows", [100, 1], ids=["in memory", "through files"])
def test_the_last_row_of_a_key_in_the_last_file_wins(tmp_path: Path, file: Writing, small_write_rows: int) -> None:
    tables = open_tables(tmp_path, small_write_rows)
    tables.create(METERS, POWER)
    first, second = file("a.csv", "ts,a,tbname\n1,1,d1\n1,2,d1\n2,1,d1\n"), file("b.csv", "ts,a,tbname\n3,3,d1\n2,3,d1\n")
    loaded = load(tables, first, second)

    assert loaded.inserted == 3
    assert [(row["ts"], row["a"]) for row in stored(tables)] == [(1, 2), (2, 3), (3, 3)]


@pytest.mark.parametrize("small_write_rows", [100, 1], ids=["in memory", "through files"])
def test_loading_a_file_twice_is_idempotent(tmp_path: Path, file: Writing, small_write_rows: int) -> None:
    tables = open_tables(tmp_path, small_write_rows)
    tables.create(METERS, POWER)
    path = file("a.csv", "ts,a,tbname\n" + "".join(f"{ts},{ts},d1\n" for ts in range(50)))
    first, second = load(tables, path), load(tables, path)

    assert (first.inserted, second.inserted, second.updated) == (50, 0, 50)
    assert tables.rows(METERS) == 50
    assert staged_files(tables) == live_files(tables) | removed_files(tables)


def staged_files(tables: Tables) -> set[str]:
    return {path.name for path in (Path(tables.uri) / "power/meters/rows").glob("*.zstd.parquet")}


def live_files(tables: Tables) -> set[str]:
    with tables._handles.reader(METERS).latest() as delta:
        return {Path(uri).name for uri in delta.file_uris() if ".zstd." in uri}


def removed_files(tables: Tables) -> set[str]:
    """Return the files that only an older version has."""
    return {Path(uri).name for uri in tables._handles.reader(METERS).at(1).file_uris() if ".zstd." in uri}


def test_progress_reports_rows_and_bytes(meters: Tables, file: Writing) -> None:
    reports: list[tuple[int, int]] = []
    paths = [file("a.csv", "ts,tbname\n1,d1\n"), file("b.csv", "ts,tbname\n2,d1\n3,d1\n")]
    meters.loader(no_spark, METERS, POWER).load(paths, lambda count, size: reports.append((count, size)))

    assert reports == [(1, 15), (3, 35)]


def test_subtables_and_tags_are_announced_before_anything_is_written(meters: Tables, file: Writing) -> None:
    announced: list[Row] = []
    path = file("a.csv", "ts,tbname,SITE\n1,d1,1\n2,d2,\n3,d1,3\n")

    def announce(subtables: pa.Table) -> None:
        assert meters.version(METERS) == 0
        announced.extend(subtables.to_pylist())

    meters.loader(no_spark, METERS, POWER).load([path], announce=announce)
    assert sorted(announced, key=lambda row: str(row[TBNAME])) == [{TBNAME: "d1", "site": 3}, {TBNAME: "d2", "site": None}]


def test_an_exception_from_the_announcement_ends_the_load(tmp_path: Path, file: Writing) -> None:
    tables = open_tables(tmp_path, small_write_rows=1)
    tables.create(METERS, POWER)

    def announce(_: pa.Table) -> None:
        raise ProgrammingError("d1 belongs to another table")

    with pytest.raises(ProgrammingError, match="d1 belongs"):
        tables.loader(no_spark, METERS, POWER).load([file("a.csv", "ts,tbname\n1,d1\n2,d1\n")], announce=announce)
    assert tables.version(METERS) == 0
    assert staged_files(tables) == set()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "ts,a,tbname\n1,1,d1\n2,x,d1\n", "a.csv, row 2: 'x' is not valid for a, which is INT; give it a whole number"),
        ("a.csv", "ts,a,tbname\n1,1,d1\n-2,1,d1\n", "row 2: '-2' is not valid for ts, which is TIMESTAMP"),
        ("a.csv", "ts,a,tbname\n,1,d1\n", "row 1: NULL is not valid for ts"),
        ("a.csv", "ts,a,tbname\n1,1,\n", "row 1: NULL is not valid for tbname"),
        ("a.csv", "ts,a,tbname\n1,1,d1\n2,2\n", "row 2: 2 values, where one value for each of the 3 names"),
        ("a.csv", "ts,b,tbname\n1,nan,d1\n", "row 1: 'nan' is not valid for b"),
        ("a.ndjson", '{"ts": 1, "tbname": "d1"}\n{"ts": 2\n', "a.ndjson, row 2: '{\"ts\": 2', where a JSON object is expected"),
        ("a.ndjson", '{"ts": 1, "a": [1], "tbname": "d1"}\n', "row 1: \\[1\\] is not valid for a"),
    ],
)
def test_an_invalid_row_refuses_the_load_and_is_named(meters: Tables, file: Writing, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(meters, file(name, text))
    assert meters.version(METERS) == 0


def test_invalid_rows_are_counted_and_the_first_are_named(meters: Tables, file: Writing) -> None:
    bad = "".join(f"{ts},x{ts},d1\n" for ts in range(1, 9))
    with pytest.raises(DataError) as refused:
        load(meters, file("a.csv", f"ts,a,tbname\n{bad}"))

    assert "row 1: 'x1'" in refused.value.message
    assert "and 7 more; nothing was loaded" in refused.value.message
    assert refused.value.hint.count("\n") == 3


def test_an_invalid_row_of_a_large_file_has_its_row_number(file: Writing) -> None:
    lines = [f"{ts},{ts},d1" for ts in range(1000)]
    lines[777] = "777,bad,d1"
    work = split_files([file("a.csv", "ts,a,tbname\n" + "\n".join(lines) + "\n")], None, ",", piece_bytes=100)
    target = LoadTarget(METERS, POWER, None, 0)
    error = [
        describe(piece, invalid_value) for piece in work for invalid_value in convert_split(piece, target).invalid_values.first()
    ]

    assert len(work) > 50
    assert [text.partition(" is not")[0] for text in error] == ["a.csv, row 778: 'bad'"]


def contents(work: list[FileSplit]) -> list[tuple[FileSplit, Any]]:
    return [(piece, read_piece(piece, InvalidValues()).columns) for piece in work]


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("start", ["", "\ufeff", "\n\n"])
def test_lines_end_in_any_way_and_may_be_blank(meters: Tables, tmp_path: Path, ending: str, last: bool, start: str) -> None:
    path = tmp_path / "a.csv"
    text = start + "\n".join(["ts,a,tbname", "1,5,d1", "", "2,6,'d2'", '3,7,"d3"']) + "\n" * last
    path.write_bytes(text.replace("\n", ending).encode())

    assert load(meters, path).read == 3
    assert [(row["a"], row[TBNAME]) for row in sorted(stored(meters), key=lambda row: row["a"])] == [
        (5, "d1"),
        (6, "'d2'"),
        (7, "d3"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'ts,tbname,a\n1,"5 inch,1\n2,6" pipe,2\n3,x,3\n', "a.csv, row 1: a quote opens and does not close on its line"),
        (b'ts,tbname,a\n1,"5 inch,1\n2,6",2\n3,x,3\n', "a.csv, row 1: a quote opens"),
        (b'ts,tbname,a\n1,x,1\n2,"6,2\n3,x,3\n', "a.csv, row 2: a quote opens"),
        (b'ts,tbname,a\r1,x,1\r2,"6,2\r3,x,3\r', "a.csv, row 2: a quote opens"),
        (b'ts,a,tbname\n1,1,x\n2,2,"6', "a.csv, row 2: a quote opens"),
        (b"ts,a,tbname\n1,1,x\n2,2,d\x00", "a.csv, row 2: '2,2,d.*' has a NUL byte"),
        (b"ts,a,tbname\n1,1,x\n\x00\x00\x00\x00\x00\x00\x00", "a.csv, row 2: .* has a NUL byte"),
        (b"ts,a,tbname\n1,1,x\n2,2,gr\xf6n\n", "a.csv, row 2: .*, where text in UTF-8 is expected"),
        (b"ts,gr\xf6n,tbname\n1,1,x\n", "the first line of a.csv is no text in UTF-8"),
        (b"ts,a,tbname\r1,1,x\n2,2,y\n", "the lines of a.csv end in CR and in LF"),
        ("ts,a,tbname\n1,1,d1\n".encode("utf-16"), "a.csv is text in UTF-16\nhint: convert it: iconv -f UTF-16 -t UTF-8 a.csv"),
        ("ts,a,tbname\n1,1,d1\n".encode("utf-16-le"), "a.csv is text in UTF-16"),
        (gzip.compress(b"ts,a,tbname\n1,1,d1\n"), "a.csv is compressed by gzip\nhint: decompress it: gunzip a.csv"),
    ],
)
def test_what_is_no_line_of_csv_is_named_and_nothing_is_loaded(
    meters: Tables, tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        load(meters, path)
    assert meters.version(METERS) == 0


@pytest.mark.parametrize("ending", ["\n", "\r", ""])
@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 7, 11, 1000])
def test_each_line_is_read_once_for_any_split(file: Writing, piece_bytes: int, ending: str) -> None:
    path = file("a.csv", "ts,a\n" + "\n".join(f"{ts},{ts * 7}" for ts in range(40)) + ending)
    path.write_bytes(path.read_bytes().replace(b"\n", ending.encode() or b"\n"))
    lines_read = [
        value.as_py() for piece, values in contents(split_files([path], None, ",", piece_bytes)) for value in values["ts"]
    ]

    assert lines_read == [str(ts) for ts in range(40)]


def test_quotes_empty_values_and_other_delimiters_are_read_as_usual(meters: Tables, file: Writing) -> None:
    load(meters, file("a.csv", '\ufeff"ts";"tbname";"a"\n1;"d;1";NULL\n2;"say ""d""";\n'), delimiter=";")
    load(meters, file("a.tsv", "ts\ttbname\n3\td3\n"))

    assert [row[TBNAME] for row in sorted(stored(meters), key=lambda row: int(row["ts"]))] == ["d;1", 'say "d"', "d3"]


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("a.csv", "ts,other,tbname\n", NotFoundError, "meters has no column 'other'"),
        ("a.csv", "ts,a,A,tbname\n1,1,1,d1\n", ProgrammingError, "'A' and 'a' are one column"),
        ("a.csv", "a,tbname\n1,d1\n", ProgrammingError, "a.csv has no column ts"),
        ("a.csv", "ts,a\n1,1\n", ProgrammingError, "a.csv has no column tbname"),
        ("a.csv", "", DataError, "does not begin with a line of column names"),
        ("a.parquet", "no", DataError, "a.parquet is not a Parquet file"),
        ("a.xls", "", ProgrammingError, "none of the formats"),
    ],
)
def test_an_ambiguous_or_incomplete_file_is_refused(
    meters: Tables, file: Writing, name: str, text: str, error: type[Error], message: str
) -> None:
    with pytest.raises(error, match=message):
        load(meters, file(name, text))
    assert meters.version(METERS) == 0


def test_a_missing_file_is_an_error(meters: Tables, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"file .*nowhere\.csv does not exist"):
        load(meters, tmp_path / "nowhere.csv")


def test_files_of_different_columns_are_not_loaded_together(meters: Tables, file: Writing) -> None:
    with pytest.raises(ProgrammingError, match=r"b\.csv has other columns than the first file: a"):
        load(meters, file("a.csv", "ts,a,tbname\n1,1,d1\n"), file("b.csv", "ts,tbname\n1,d1\n"))


def test_a_file_with_a_header_alone_loads_nothing(meters: Tables, file: Writing) -> None:
    assert load(meters, file("a.csv", "ts,a,tbname\n")).inserted == 0
    assert meters.version(METERS) == 0
