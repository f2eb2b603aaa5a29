"""CREATE TABLE USING … FILE: subtables of a CSV file."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.errors import DataError, Error, ExistsError, NotFoundError, NotSupportedError, ProgrammingError
from headrace.service.endpoint import sql_runner
from headrace.storage.loading import splits


def tags(connection: headrace.Connection) -> list[tuple[object, ...]]:
    query = "select table_name, tag_name, tag_value from information_schema.ins_tags order by table_name, tag_name"
    return [row[:3] for row in connection.execute(query).fetchall()]


def create(connection: headrace.Connection, folder: Path, text: str, columns: str = "tbname, floor", option: str = "") -> None:
    file = folder / "devices.csv"
    file.write_text(text)
    connection.execute(f"create table {option} using readings ({columns}) file '{file}'")


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ("tbname, floor", "n1,7\nN 2,\n"),
        ("floor, tbname", "FLOOR,tbname\n7,n1\nNULL,N 2\n"),
        ("tbname, floor", "'n1', 7\n'N 2', NULL\n"),
    ],
    ids=["plain", "names", "single quotes"],
)
def test_the_subtables_of_a_file_are_created(readings: headrace.Connection, tmp_path: Path, columns: str, text: str) -> None:
    before = tags(readings)
    create(readings, tmp_path, text, columns)
    added = [("N 2", "floor", None), ("N 2", "place", None), ("n1", "floor", "7"), ("n1", "place", None)]
    assert tags(readings) == sorted([*before, *added], key=lambda row: row[:2])
    readings.execute("insert into `N 2` values (1700000000000, 1, 1)")


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("n1,7\nn2,x\n", DataError, "devices.csv, row 2: 'x' is not valid for floor, which is INT"),
        ("n1,7\n,8\n", DataError, "devices.csv, row 2: NULL is not valid for tbname"),
        ("n1,7\na/b,8\n.c,9\n", DataError, "devices.csv, row 2: 'a/b' is not valid for tbname, which is VARCHAR(192)"),
        ("n1,7\nn2,8\nn1,9\n", DataError, "devices.csv, row 3: 'n1' is not valid for tbname"),
        ("n1,7\nn2\n", DataError, "devices.csv, row 2: 1 values"),
        ("tbname,floor\nn1,7\ndev2,8\n", ExistsError, "devices.csv, row 2: table d.dev2 already exists"),
    ],
)
def test_an_invalid_file_creates_nothing(
    readings: headrace.Connection, tmp_path: Path, text: str, error: type[Error], says: str
) -> None:
    before = tags(readings)
    with pytest.raises(error) as caught:
        create(readings, tmp_path, text)
    assert says in caught.value.message
    assert tags(readings) == before


def test_a_repeated_name_is_found_across_parts_of_a_file(
    readings: headrace.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splits.split_files, "__defaults__", (8,))
    with pytest.raises(DataError, match="row 5: 'n2' is not valid for tbname"):
        create(readings, tmp_path, "n1,1\nn2,2\nn3,3\nn4,4\nn2,5\n")
    create(readings, tmp_path, "n1,1\nn2,2\nn3,3\nn4,4\nn5,5\n")
    assert len(tags(readings)) == 2 * 7


def test_existing_subtables_keep_their_tags_with_if_not_exists(readings: headrace.Connection, tmp_path: Path) -> None:
    create(readings, tmp_path, "dev1,9\nn1,7\n", option="if not exists")
    create(readings, tmp_path, "dev1,9\nn1,8\n", option="if not exists")
    assert [row for row in tags(readings) if row[1] == "floor"] == [
        ("dev1", "floor", "1"),
        ("dev2", "floor", "2"),
        ("n1", "floor", "7"),
    ]


@pytest.mark.parametrize(
    ("statement", "error", "says"),
    [
        ("create table using readings (tbname, a) file 'x.csv'", NotFoundError, "readings has no tag a"),
        ("create table using readings (floor) file 'x.csv'", ProgrammingError, "needs a column tbname"),
        ("create table using readings (tbname, floor, floor) file 'x.csv'", ProgrammingError, "floor is named twice"),
        ("create table using readings (tbname) file '/nowhere/x.csv'", NotFoundError, "file /nowhere/x.csv does not exist"),
    ],
)
def test_a_statement_that_cannot_be_done_is_refused(
    readings: headrace.Connection, statement: str, error: type[Error], says: str
) -> None:
    with pytest.raises(error) as caught:
        readings.execute(statement)
    assert says in caught.value.message
    assert caught.value.span is not None


def test_a_request_cannot_name_a_file_of_the_server(readings: headrace.Connection) -> None:
    with pytest.raises(NotSupportedError, match="one of the server"):
        sql_runner(readings.session.context)("create table using readings (tbname) file 'x.csv'", "tdengine", "d")
