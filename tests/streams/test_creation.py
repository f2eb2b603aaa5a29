"""CREATE STREAM creates a complete stream or nothing, and gives a target to one stream, despite crashes and races."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace
from headrace.context import Context
from headrace.errors import Error, ExistsError, InvalidStreamError, NotFoundError
from headrace.model.failpoints import calling
from headrace.model.jobs import JobState
from headrace.model.statements import CreateStream
from headrace.model.tables import Database, Table
from headrace.runtime.context import open_context
from headrace.settings import Settings, load
from headrace.sql import parse
from headrace.streams import lifecycle
from headrace.streams.definition.define import define, plan_recorded_stream
from headrace.streams.kind import STREAM
from tests.streams.environment import READINGS, SUBTABLES
from tests.support.forking import die_at, execute
from tests.support.racing import race

if TYPE_CHECKING:
    from collections.abc import Iterator

DATABASE = Database("db")
START = 1_700_000_000_000
SQL = "create stream {name} {options} into {target} as select _wstart, {columns} from readings interval(10s)"


def create_tables(context: Context) -> None:
    """A database with the supertable `readings`."""
    context.catalog.databases.create(DATABASE)
    context.tables.create(READINGS, DATABASE)
    context.catalog.tables.create(READINGS)
    context.catalog.subtables.add("db", "readings", list(SUBTABLES))


@contextmanager
def opened(settings: Settings) -> Iterator[Context]:
    context = open_context(settings)
    try:
        yield context
    finally:
        context.tables.close()
        context.catalog.close()


def statement(name: str = "s", target: str = "out", columns: str = "count(*) n", options: str = "") -> str:
    return SQL.format(name=name, target=target, columns=columns, options=options)


def create(context: Context, sql: str) -> bool:
    parsed = parse(sql)
    assert isinstance(parsed, CreateStream)
    plan = define(parsed, context.catalog, "db", now=context.clock.now())
    return lifecycle.create(context, plan, plan.definition(created=context.clock.now()))


# Crashes

POINTS = ["streams.create.target", "streams.state.rename", "streams.create.prepared", "streams.create.recorded"]


def killed(home: Path, sql: str, point: str) -> None:
    """Run a statement in a process that is killed at a failpoint."""
    die_at(point, execute, home, "use db", sql)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("options", "point"),
    [("", point) for point in POINTS] + [("fill_history 1", point) for point in POINTS if point != "streams.state.rename"],
)
def test_a_kill_at_any_point_leaves_a_complete_stream_or_none(tmp_path: Path, point: str, options: str) -> None:
    with opened(load(home=tmp_path / "home")) as context:
        create_tables(context)
        killed(tmp_path / "home", statement(options=options), point)
        names = [table.name for table in context.catalog.tables.all("db")]
        if point == "streams.create.recorded":
            record = context.catalog.jobs.get("db", "s", STREAM)
            progress = record.progress
            version = context.tables.version(READINGS)
            offsets = {plan_recorded_stream(record.definition, context.catalog).source_ids[0]: version}
            assert (progress.boundary, progress.position and progress.position.offsets) == (
                (offsets, None) if options else (None, offsets)
            )
            assert record.state is (JobState.FILLING if options else JobState.CREATED)
            assert names == ["out", "readings"]
            assert context.tables.exists(plan_recorded_stream(record.definition, context.catalog).target)
        else:
            assert context.catalog.jobs.all() == []
            assert names == ["readings"]


@pytest.mark.parametrize("point", POINTS[:-1])
@pytest.mark.parametrize("columns", ["count(*) n", "sum(a) total, max(b) latest"])
def test_the_next_try_reuses_or_replaces_what_a_killed_one_left(tmp_path: Path, point: str, columns: str) -> None:
    home = tmp_path / "home"
    with opened(load(home=home)) as context:
        create_tables(context)
        killed(home, statement(), point)
        assert create(context, statement(columns=columns))
        target = context.catalog.tables.get("db", "out")
        names = [column.name for column in target.columns]
        assert context.tables.scan(target).column_names == [*names, "tbname"]


@pytest.mark.drawn(2)
@pytest.mark.spark
@pytest.mark.parametrize("point", POINTS)
def test_a_stream_whose_creation_was_killed_and_repeated_computes(tmp_path: Path, point: str) -> None:
    with headrace.connect(tmp_path / "home", clock=headrace.ManualClock(START)) as connection:
        create_tables(connection.session.context)
        connection.execute("use db")
        connection.execute(f"insert into d0 values ({START}, 1, 'x')")
        sql = statement(options="trigger at_once")
        killed(tmp_path / "home", sql, point)
        connection.execute(sql.replace("create stream", "create stream if not exists"))
        connection.execute(f"insert into d0 values ({START + 1}, 2, 'y') ({START + 60_000}, 3, 'z')")
        connection.settle()
        rows = connection.execute("select n from out order by 1").fetchall()
        assert sorted(rows) == [(1,), (2,)]


def test_a_table_made_meanwhile_under_the_targets_name_is_left_alone(tmp_path: Path) -> None:
    with opened(load(home=tmp_path / "home")) as context, opened(load(home=tmp_path / "home")) as other:
        create_tables(context)
        parsed = parse(statement())
        assert isinstance(parsed, CreateStream)
        plan = define(parsed, context.catalog, "db", now=0)
        made = Table("db", "out", READINGS.columns, READINGS.tags)
        other.tables.create(made, DATABASE)
        other.catalog.tables.create(made)
        with pytest.raises(ExistsError):
            lifecycle.create(context, plan, plan.definition(created=0))
        assert other.tables.scan(made).column_names == ["ts", "a", "b", "tbname"]
        assert context.catalog.jobs.all() == []


# Races


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else ""
    return load(home=tmp_path / "home", catalog_url=url)


def contend(settings: Settings, racer: int) -> list[int]:
    """Numbers of the targets that this racer's streams got; its rivals' streams have other columns."""
    won = []
    columns = ", ".join(f"count(*) n{number}" for number in range(racer + 1))
    with opened(settings) as context:
        for number in range(8):
            sql = statement(f"s{number}_{racer}", f"out{number}", columns, "trigger at_once")
            try:
                create(context, sql)
                won.append(number)
            except (InvalidStreamError, ExistsError):
                continue
    return won


@pytest.mark.drawn(2)
def test_of_streams_that_race_for_a_target_one_gets_it(settings: Settings) -> None:
    with opened(settings) as context:
        create_tables(context)
        won = race(contend, [(settings, racer) for racer in range(3)])
        assert sorted(number for numbers in won for number in numbers) == list(range(8))
        for record in context.catalog.jobs.all():
            plan = plan_recorded_stream(record.definition, context.catalog)
            assert context.tables.scan(plan.target).num_rows == 0
            stored = context.tables.schema(plan.target, DATABASE).names
            assert context.tables.scan(plan.target).column_names == stored
            racer = int(record.definition.name[-1])
            assert len(plan.target.columns) == racer + 2


def test_the_database_keeps_a_second_stream_from_a_target(settings: Settings) -> None:
    from sqlalchemy import exc, insert

    from headrace.catalog.rows.jobs import JOBS, to_row

    with opened(settings) as context:
        create_tables(context)
        create(context, statement())
        record = context.catalog.jobs.get("db", "s", STREAM)
        row = to_row(record) | {"id": "another", "name": "another"}
        engine = context.catalog.jobs._store.engine
        with pytest.raises(exc.IntegrityError), engine.begin() as connection:
            connection.execute(insert(JOBS).values(row))


def test_a_target_that_was_dropped_meanwhile_is_an_error(tmp_path: Path) -> None:
    with opened(load(home=tmp_path / "home")) as context:
        create_tables(context)
        target = Table("db", "out", READINGS.columns, READINGS.tags)
        context.tables.create(target, DATABASE)
        context.catalog.tables.create(target)
        sql = "create stream s into out tags (g) as select _wstart, sum(a), max(b) from readings partition by g interval(10s)"
        with (
            calling("streams.create.prepared", lambda: context.catalog.tables.drop("db", "out")),
            pytest.raises(NotFoundError),
        ):
            create(context, sql)
        assert context.catalog.jobs.all() == []


def test_a_refused_stream_leaves_no_state(tmp_path: Path) -> None:
    with opened(load(home=tmp_path / "home")) as context:
        create_tables(context)
        create(context, statement())
        with pytest.raises(Error):
            create(context, statement("t"))
        folders = list(Path(context.state_uri).iterdir())
        assert [folder.name for folder in folders] == [context.catalog.jobs.get("db", "s", STREAM).definition.id]
