"""A pipe transfers what its owner may read at that time, and stops when that is nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.model.jobs import JobState
from headrace.pipes.events import InsertEvent
from headrace.pipes.selection import Pattern, PrefixPattern
from headrace.pipes.sources.patterns import iotdb_pattern
from headrace.pipes.sources.trees import above
from tests.pipes.receivers import Points, apply_events
from tests.pipes.recording import RECORDERS, recording_sinks
from tests.pipes.test_running import pipe_records, run

PASSWORD = "secret12"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def root(home: Path) -> Iterator[headrace.Connection]:
    with recording_sinks(), headrace.connect(home, dialect="iotdb") as connection:
        connection.execute(f"create user carrier '{PASSWORD}'")
        connection.execute("grant use_pipe on root.** to user carrier")
        insert(connection, 1)
        yield connection


def insert(root: headrace.Connection, time: int) -> None:
    for device in ("d1", "d2"):
        root.execute(f"insert into root.plant.{device}(time, a, b) values ({time}, {time}, {time})")


def create(home: Path, name: str, source: str = "'path'='root.plant.**'") -> None:
    with headrace.connect(home, dialect="iotdb", user="carrier", password=PASSWORD) as carrier:
        carrier.execute(f"create pipe {name} with source ({source}) with sink ('sink'='recording-sink', 'name'='{name}')")


def received(name: str) -> set[tuple[str, int, str]]:
    points: Points = {}
    apply_events(points, [event for event in RECORDERS[name].events() if isinstance(event, InsertEvent)])
    return {(device.removeprefix("root.plant."), time, measurement) for device, time, measurement in points}


def test_series_that_the_owner_may_not_read_do_not_exist_for_the_pipe(root: headrace.Connection, home: Path) -> None:
    root.execute("grant read_data on root.plant.d1.** to user carrier")
    root.execute("grant read_data on root.plant.d2.b to user carrier")
    create(home, "granted")
    run(root, "granted")
    assert received("granted") == {("d1", 1, "a"), ("d1", 1, "b"), ("d2", 1, "b")}
    root.execute("revoke read_data on root.plant.d1.** from user carrier")
    root.execute("grant read_data on root.plant.d2.a to user carrier")
    insert(root, 2)
    run(root, "granted")
    assert received("granted") - {("d1", 1, "a"), ("d1", 1, "b"), ("d2", 1, "b")} == {("d2", 2, "a"), ("d2", 2, "b")}


def test_a_pipe_whose_owner_may_read_nothing_stops_and_says_why(root: headrace.Connection, home: Path) -> None:
    root.execute("grant read_data on root.plant.** to user carrier")
    create(home, "lost")
    run(root, "lost")
    root.execute("revoke read_data on root.plant.** from user carrier")
    root.execute("grant read_data on root.other.** to user carrier")
    insert(root, 2)
    run(root, "lost")
    (record,) = pipe_records(root, "lost")
    assert (record.state, {time for _, time, _ in received("lost")}) == (JobState.STOPPED, {1})
    assert record.reason is not None
    assert record.reason.message == "the owner carrier has no privilege READ_DATA on [root.plant.**]"


def test_statements_need_the_right_to_read_the_schema(root: headrace.Connection, home: Path) -> None:
    root.execute("grant read on root.plant.** to user carrier")
    create(home, "schema", "'path'='root.plant.**', 'inclusion'='data,schema'")
    root.execute("revoke read_schema on root.plant.** from user carrier")
    run(root, "schema")
    (record,) = pipe_records(root, "schema")
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    assert "READ_SCHEMA on [root.plant.**]" in record.reason.message
    root.execute("grant read_schema on root.plant.** to user carrier")
    root.execute("start pipe schema")
    run(root, "schema")
    assert {device for device, _, _ in received("schema")} == {"d1", "d2"}


def test_statements_about_users_need_the_right_to_manage_them(root: headrace.Connection, home: Path) -> None:
    root.execute("grant read, manage_user on root.** to user carrier")
    create(home, "users", "'path'='root.plant.**', 'inclusion'='data,auth.user'")
    root.execute("revoke manage_user on root.** from user carrier")
    run(root, "users")
    (record,) = pipe_records(root, "users")
    assert record.reason is not None
    assert record.reason.message == "the owner carrier has no privilege MANAGE_USER"


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (PrefixPattern("root"), "root"),
        (PrefixPattern("root.pl"), "root"),
        (PrefixPattern("root.plant."), "root.plant"),
        (PrefixPattern("root.plant.`a.b`"), "root.plant"),
        (iotdb_pattern("root.`plant.1`.`a*b`.*"), "root.`plant.1`.`a*b`"),
        (iotdb_pattern("root.plant.**"), "root.plant"),
        (iotdb_pattern("root.*.d1.a"), "root"),
        (iotdb_pattern("root.plant.d1.a"), "root.plant.d1"),
    ],
)
def test_all_series_of_a_pattern_are_below_a_path(pattern: Pattern, path: str) -> None:
    assert above(pattern) == path
