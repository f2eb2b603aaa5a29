"""The source `table-source`: what arrives of tables, also of one that is dropped and created again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.jobs.hosts import Driving
from headrace.model.jobs import JobState
from headrace.pipes.kind import PIPE
from headrace.runtime.job_host import JobHost
from headrace.runtime.table_maintenance import maintain
from headrace.settings import load
from tests.pipes.receivers import Points, apply_events
from tests.pipes.recording import RECORDERS, described, recording_sinks
from tests.pipes.test_running import pipe_records, run

CREATE = "create table power.meters (ts timestamp, {}) tags (site int)"
PIPE_OF_METERS = (
    "create pipe out with source ('source'='table-source', 'database'='power', 'table'='meters', 'inclusion'='data') "
    "with sink ('sink'='recording-sink', 'name'='meters')"
)


@pytest.fixture
def trees(tmp_path: Path) -> Iterator[headrace.Connection]:
    with recording_sinks(), headrace.connect(dialect="iotdb", settings=load(home=tmp_path)) as opened:
        RECORDERS.pop("meters", None)
        yield opened


@pytest.fixture
def tables(tmp_path: Path, trees: headrace.Connection) -> Iterator[headrace.Connection]:  # noqa: ARG001
    with headrace.connect(settings=load(home=tmp_path)) as opened:
        opened.execute("create database power")
        opened.execute(CREATE.format("watts double"))
        yield opened


def insert(tables: headrace.Connection, time: int, value: str) -> None:
    tables.execute(f"insert into power.d1 using power.meters tags (1) values ({time}, {value})")


def received() -> Points:
    points: Points = {}
    apply_events(points, RECORDERS["meters"].events())
    return points


def test_a_table_that_is_created_again_is_transferred_from_its_beginning(
    trees: headrace.Connection, tables: headrace.Connection
) -> None:
    for time in range(4):
        insert(tables, time, "1.5")
    trees.execute(PIPE_OF_METERS)
    run(trees, "out")
    assert len(received()) == 4

    tables.execute("drop stable power.meters")
    run(trees, "out")
    tables.execute(CREATE.format("amperes int"))
    insert(tables, 10, "7")
    run(trees, "out")
    insert(tables, 11, "8")
    run(trees, "out")

    (record,) = pipe_records(trees, "out")
    assert record.state is JobState.RUNNING
    assert {point: value for point, value in received().items() if point[1] >= 10} == {
        ("root.power.meters.d1", 10, "amperes"): 7,
        ("root.power.meters.d1", 11, "amperes"): 8,
    }


def test_a_driver_that_runs_follows_the_new_table(trees: headrace.Connection, tables: headrace.Connection) -> None:
    insert(tables, 1, "1.5")
    trees.execute(PIPE_OF_METERS)
    pipes = JobHost(Driving(trees.session.context))
    try:
        for statement in ("", "drop stable power.meters", CREATE.format("watts float")):
            if statement:
                tables.execute(statement)
            if not statement.startswith("drop "):
                insert(tables, 2, "2.5")
            pipes.reconcile(pipe_records(trees, "out"))
            while pipes.poll(None):
                pass
    finally:
        pipes.close()
    (record,) = pipe_records(trees, "out")
    assert (record.state, record.reason) == (JobState.RUNNING, None)
    values = [row for event in RECORDERS["meters"].events() for row in described(event)[1]]
    assert values == [("root.power.meters.d1", time, {"watts": value}) for time, value in ((1, 1.5), (2, 2.5), (2, 2.5))]


def test_maintenance_keeps_what_was_never_read_of_later_tables_and_trees(
    trees: headrace.Connection, tables: headrace.Connection
) -> None:
    trees.execute(PIPE_OF_METERS)
    trees.execute("create pipe all_trees with source ('inclusion'='data') with sink ('sink'='do-nothing-sink')")
    tables.execute("drop stable power.meters")
    tables.execute(CREATE.format("watts double"))
    trees.execute("insert into root.later.d(time, a) values (1, 1), (2, 2)")
    for value in ("1.5", "2.5"):
        insert(tables, 1, value)
    trees.execute("insert into root.later.d(time, a) values (1, 5)")
    results = {result.table: result.kept for result in maintain(trees.session.context, retention_hours=0)}
    assert results["power.meters"] == "files since version 0 are kept for pipe out"
    assert results["root.later.devices"] == "files since version 0 are kept for pipe all_trees"
    run(trees, "out", "all_trees")
    assert received() == {("root.power.meters.d1", 1, "watts"): 2.5}
    assert [record.state for record in trees.session.context.catalog.jobs.all(kind=PIPE)] == [JobState.RUNNING] * 2
