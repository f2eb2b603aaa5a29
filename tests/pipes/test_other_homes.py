"""The sink `delta-sink` into tables of another home: its streams and queries have the rows as if they had been inserted there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.settings import load

SUMS = (
    "create stream s trigger at_once ignore update 0 ignore expired 0 into target as "
    "select _wstart, sum(a) from rooms partition by tbname interval(10s)"
)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[headrace.Connection]:
    """Another home, with a supertable, a plain table and a tree."""
    with headrace.connect(settings=load(home=tmp_path / "other")) as connection:
        for statement in (
            "create database cold",
            "use cold",
            "create table rooms (ts timestamp, a int, b double, c varchar(10)) tags (site varchar(10))",
            "create table door (ts timestamp, a int)",
        ):
            connection.execute(statement)
        yield connection


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path / "home")) as opened:
        yield opened


def uri(other: headrace.Connection, path: str) -> str:
    return f"{other.session.context.settings.tables_uri}/{path}/rows"


def create_pipe(connection: headrace.Connection, target: str, options: str = "") -> None:
    source = "'path'='root.plant.**', 'inclusion'='data'"
    connection.execute(f"create pipe out with source ({source}) with sink ('sink'='delta-sink', 'uri'='{target}'{options})")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_supertable_of_another_home_gets_what_is_written_updated_and_deleted(
    connection: headrace.Connection, other: headrace.Connection
) -> None:
    other.execute("insert into old using rooms tags ('north') values ('1970-01-01 00:00:05', 7, 0.5, 'x')")
    other.execute("create table `root.plant.line1` using rooms tags ('south')")
    other.execute(SUMS)
    connection.execute("insert into root.plant.line1(time, a, b, c) values (1000, 1, 0.5, 'é'), (2000, 2, null, null)")
    create_pipe(connection, uri(other, "cold/rooms"))
    connection.settle()
    other.settle()
    connection.execute("insert into root.plant.line1(time, a) values (2000, 20), (11000, 5), (30000, 1)")
    connection.execute("delete from root.plant.line1.a where time = 1000")
    connection.execute("delete from root.plant.line1.* where time = 11000")
    connection.settle()
    other.settle()

    rows = other.execute("select tbname, cast(ts as bigint), a, b, c from rooms order by tbname, ts").fetchall()
    assert [tuple(row) for row in rows] == [
        ("old", 5000, 7, 0.5, "x"),
        ("root.plant.line1", 1000, None, 0.5, "é"),
        ("root.plant.line1", 2000, 20, None, None),
        ("root.plant.line1", 30000, 1, None, None),
    ]
    results = other.execute("select cast(_wstart as bigint), `sum(a)` from target where `sum(a)` is not null").fetchall()
    assert (0, 20) in [tuple(row) for row in results]


def test_a_column_that_the_supertable_lacks_stops_the_pipe_with_its_name(
    connection: headrace.Connection, other: headrace.Connection
) -> None:
    create_pipe(connection, uri(other, "cold/rooms"))
    connection.execute("insert into root.plant.line1(time, a, missing) values (1000, 1, 2)")
    connection.settle()
    assert "STOPPED" in str(connection.execute("show pipes").fetchall())
    assert "the supertable has no column missing" in str(connection.execute("show pipes").fetchall())


@pytest.mark.parametrize(("path", "options", "message"), [
    ("cold/door", "", "is a plain table of another home"),
    ("root-2eplant/devices", ", 'partition-by-day'='false'", "is a tree of another home"),
])  # fmt: skip
def test_tables_that_only_their_home_may_write_are_refused(
    connection: headrace.Connection, other: headrace.Connection, path: str, options: str, message: str
) -> None:
    with headrace.connect(dialect="iotdb", settings=other.session.context.settings) as trees:
        trees.execute("insert into root.plant.d(time, a) values (1, 1)")
    with pytest.raises(headrace.Error, match=message):
        create_pipe(connection, uri(other, path), options)
    assert connection.execute("show pipes").fetchall() == []
