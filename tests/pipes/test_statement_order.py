"""The place of statements between rows, and tables that are dropped while a pipe reads them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.catalog.schema_log import SchemaLog
from headrace.errors import ExistsError, HistoryGoneError
from headrace.model.positions import STATEMENTS
from headrace.model.schema_log import SchemaStatement
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DeleteEvent, Event, InsertEvent, StatementEvent
from headrace.pipes.sources import present_schema
from headrace.settings import load
from tests.pipes.receivers import Points, apply_events
from tests.pipes.test_statements import Pipe

numbers = count()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path_factory.mktemp("home"))) as opened:
        yield opened


class Plant:
    """A database of its own, and statements about it."""

    def __init__(self, home: headrace.Connection) -> None:
        self.home = home
        self.name = f"root.q{next(numbers):03}"

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.home.execute(statement.format(self.name))

    def insert(self, *times: int) -> None:
        self.run(*(f"insert into {{}}.d(time, s) values ({time}, {time})" for time in times))

    def pipe(self, **attributes: str) -> Pipe:
        return Pipe(self.home, self.name[5:], **{"pattern": f"{self.name}."} | attributes)

    def described(self, events: list[Event]) -> list[str]:
        """Return statements, and the times of rows and deleted points."""
        return [
            event.sql.replace(self.name, "db")
            if isinstance(event, StatementEvent)
            else f"{'-' if isinstance(event, DeleteEvent) else '+'}{event.data.rows['time'].to_pylist()}"
            for event in events
        ]


@pytest.fixture
def plant(home: headrace.Connection) -> Plant:
    return Plant(home)


def test_statements_are_between_the_rows_before_and_after(plant: Plant) -> None:
    plant.run("create database {}")
    pipe = plant.pipe(inclusion="schema,data.insert")
    plant.insert(1, 2)
    plant.run("alter timeseries {}.d.s upsert tags('k'='v')")
    plant.insert(3)
    plant.run("delete timeseries {}.d.s", "create timeseries {}.d.s INT32")
    plant.insert(4)
    assert plant.described(pipe.read()) == [
        "+[1, 2]",
        "ALTER TIMESERIES db.d.s UPSERT TAGS('k'='v')",
        "+[3]",
        "DELETE TIMESERIES db.d.s",
        "CREATE TIMESERIES db.d.s INT32 ENCODING=TS_2DIFF COMPRESSION=LZ4",
        "+[4]",
    ]


def test_only_included_categories_are_transferred(plant: Plant) -> None:
    plant.run("create database {}")
    pipe = plant.pipe(inclusion="schema.timeseries.ordinary.create,schema.ttl")
    plant.run("create timeseries {}.d.s INT32", "set ttl to {}.d 90000000000000", "delete timeseries {}.d.s")
    plant.home.session.context.catalog.schema_log.record([SchemaStatement("auth.user.create", "CREATE USER ann 'x'")])
    assert plant.described(pipe.read()) == [
        "CREATE TIMESERIES db.d.s INT32 ENCODING=TS_2DIFF COMPRESSION=LZ4",
        "SET TTL TO db.d 90000000000000",
    ]


def test_statements_about_rights_are_transferred_as_they_are(plant: Plant) -> None:
    pipe = plant.pipe(inclusion="auth")
    plant.home.session.context.catalog.schema_log.record([SchemaStatement("auth.user.create", "CREATE USER ann 'x'")])
    assert plant.described(pipe.read()) == ["CREATE USER ann 'x'"]


@pytest.mark.parametrize("moment", ["before the log is read", "after the log is read"])
def test_rows_that_are_committed_while_the_log_is_read_come_after_their_statements(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    plant.run("create database {}")
    pipe = plant.pipe()
    plant.insert(1)
    read = SchemaLog.after
    changes = ["create aligned timeseries {}.e(s DOUBLE)", "insert into {}.e(time, s) aligned values (2, 2)"]

    def after(self: SchemaLog, *args: Any) -> Any:
        if moment.startswith("before"):
            plant.run(*changes)
        statements = read(self, *args)
        if moment.startswith("after"):
            plant.run(*changes)
        changes.clear()
        return statements

    monkeypatch.setattr(SchemaLog, "after", after)
    created = "CREATE ALIGNED TIMESERIES db.e(s DOUBLE ENCODING=GORILLA COMPRESSION=LZ4)"
    assert plant.described(pipe.read()) == ["+[1]", created, "+[2]"]


def test_a_pipe_whose_statements_were_removed_fails(plant: Plant) -> None:
    pipe = plant.pipe()
    pipe.offsets = {**pipe.offsets, STATEMENTS: -5}
    with pytest.raises(HistoryGoneError, match="drop the pipe and create it again"):
        pipe.read()


def test_the_log_is_looked_at_once_for_all_pipes_that_follow_it(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, queries = plant.pipe(inclusion="data.insert"), 0
    newest = SchemaLog.newest

    def counted(self: SchemaLog) -> int:
        nonlocal queries
        queries += 1
        return newest(self)

    monkeypatch.setattr(SchemaLog, "newest", counted)

    def poll() -> int:
        nonlocal queries
        queries = 0
        pipe.feeds.poll()
        for source in sources:
            source.has_news(pipe.offsets)
        return queries

    sources = [pipe.source]
    assert poll() == 0
    pipe.attributes = type(pipe.attributes)({"inclusion": "all", "pattern": plant.name})
    sources = [pipe.open() for _ in range(3)]
    assert poll() == 1
    for source in sources:
        source.close()
    assert poll() == 0


def points_of(events: list[Event]) -> Points:
    points: Points = {}
    apply_events(points, [event for event in events if not isinstance(event, StatementEvent)])
    return points


@pytest.mark.parametrize("inclusion", ["data.insert", "all"])
@pytest.mark.parametrize("is_noticed", [True, False])
def test_a_database_that_is_dropped_with_rows_in_flight_and_created_again(plant: Plant, inclusion: str, is_noticed: bool) -> None:
    plant.run("create database {}")
    plant.insert(1)
    pipe = plant.pipe(inclusion=inclusion)
    plant.insert(2, 3)
    pipe.feeds.refresh()
    pipe.feeds.poll()
    assert pipe.source.has_news(pipe.offsets)
    plant.run("delete database {}")
    dropped = pipe.read() if is_noticed else []
    assert points_of(dropped) == {}
    assert plant.described(dropped) == (["DELETE DATABASE db"] if is_noticed and inclusion == "all" else [])
    plant.insert(7)
    events = dropped + pipe.read()
    assert points_of(events) == {(f"{plant.name}.d", 7, "s"): 7.0}
    statements = [event.sql.replace(plant.name, "db") for event in events if isinstance(event, StatementEvent)]
    assert statements == (["DELETE DATABASE db", "CREATE DATABASE db"] if inclusion == "all" else [])
    assert isinstance(events[-1], InsertEvent)
    assert pipe.source.pending(pipe.offsets) == (0, None)


@pytest.mark.parametrize("again", [True, False])
def test_a_database_that_is_dropped_before_its_history_is_read(plant: Plant, again: bool) -> None:
    plant.run("create database {}")
    plant.insert(1, 2, 3)
    pipe = plant.pipe(**{"history.enable": "true"})
    plant.run("delete database {}")
    if again:
        plant.insert(9)
    events = pipe.read()
    assert points_of(events) == ({(f"{plant.name}.d", 9, "s"): 9.0} if again else {})


def test_the_present_schema_comes_in_bounded_batches(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(present_schema, "MAX_DEVICES", 4)
    monkeypatch.setattr(present_schema, "MAX_SERIES", 6)
    plant.run("create database {}", *(f"create timeseries {{}}.d{number}.s INT32" for number in range(9)))
    plant.run("create aligned timeseries {}.e(a INT32, b INT32, c INT32, d INT32, e INT32, f INT32, g INT32)")
    plant.insert(5)
    pipe = plant.pipe(**{"history.enable": "true"})
    pipe.feeds.refresh()
    sizes: list[int] = []
    events: list[Event] = []
    while not present_schema.is_read(pipe.offsets):
        batch = pipe.source.read(pipe.offsets)
        assert batch is not None
        sizes.append(len(batch.events))
        events += batch.events
        pipe.offsets = batch.offsets
    assert sizes[1:] == [4, 4, 2, 1, 0]
    assert plant.described(events)[0] == "CREATE DATABASE db"
    assert len(events) == 1 + 9 + 1 + 1
    assert plant.described(pipe.read()) == ["+[5]"]


def test_a_snapshot_has_the_schema_and_the_rows_and_ends(plant: Plant) -> None:
    plant.run("create database {}", "set ttl to {}.** 90000000000000")
    plant.insert(1)
    pipe = plant.pipe(mode="snapshot")
    assert not pipe.source.has_ended(pipe.offsets)
    plant.run("create timeseries {}.d.late INT32")
    texts = plant.described(pipe.read())
    assert texts[0] == "CREATE DATABASE db"
    assert texts[-1] == "+[1]"
    assert "SET TTL TO db.** 90000000000000" in texts
    assert pipe.source.has_ended(pipe.offsets)


def test_a_snapshot_has_the_schema_as_of_its_creation(plant: Plant) -> None:
    plant.run("create database {}", "create timeseries {}.d.kept INT32", "create timeseries {}.d.dropped INT32")
    pipe = plant.pipe(mode="snapshot", inclusion="schema.timeseries.ordinary")
    plant.run(
        "create timeseries {}.e.late INT32", "delete timeseries {}.d.dropped", "alter timeseries {}.d.kept upsert tags('k'='v')"
    )
    pipe.restart()
    texts = " ".join(plant.described(pipe.read()))
    assert ("kept" in texts, "dropped" in texts, "late" in texts, "TAGS" in texts) == (True, True, False, False)
    assert pipe.source.has_ended(pipe.offsets)


def test_what_was_captured_goes_with_the_pipe_and_if_none_is_created(plant: Plant, tmp_path: Path) -> None:
    context = plant.home.session.context
    folder = Path(context.state_uri)
    before = set(folder.glob("*"))
    create = (
        f"create pipe {{}}captured with source ('path'='{plant.name}.**', 'mode'='snapshot', 'inclusion'='all') "
        f"with sink ('sink'='delta-sink', 'uri'='{tmp_path}/copy')"
    )
    plant.run("create database {}", "create timeseries {}.d.s INT32")
    plant.home.execute(create.format(""))
    (own,) = set(folder.glob("*")) - before
    assert [file.name for file in own.iterdir()] != []
    plant.home.execute(create.format("if not exists "))
    with pytest.raises(ExistsError):
        plant.home.execute(create.format(""))
    assert set(folder.glob("*")) - before == {own}
    plant.home.execute("drop pipe captured")
    plant.home.settle()
    assert set(folder.glob("*")) == before


def test_rows_of_an_aligned_device_that_was_removed_are_aligned(plant: Plant) -> None:
    plant.run("create database {}")
    pipe = plant.pipe()
    insert = "insert into {}.e(time, s) aligned values (1, 1)"

    def aligned() -> list[bool]:
        events = [event for event in pipe.read() if isinstance(event, InsertEvent)]
        return [event.data.aligned == {f"{plant.name}.e"} for event in events]

    plant.run(insert)
    assert aligned() == [True]
    plant.run(insert.replace("1", "2"), "delete timeseries {}.e.s")
    assert aligned() == [True]
    plant.run(insert.replace(" aligned", ""))
    assert aligned() == [False]


def test_a_pipe_that_is_altered_begins_and_ends_to_transfer_statements(plant: Plant) -> None:
    plant.run("create database {}")
    pipe = plant.pipe(inclusion="data.insert")

    def alter(inclusion: str) -> None:
        pipe.attributes = PipeAttributes({"inclusion": inclusion, "pattern": f"{plant.name}.", "history.enable": "false"})
        pipe.restart()

    plant.insert(1)
    plant.run("set ttl to {}.d 90000000000000")
    alter("all")
    assert plant.described(pipe.read()) == ["+[1]"]
    plant.run("set ttl to {}.d 80000000000000")
    plant.insert(2)
    assert plant.described(pipe.read()) == ["SET TTL TO db.d 80000000000000", "+[2]"]
    alter("data.insert")
    plant.run("set ttl to {}.d 70000000000000")
    plant.insert(3)
    assert plant.described(pipe.read()) == ["+[3]"]
    assert STATEMENTS not in pipe.offsets
