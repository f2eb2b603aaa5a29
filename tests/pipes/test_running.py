"""Pipes that run: what they deliver over failures of their receiver and deaths of their driver, and how they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace
from headrace.jobs.hosts import Driving
from headrace.model.failpoints import FailpointError, calling
from headrace.model.jobs import JobRecord, JobState
from headrace.pipes import running, shared_sinks
from headrace.pipes.checkpoints import PipeCheckpoint, PipeCheckpoints
from headrace.pipes.events import Event
from headrace.pipes.kind import PIPE
from headrace.pipes.runner import PipeRunner
from headrace.runtime.job_host import JobHost
from headrace.runtime.table_maintenance import maintain
from headrace.settings import load
from tests.pipes.receivers import Points, apply_events
from tests.pipes.recording import RECORDERS, described, recording_sinks
from tests.pipes.test_change_source import expected, writes
from tests.support.waiting import wait_until

numbers = count()
FAILPOINTS = ("pipes.checkpoint.rename", "pipes.processed", "pipes.delivered", "pipes.recorded")
PROCESSORS = ("", "with processor ('processor'='tumbling-time-sampling-processor', 'tumbling-time.interval-seconds'='1')")
deaths = st.lists(st.tuples(st.sampled_from(FAILPOINTS), st.integers(1, 2)), max_size=3)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    home = load(home=tmp_path_factory.mktemp("home"), driver_rows=7)
    with recording_sinks(), headrace.connect(dialect="iotdb", settings=home) as opened:
        yield opened


def pipe_records(connection: headrace.Connection, *names: str) -> list[JobRecord]:
    jobs = connection.session.context.catalog.jobs
    return [jobs.get("", name, PIPE) for name in names]


def run(connection: headrace.Connection, *names: str) -> None:
    """Run pipes by a driver until they have nothing to do."""
    pipes = JobHost(Driving(connection.session.context))
    try:
        pipes.reconcile(pipe_records(connection, *names))
        while pipes.poll(None):
            pass
    finally:
        pipes.close()


def run_and_die(connection: headrace.Connection, name: str, failpoint: str, passage: int) -> None:
    """Run a pipe by a driver that dies when it passes a failpoint, if it does."""

    def die() -> None:
        raise FailpointError(failpoint)

    with calling(failpoint, die, passage), suppress(FailpointError):
        run(connection, name)


@given(writes, st.lists(st.tuples(writes, deaths, st.integers(0, 2)), min_size=1, max_size=3), st.sampled_from(PROCESSORS))
@settings(max_examples=25, deadline=None)
def test_deaths_and_failures_change_nothing_but_repeat_batches(
    connection: headrace.Connection, before: list[str], steps: list[tuple[list[str], list[tuple[str, int]], int]], processor: str
) -> None:
    name = f"p{next(numbers)}"
    database = f"root.{name}"
    connection.execute(f"create database {database}")
    for statement in before:
        connection.execute(statement.format(database))
    for pipe in ("undisturbed", "disturbed"):
        sink = f"'sink'='recording-sink', 'name'='{name}.{pipe}'"
        source = f"'inclusion'='data', 'pattern'='{database}'"
        connection.execute(f"create pipe {name}_{pipe} with source ({source}) {processor} with sink ({sink})")
    for statements, dying, failures in steps:
        for statement in statements:
            connection.execute(statement.format(database))
        for failpoint, passage in dying:
            run_and_die(connection, f"{name}_disturbed", failpoint, passage)
        RECORDERS[f"{name}.disturbed"].failures = failures
        run(connection, f"{name}_disturbed")
    run(connection, f"{name}_undisturbed")
    disturbed, undisturbed = (RECORDERS[f"{name}.{pipe}"].events() for pipe in ("disturbed", "undisturbed"))
    assert by_device(disturbed) == by_device(undisturbed)
    if not processor:
        received: Points = {}
        apply_events(received, disturbed)
        assert received == expected(connection, database, database, None, None)


def test_a_part_of_a_large_commit_that_was_not_delivered_comes_again(connection: headrace.Connection) -> None:
    name = f"p{next(numbers)}"
    database = f"root.{name}"
    connection.execute(f"insert into {database}.d1(time, a) values (1, 1), (2, 2), (3, 3), (4, 4)")
    sink = f"'sink'='recording-sink', 'name'='{name}'"
    connection.execute(f"create pipe {name} with source ('pattern'='{database}', 'history.enable'='false') with sink ({sink})")
    # Four updates, which have eight rows in the change feed, and two new rows: more than the driver takes at once.
    connection.execute(f"insert into {database}.d1(time, a) values (1, 5), (2, 6), (3, 7), (4, 8), (5, 9), (6, 10)")
    RECORDERS[name].failures = 1
    run(connection, name)
    assert RECORDERS[name].failures == 0
    values = {time: row["a"] for rows in by_device(RECORDERS[name].events()).values() for _, time, row in rows}
    assert values == {time: time + 4 for time in range(1, 7)}


def test_checkpoints_that_a_restored_catalog_knows_nothing_of_are_forgotten(connection: headrace.Connection) -> None:
    name = f"p{next(numbers)}"
    database, context = f"root.{name}", connection.session.context
    connection.execute(f"create database {database}")
    sink = f"'sink'='recording-sink', 'name'='{name}'"
    connection.execute(f"create pipe {name} with source ('pattern'='{database}', 'history.enable'='false') with sink ({sink})")
    (record,) = pipe_records(connection, name)
    lost = PipeCheckpoints(context.state_uri, record.definition.id, 0)
    for batch in range(2, 5):
        lost.write(PipeCheckpoint(batch, {}))
    for time in range(5):
        connection.execute(f"insert into {database}.d1(time, a) values ({time}, 1)")
        run(connection, name)
    rows = by_device(RECORDERS[name].events())[f"{database}.d1"]
    assert [time for _, time, _ in rows] == [0, 1, 2, 3, 4]


def by_device(events: Sequence[Event]) -> dict[str, list[Any]]:
    """Return what happens to the rows of each device, in order, however it is divided into events."""
    rows: dict[str, list[Any]] = defaultdict(list)
    for event in events:
        kind, own = described(event)
        for device, time, values in own:
            rows[device].append((kind, time, values))
    return rows


def create_pair(connection: headrace.Connection, sinks: tuple[str, str]) -> tuple[str, str, str]:
    """Create a database with a row, and two pipes; return their names."""
    name = f"p{next(numbers)}"
    connection.execute(f"insert into root.{name}.d(time, a) values (1, 1)")
    for pipe, sink in zip("xy", sinks, strict=True):
        source = f"'path'='root.{name}.**'"
        connection.execute(f"create pipe {name}{pipe} with source ({source}) with sink ('sink'='recording-sink', {sink})")
    return name, f"{name}x", f"{name}y"


def test_pipes_with_equal_sinks_share_one_that_the_last_user_closes(connection: headrace.Connection) -> None:
    sink = f"'name'='shared{next(numbers)}'"
    _, first, second = create_pair(connection, (sink, sink))
    recorder = RECORDERS[sink.split("'")[3]]
    connected = recorder.connections
    pipes = JobHost(Driving(connection.session.context))
    pipes.reconcile(pipe_records(connection, first, second))
    while pipes.poll(None):
        pass
    assert (recorder.connections - connected, recorder.closed - connected) == (1, 0)
    pipes.reconcile(pipe_records(connection, first))
    assert recorder.closed - connected == 0
    pipes.close()
    assert recorder.closed - connected == 1
    assert len(recorder.deliveries) == 2


def test_a_receiver_that_stays_away_stops_the_pipes_that_use_it_and_no_others(connection: headrace.Connection) -> None:
    sink, other = (f"'name'='down{next(numbers)}'" for _ in range(2))
    database, first, second = create_pair(connection, (sink, sink))
    _, third, _ = create_pair(connection, (other, other))
    RECORDERS[sink.split("'")[3]].failures = 100
    RECORDERS[sink.split("'")[3]].terminal = True
    run(connection, first, second, third)
    records = pipe_records(connection, first, second, third)
    assert [record.state for record in records] == [JobState.STOPPED, JobState.STOPPED, JobState.RUNNING]
    assert {record.reason.message for record in records if record.reason is not None} == {"the receiver is away"}
    events = [connection.session.context.catalog.events.all("job", record.definition.id) for record in records[:2]]
    assert sum(event.kind == "SINK_DOWN" for own in events for event in own) == 1
    RECORDERS[sink.split("'")[3]].failures = 0
    for pipe in (first, second):
        connection.execute(f"start pipe {pipe}")
    connection.execute(f"insert into root.{database}.d(time, a) values (2, 2)")
    run(connection, first, second)
    assert [record.reason for record in pipe_records(connection, first, second)] == [None, None]
    received: Points = {}
    apply_events(received, RECORDERS[sink.split("'")[3]].deliveries[-1].events)
    assert received == {(f"root.{database}.d", 2, "a"): 2.0}


def test_a_receiver_that_does_not_answer_heartbeats_is_shown(
    connection: headrace.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_sinks, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(running, "BEAT_CHECK_S", 0.0)
    sink = f"'name'='beaten{next(numbers)}'"
    recorder = RECORDERS[sink.split("'")[3]]
    _, first, second = create_pair(connection, (sink, sink))
    pipes = JobHost(Driving(connection.session.context))
    pipes.reconcile(pipe_records(connection, first, second))
    while pipes.poll(None):
        pass

    def messages() -> list[str]:
        pipes.poll(0)
        return [str(connection.execute(f"show pipe {pipe}").fetchall()[0][6]) for pipe in (first, second)]

    recorder.is_away = True
    wait_until(lambda: all("the receiver is away" in message for message in messages()), "both pipes to say so")
    states = [connection.execute(f"show pipe {pipe}").fetchall()[0][2] for pipe in (first, second)]
    assert (states, recorder.connections > 1) == (["RUNNING", "RUNNING"], True)
    recorder.is_away = False
    wait_until(lambda: messages() == ["", ""], "both pipes to say nothing")
    pipes.close()


def test_maintenance_keeps_what_a_pipe_has_yet_to_read(connection: headrace.Connection) -> None:
    name = f"kept{next(numbers)}"
    connection.execute(f"insert into root.{name}.d1(time, a) values (1, 1), (2, 2)")
    source = f"'inclusion'='data', 'pattern'='root.{name}'"
    connection.execute(f"create pipe {name} with source ({source}) with sink ('sink'='recording-sink', 'name'='{name}')")
    run(connection, name)
    connection.execute(f"insert into root.{name}.d1(time, a) values (1, 5)")
    connection.execute(f"delete from root.{name}.d1.a where time = 2")
    (result,) = maintain(connection.session.context, f"root.{name}", retention_hours=0)
    assert result.kept.endswith(f"are kept for pipe {name}")
    run(connection, name)
    received: Points = {}
    apply_events(received, RECORDERS[name].events())
    assert received == {(f"root.{name}.d1", 1, "a"): 5.0}


def test_a_snapshot_ends_with_its_history_and_drops_itself(connection: headrace.Connection) -> None:
    name = f"p{next(numbers)}"
    connection.execute(f"insert into root.{name}.d(time, a) values (1, 1)")
    source = f"'path'='root.{name}.**', 'mode'='snapshot'"
    connection.execute(f"create pipe {name} with source ({source}) with sink ('sink'='recording-sink', 'name'='{name}')")
    connection.execute(f"insert into root.{name}.d(time, a) values (2, 1)")
    connection.settle()
    assert connection.session.context.catalog.jobs.find("", name, PIPE) is None
    received: Points = {}
    apply_events(received, RECORDERS[name].events())
    assert received == {(f"root.{name}.d", 1, "a"): 1.0}


def test_a_pipe_to_the_trees_of_this_catalog_ends_in_what_it_reads(tmp_path: Path) -> None:
    with headrace.connect(tmp_path, dialect="iotdb") as connection:
        connection.execute("create aligned timeseries root.a.d(s INT32, t TEXT)")
        connection.execute("insert into root.a.d(time, s, t) aligned values (1, 1, 'x'), (2, 2, null)")
        connection.execute("create pipe p with source ('path'='root.a.**') with sink ('sink'='write-back-sink')")
        connection.settle()
        connection.execute("insert into root.a.d(time, s, t) aligned values (2, 3, 'y')")
        connection.settle()
        (record,) = pipe_records(connection, "p")
        assert (record.state, record.progress.counters.rows_out) == (JobState.RUNNING, 3)
        cursor = connection.cursor()
        cursor.execute("select s, t from root.a.d")
        assert [row[1:] for row in cursor.fetchall()] == [(1, "x"), (3, "y")]


def test_the_number_of_points_is_written_back(tmp_path: Path) -> None:
    with headrace.connect(tmp_path, dialect="iotdb", clock=headrace.ManualClock(5000)) as connection:
        connection.execute("insert into root.a.d(time, s, t) values (1, 1, 'x'), (2, 2, null)")
        connection.execute(
            "create pipe p with source ('path'='root.a.**') "
            "with processor ('processor'='count-point-processor', 'output-series'='root.counts.p.points') "
            "with sink ('sink'='write-back-sink')"
        )
        connection.settle()
        assert [row[1:] for row in connection.execute("select points from root.counts.p").fetchall()] == [(3,)]


def test_pipes_of_other_owners_do_not_write_with_the_rights_of_the_first(tmp_path: Path) -> None:
    with headrace.connect(tmp_path, dialect="iotdb") as connection:
        connection.execute("create pipe p with source ('path'='root.a.**') with sink ('sink'='write-back-sink')")
        (first,) = pipe_records(connection, "p")
        others = [
            replace(first, definition=replace(first.definition, id=id, name=id, owner=owner))
            for id, owner in (("q", first.definition.owner), ("r", connection.session.context.catalog.access.trust("eve")))
        ]
        for record in others:
            connection.session.context.catalog.jobs.create(record.definition, progress=record.progress)
        pipes = JobHost(Driving(connection.session.context))
        try:
            pipes.reconcile(pipe_records(connection, "p", "q", "r"))
            while pipes.poll(None):
                pass
            sinks = {job.id: job.runner.sink for job in pipes.jobs if isinstance(job.runner, PipeRunner)}
        finally:
            pipes.close()
    assert sinks[first.definition.id] is sinks["q"]
    assert sinks["r"] is not sinks["q"]
