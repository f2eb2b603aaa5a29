"""DROP: what goes along, what forbids it, and that a statement that was interrupted is completed by repeating it."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.errors import Error, ExistsError, IntegrityError, NotFoundError
from headrace.model.failpoints import armed
from headrace.runtime.table_maintenance import maintain
from headrace.runtime.table_removal import orphaned_folders
from headrace.streams.leftovers import remove_leftovers
from tests.service.conftest import START

STREAM = "create stream {} trigger at_once into {} as select _wstart, sum(v) v from {} interval(1m)"


@pytest.fixture
def pair(connection: headrace.Connection) -> headrace.Connection:
    """Provide the databases p and q, each with a table t of one row."""
    for name in "pq":
        connection.execute(f"create database {name}")
        connection.execute(f"create table {name}.t (ts timestamp, v int)")
        connection.execute(f"insert into {name}.t values ({START}, 1)")
    return connection


def rows(connection: headrace.Connection, table: str) -> list[object]:
    context, (database, name) = connection.session.context, table.split(".")
    stored = context.tables.scan(context.catalog.tables.get(database, name))
    return list(stored[stored.column_names[1]].to_pylist())


def files(connection: headrace.Connection, *parts: str) -> bool:
    return Path(connection.session.context.tables.uri, *parts).exists()


def test_a_database_takes_the_streams_within_it_along(pair: headrace.Connection) -> None:
    pair.execute(STREAM.format("p.s", "p.o", "p.t"))
    pair.execute(f"insert into p.t values ({START + 1}, 2)")
    pair.settle()
    assert rows(pair, "p.o") == [3]
    (stage, *_) = pair.session.stages("drop database p")
    assert stage.loses() == ["table p.o", "table p.t", "stream p.s"]
    pair.execute("drop database p")
    assert not files(pair, "p")
    assert remove_leftovers(pair.session.context, min_age_s=0) == 0
    pair.execute("create database p")
    pair.execute("create table p.t (ts timestamp, v int)")
    pair.execute(STREAM.format("p.s", "p.o", "p.t"))
    pair.execute(f"insert into p.t values ({START}, 5)")
    pair.settle()
    assert rows(pair, "p.o") == [5]


@pytest.mark.parametrize("ends", [("p.s", "p.o", "q.t"), ("p.s", "q.o", "p.t"), ("q.s", "q.o", "p.t"), ("q.s", "p.o", "q.t")])
def test_a_stream_that_leads_into_or_out_of_a_database_forbids_the_drop(
    pair: headrace.Connection, ends: tuple[str, str, str]
) -> None:
    pair.execute(STREAM.format(*ends))
    pair.execute(STREAM.format("p.own", "p.o2", "p.t"))
    for database in "pq":
        with pytest.raises(IntegrityError, match="leads into or out of it"):
            pair.execute(f"drop database {database}")
    pair.settle()
    assert [rows(pair, table) for table in ("p.t", "q.t")] == [[1], [1]]
    assert len(pair.session.context.catalog.jobs.all()) == 2


@pytest.mark.parametrize(
    "point",
    [
        "streams.drop.requested",
        "streams.drop.retired",
        "streams.drop.forgotten",
        "databases.drop.jobs",
        "databases.drop.recorded",
        "databases.drop.table",
    ],
)
def test_a_drop_of_a_database_that_failed_is_completed_by_repeating_it(pair: headrace.Connection, point: str) -> None:
    pair.execute(STREAM.format("p.s", "p.o", "p.t"))
    pair.execute(STREAM.format("p.s2", "p.o2", "p.t"))
    pair.settle()
    with armed(f"{point}:1:raise"), pytest.raises(Error):
        pair.execute("drop database p")
    context = pair.session.context
    assert bool(orphaned_folders(context.catalog, context.tables.uri)) == (
        point in ("databases.drop.recorded", "databases.drop.table")
    )
    pair.settle()
    pair.execute("drop database p")
    assert (files(pair, "p"), files(pair, "q"), context.catalog.jobs.all()) == (False, True, [])
    with pytest.raises(NotFoundError):
        pair.execute("drop database p")
    pair.execute("create database p")
    pair.execute("create table p.t (ts timestamp, v int)")
    assert rows(pair, "p.t") == []


@pytest.mark.parametrize(
    ("made", "drop"),
    [
        ("create table {} (ts timestamp, v int)", "drop table {}"),
        ("create stable {} (ts timestamp, v int) tags (g int)", "drop stable if exists {}"),
    ],
)
def test_a_drop_of_a_table_that_failed_is_completed_by_repeating_it(connection: headrace.Connection, made: str, drop: str) -> None:
    connection.execute(made.format("x"))
    table = "x" if "drop table" in drop else "x1 using x tags (1)"
    connection.execute(f"insert into {table} values ({START}, 1)")
    with armed("tables.drop.recorded:1:raise"), pytest.raises(Error):
        connection.execute(drop.format("x"))
    with pytest.raises(ExistsError, match="there is a Delta table at") as raised:
        connection.execute(made.format("x"))
    assert "repeat" in raised.value.hint
    connection.execute(drop.format("x"))
    assert not files(connection, "d", "x")
    connection.execute(made.format("x"))
    assert rows(connection, "d.x") == []


def test_a_tree_database_that_failed_to_drop_is_dropped_by_repeating_it(connection: headrace.Connection) -> None:
    with headrace.connect(settings=connection.session.context.settings, dialect="iotdb") as tree:
        tree.execute("insert into root.a.d(time, s) values (1, 5)")
        with armed("databases.drop.recorded:1:raise"), pytest.raises(Error):
            tree.execute("delete database root.a")
        tree.execute("delete database root.a")
        tree.execute("insert into root.a.d(time, s) values (2, 6)")
        assert tree.execute("select s from root.a.d").fetchall()[0][1] == 6


def test_maintenance_removes_what_an_interrupted_removal_has_left(connection: headrace.Connection) -> None:
    folder = Path(connection.session.context.tables.uri, ".dropped-0123", "rows")
    folder.mkdir(parents=True)
    maintain(connection.session.context)
    assert not folder.parent.exists()


@pytest.mark.parametrize(
    ("drop", "lost"),
    [
        ("drop table dev1", ["the rows of d.dev1"]),
        ("drop stable readings", ["1 rows of d.readings"]),
        ("drop table plain", []),
        ("drop database d", ["table d.plain", "table d.readings"]),
    ],
)
def test_a_drop_says_what_it_takes_along(readings: headrace.Connection, drop: str, lost: list[str]) -> None:
    readings.execute("create table plain (ts timestamp, v int)")
    readings.execute(f"insert into dev1 values ({START}, 1, 1.5)")
    assert [line for stage in readings.session.stages(drop) for line in stage.loses()] == lost
