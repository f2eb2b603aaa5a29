"""Streams in several parts: together they compute what one job would, whoever dies, and users see one stream."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import headrace
from headrace.errors import Error
from headrace.model.failpoints import FailpointError, calling
from headrace.model.job_parts import part_ids, parts_of
from headrace.model.jobs import JobRecord, JobState
from headrace.service.connection import Connection
from headrace.storage.delta import changes
from headrace.streams.definition.define import StreamPlan, plan_recorded_stream
from headrace.streams.definition.series_parts import numbers_of
from headrace.streams.kind import STREAM
from headrace.streams.sources.lag import measure_counters
from headrace.streams.sources.parts import own_changes
from headrace.streams.sources.reader import ChangeReader
from headrace.streams.state.store import StateStore
from headrace.streams.timeline import Timeline, TimelineChoice, read_timeline
from tests.streams.effort import drawn, drawn_profiles
from tests.streams.environment import START, StreamEnvironment, assert_accounted, open_environment, open_profile
from tests.streams.killing import FAILPOINTS, STREAMS, Campaign
from tests.support.drawing import SEED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_MS: Final = 3_600_000
STEPS: Final = 5
DIVISIBLE: Final = (*(name for name, text in STREAMS.items() if "tbname" in text and "ignore expired 0" in text), "count")
"""Streams by subtable. Which rows expire depends on the watermark, which each part has for itself."""
NAMES: Final = ["d0", "d1", "d2", "", "zähler", "a name that is longer than the others"]


def test_the_number_of_a_part_never_changes() -> None:
    numbers = numbers_of(pa.array(NAMES), 1 << 16).tolist()
    assert numbers == [4575, 46178, 44, 0, 3342, 12420], "state that is stored belongs to these numbers"
    for type_ in (pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        column = pa.chunked_array([pa.array(NAMES[:2]), pa.array(NAMES[2:])]).cast(type_)
        assert numbers_of(column, 1 << 16).tolist() == numbers


@pytest.mark.parametrize("count", [1, 2, 3])
def test_parts_read_what_they_need_of_a_large_commit(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "PIECE_ROWS", 3)
    with open_environment(tmp_path, pytest.fail, driver_rows=0, batch_rows=1) as env:
        query = "select _wstart ws, sum(a) total, max(g) g from readings partition by tbname, g interval(1m)"
        stream = env.create(f"create stream s partitions {count} into o as {query}")
        parts = [
            plan_recorded_stream(part.definition, env.catalog, env.context.settings) for part in parts_of(record_of(env, stream))
        ]
        reader = ChangeReader(env.context, env.table, env.database)
        for first, names in enumerate((list(env.subtables), list(env.subtables)[:1])):
            before = reader.latest()
            values = [(name, first * HOUR_MS + second * 1000, second) for second in range(7) for name in names]
            env.insert([(*value, "x") for value in values])
            env.clock.advance(HOUR_MS)
            taken = list[tuple[Any, ...]]()
            for plan in parts:
                commit = reader.read_after(before, plan.scan.tags)
                assert commit is not None
                own = own_changes(plan, commit)
                assert own.large is not None
                pieces = list(own.large.plain_pieces())
                needed = {"ts", "a", "tbname", "g", "_change_type", "_commit_version"}
                assert {name for piece in pieces for name in piece.column_names} == needed
                assert [piece.num_rows > 0 for piece in pieces][1:] == [True] * (len(pieces) - 1)
                own_rows = pa.concat_tables(pieces).select(["tbname", "ts", "a"])
                assert own.rows.select(own_rows.column_names) == own_rows
                assert set(own.rows.column_names) == needed | {"b"}, "where rows are set aside, they are shown as they are"
                taken += env.plain(own_rows)
            assert sorted(taken, key=repr) == sorted(values, key=repr), "each row by one part"


@contextmanager
def two_environments(home: StreamEnvironment) -> Iterator[tuple[StreamEnvironment, ...]]:
    """Yield two environments over the same table, for a stream in parts and the same stream in one."""
    with home.new_database({one: (g, 0) for one, g in {"d0": 1, "d1": 1, "d2": 2}.items()}) as env:
        envs = [StreamEnvironment(env.context, env.database, table=env.table, subtables=env.subtables) for _ in range(2)]
        try:
            yield tuple(envs)
        finally:
            for own in envs:
                own.restart_after_failure()


def create(env: StreamEnvironment, name: str, parts: int) -> StreamPlan:
    options, _, query = STREAMS[name].partition(" into ")
    target, _, select = query.partition(" as ")
    plan = env.create(f"create stream {name}{parts} {options} partitions {parts} into {target}{parts} as {select}")
    env.created.clear()  # rows are accounted for by all parts together
    return plan


def record_of(env: StreamEnvironment, plan: StreamPlan) -> JobRecord:
    return env.catalog.jobs.whole(plan.id)


def settle(env: StreamEnvironment, plan: StreamPlan) -> None:
    env.settle(set(part_ids(record_of(env, plan).definition)))


def settle_with_kill(env: StreamEnvironment, plan: StreamPlan, point: str, passage: int, epoch: int) -> bool:
    """Settle by a driver that dies at a failpoint, and the next one; return whether it has died."""
    deaths: list[FailpointError] = []

    def die() -> None:
        deaths.append(FailpointError(point))
        raise deaths[0]

    with calling(point, die, passage):
        try:
            settle(env, plan)
        except FailpointError:
            assert deaths
    if deaths:
        env.restart_after_failure()
        env.restart(epoch)
    settle(env, plan)
    return bool(deaths)


def results(env: StreamEnvironment, plan: StreamPlan) -> list[tuple[Any, ...]]:
    reasons = [part.reason for part in parts_of(record_of(env, plan))]
    assert reasons == [None] * len(reasons)
    return env.results(plan)


@pytest.mark.spark
@pytest.mark.drawn(2)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("profile", [*drawn_profiles("parts of streams"), "wide"])
def test_parts_that_die_anywhere_compute_what_one_job_does(profile: str, tmp_path: Path, spark: SparkSession) -> None:
    with open_profile(profile, tmp_path / "home", spark, kernels="auto") as home:
        for name in drawn(DIVISIBLE, f"streams in parts of {profile}", 4 if profile == "kernels" else 1):
            campaign = Campaign(SEED)
            with two_environments(home) as (env, other):
                divided, whole = create(env, name, 2), create(other, name, 1)
                for epoch, step in enumerate(campaign.steps(STEPS), 1):
                    step.apply(env)
                    env.clock.advance(step.pause_ms)
                    point, passage = campaign.random.choice(FAILPOINTS), campaign.random.randint(1, 3)
                    settle_with_kill(env, divided, point, passage, epoch)
                    settle(other, whole)
                    if "at_once" in STREAMS[name]:
                        assert results(env, divided) == results(other, whole), (name, SEED)
                env.insert([(one, HOUR_MS, 1, "x") for one in env.subtables])  # all earlier windows are closed, in all parts
                env.clock.advance(HOUR_MS)
                assert settle_with_kill(env, divided, "streams.evaluated", 1, STEPS + 1)
                settle(other, whole)
                env.clock.advance(HOUR_MS)  # now each part writes what it delays
                settle(env, divided)
                settle(other, whole)
                assert results(env, divided) == results(other, whole), (name, SEED)
                counters = measure_counters(env.context, record_of(env, divided))
                assert_accounted(counters)
                assert counters.rows_in == measure_counters(other.context, record_of(other, whole)).rows_in


def connect(home: Path) -> Connection:
    connection = headrace.connect(home=home)
    for statement in (
        "create database d",
        "use d",
        "create stable m (ts timestamp, a int) tags (g int)",
        "create table p (ts timestamp, a int)",
        "create stable o4 (ts timestamp, n bigint) tags (name varchar(64))",
        *(f"create table m{number} using m tags ({number % 2})" for number in range(8)),
    ):
        connection.execute(statement)
    return connection


QUERY: Final = "select _wstart ws, count(*) n, sum(a) total from m"


@pytest.mark.parametrize(
    ("options", "query", "message"),
    [
        ("partitions 0", f"{QUERY} partition by tbname interval(1m)", "PARTITIONS 0 is not from 1 to 64"),
        ("partitions 65", f"{QUERY} partition by tbname interval(1m)", "PARTITIONS 65 is not from 1 to 64"),
        ("partitions 2", f"{QUERY} interval(1m)", "its windows have rows of several subtables of m"),
        ("partitions 2", f"{QUERY} partition by g interval(1m)", "its windows have rows of several subtables of m"),
        ("partitions 2", "select _wstart ws, count(*) n from p interval(1m)", "p is a single one"),
        ("partitions 2", "select _wstart ws, count(*) n from m1 interval(1m)", "m1 is a single one"),
        ("trigger force_window_close partitions 2", f"{QUERY} partition by tbname interval(1m)", "with FORCE_WINDOW_CLOSE"),
        ("partitions 2", f"{QUERY} partition by tbname interval(1m) fill(prev)", "with FILL"),
    ],
)
def test_streams_that_cannot_be_divided_are_refused(tmp_path: Path, options: str, query: str, message: str) -> None:
    with connect(tmp_path) as connection, pytest.raises(Error, match=message) as caught:
        connection.execute(f"create stream s {options} into o as {query}")
    assert caught.value.span is not None
    assert caught.value.hint


def record(connection: Connection) -> JobRecord:
    return connection.session.context.catalog.jobs.get("d", "s", STREAM)


def rows(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    return list(connection.execute(sql).fetchall())


def insert(connection: Connection, first: int, count: int = 8) -> None:
    values = " ".join(f"m{n} values ({START + (first + n) * 1000}, {first + n})" for n in range(count))
    connection.execute(f"insert into {values}")


def assert_complete(connection: Connection) -> None:
    connection.settle()
    expected = rows(connection, f"{QUERY} partition by tbname interval(1m)")
    assert sorted(rows(connection, "select ws, n, total from o")) == sorted(expected)
    assert connection.verify(stream="d.s").equal


@pytest.mark.spark
def test_users_see_one_stream(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        insert(connection, 0)
        stream = f"trigger at_once fill_history 1 ignore expired 0 ignore update 0 partitions {{}} into o as {QUERY}"
        stream += " partition by tbname interval(1m)"
        assert "divided into 3 parts by subtable" in str(rows(connection, f"explain create stream s {stream.format(3)}"))
        connection.execute(f"create stream s {stream.format(3)}")
        assert_complete(connection)
        insert(connection, 100)
        assert_complete(connection)
        parts = parts_of(record(connection))
        assert [part.definition.id for part in parts] == list(part_ids(record(connection).definition))
        assert all(part.progress.counters.rows_out for part in parts), "each has some of the subtables"
        assert record(connection).progress.counters.rows_in == sum(part.progress.counters.rows_in for part in parts)
        assert [row[0] for row in rows(connection, "show streams")] == ["s"]
        assert len(rows(connection, "select stream_name from information_schema.ins_stream_tasks")) == 3

        connection.execute("pause stream s")
        insert(connection, 200)
        connection.settle()
        assert record(connection).state is JobState.PAUSED
        assert {part.state for part in parts_of(record(connection))} == {JobState.PAUSED}
        connection.execute("resume stream s")
        assert_complete(connection)

        jobs = connection.session.context.catalog.jobs
        jobs.set_state(parts[1].definition.id, JobState.STOPPED)
        assert record(connection).state is JobState.STOPPED, "in the worst state of a part"
        connection.execute("resume stream s")
        assert_complete(connection)

        connection.execute("reset stream s")
        assert_complete(connection)
        for count in (2, 1, 4):
            connection.execute(f"create or replace stream s {stream.format(count)}")
            insert(connection, 300 + 10 * count)
            assert_complete(connection)
            assert len(jobs.parts()) == count
        with pytest.raises(Error, match="PARTITIONS"):
            connection.execute("alter stream s partitions 2")
        connection.execute("drop stream s")
        assert jobs.parts() == []
        connection.execute(f"create stream s {stream.format(2)}")
        assert_complete(connection)


def test_the_timeline_shows_the_open_windows_of_all_parts(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        context = connection.session.context
        connection.execute(f"create stream s partitions 3 into o as {QUERY} partition by tbname interval(1m)")

        def timeline() -> Timeline:
            return read_timeline(context, record(connection), TimelineChoice(), 100)

        insert(connection, 0)
        connection.settle()
        assert timeline().is_state_read
        assert sorted((window.values for window in timeline().windows), key=str) == [(1, number) for number in range(8)]
        assert not any(window.is_closed or window.is_written for window in timeline().windows)

        insert(connection, 120, 1)  # the watermark of one part passes its windows
        connection.settle()
        closed = [window.values for window in timeline().windows if window.is_written]
        own = numbers_of(pa.array([f"m{number}" for number in range(8)]), 3)
        assert sorted(closed, key=str) == [(1, number) for number in range(8) if own[number] == own[0]]
        assert len(timeline().windows) == 9

        StateStore(context.state_uri, part_ids(record(connection).definition)[own[0]], 0).clear()
        assert not timeline().is_state_read
        assert len(timeline().windows) == 8, "all but the open window of the part without a checkpoint"


def test_rows_in_quarantine_belong_to_parts(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        stream = f"trigger at_once ignore expired 0 ignore update 0 max_ahead 1h partitions 3 into o as {QUERY}"
        connection.execute(f"create stream s {stream} partition by tbname interval(1m)")
        now = connection.session.context.clock.now()
        ahead = " ".join(f"m{number} values ({now + 3 * HOUR_MS}, {number})" for number in range(8))
        connection.execute(f"insert into {ahead}")
        insert(connection, 0)
        connection.settle()
        assert len(rows(connection, "show quarantine")) == 8
        assert record(connection).progress.counters.rows_quarantined == 8
        assert connection.execute("drop quarantine of stream s").rowcount == 8
        connection.settle()
        assert rows(connection, "show quarantine") == []
        counters = record(connection).progress.counters
        assert (counters.rows_dropped, counters.rows_used) == (8, 8)
        assert_accounted(replace(counters))
