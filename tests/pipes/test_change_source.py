"""Sources of tables: history and changes together give what a query with the same parameters returns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace
from headrace.errors import DamagedLogError, OffsetAheadError
from headrace.model.positions import Offsets
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import Event, InsertEvent, rows_of
from headrace.pipes.feeds import Feeds
from headrace.pipes.plugins import PipeContext, Source
from headrace.pipes.shared import Shared
from headrace.pipes.sources import trees
from headrace.settings import load
from tests.pipes.receivers import Points, apply_events
from tests.pipes.recording import described

numbers = count()
devices = st.sampled_from(["d1", "d2", "d10"])
series = st.sampled_from(["a", "b"])
rows = st.lists(st.tuples(st.integers(0, 5), st.integers(-5, 5)), min_size=1, max_size=6, unique_by=lambda row: row[0])
inserts = st.builds(
    lambda device, name, own: f"insert into {{}}.{device}(time, {name}) values {', '.join(f'({t}, {v})' for t, v in own)}",
    devices,
    series,
    rows,
)
deletes = st.builds(
    lambda device, name, low, length: f"delete from {{}}.{device}.{name} where time >= {low} and time <= {low + length}",
    devices,
    series,
    st.integers(0, 4),
    st.integers(0, 4),
)
writes = st.lists(inserts | inserts | deletes, min_size=2, max_size=8)
patterns = st.sampled_from(["{}", "{}.d", "{}.d1", "{}.d1.a", "{}.d2."])
times = st.none() | st.none() | st.none() | st.integers(0, 5)


@pytest.fixture(scope="module", params=[500_000, 3], ids=["small commits", "large commits"])
def connection(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[headrace.Connection]:
    home = load(home=tmp_path_factory.mktemp("home"), driver_rows=request.param)
    with headrace.connect(dialect="iotdb", settings=home) as opened:
        yield opened


def read_all(source: Source, offsets: Offsets, events: list[Event], feeds: Feeds) -> Offsets:
    """Read until there is nothing, acknowledge, and return the offsets."""
    feeds.refresh()
    feeds.poll()
    while source.has_news(offsets):
        batch = source.read(offsets)
        assert batch is not None, "news without a batch"
        again = source.read(offsets, batch.offsets)
        assert again is None or [type(event) for event in again.events] == [type(event) for event in batch.events]
        events += batch.events
        offsets = batch.offsets
        source.acknowledge(offsets)
    assert source.pending(offsets)[0] == 0
    return offsets


def expected(connection: headrace.Connection, database: str, pattern: str, low: int | None, high: int | None) -> Points:
    """Return the points that a query finds."""
    points: Points = {}
    for device in ("d1", "d2", "d10"):
        cursor = connection.cursor()
        cursor.execute(f"select * from {database}.{device} align by device")
        names = [column[0] for column in cursor.description or ()][2:]
        for row in cursor.fetchall():
            time = round(row[0].timestamp() * 1000)
            if (low is None or time >= low) and (high is None or time <= high):
                found: dict[str, Any] = dict(zip(names, row[2:], strict=True))
                points |= {
                    (f"{database}.{device}", time, name): value
                    for name, value in found.items()
                    if value is not None and f"{database}.{device}.{name}".startswith(pattern)
                }
    return points


@pytest.mark.drawn(2)
@given(writes, writes, patterns, times, times, st.booleans())
@settings(max_examples=50, deadline=None)
def test_history_and_changes_are_what_a_query_returns(
    connection: headrace.Connection,
    before: list[str],
    after: list[str],
    pattern: str,
    low: int | None,
    high: int | None,
    restarts: bool,
) -> None:
    if low is not None and high is not None and low > high:
        low, high = high, low
    database = f"root.p{next(numbers)}"
    connection.execute(f"create database {database}")
    context = connection.session.context
    attributes = {"inclusion": "data", "pattern": pattern.format(database)}
    attributes |= {} if low is None else {"start-time": str(low)}
    attributes |= {} if high is None else {"end-time": str(high)}
    for statement in before:
        connection.execute(statement.format(database))
    offsets = trees.begin(PipeAttributes(attributes), context)
    feeds = Feeds(context)
    pipe = PipeContext(context, recorded_job(connection, database), database, shared=Shared(feeds))
    source = trees.create(PipeAttributes(attributes), pipe)
    events: list[Event] = []
    for statement in after:
        connection.execute(statement.format(database))
        if restarts:
            source = trees.create(PipeAttributes(attributes), pipe)
            offsets = read_all(source, offsets, events, feeds)
    read_all(source, offsets, events, feeds)
    received: Points = {}
    apply_events(received, events)
    assert received == expected(connection, database, pattern.format(database), low, high)


def recorded_job(connection: headrace.Connection, name: str) -> str:
    """Record a job that owns the ledger of a history, and return its id."""
    connection.execute(f"create pipe `{name}` with sink ('sink'='do-nothing-sink')")
    return connection.session.context.catalog.jobs.get("", name, "pipe").definition.id


BUSY = "root.a"
BACKLOG = [f"root.{name}" for name in "abcdefgh"]


@pytest.mark.parametrize("driver_rows", [500_000, 15], ids=["small commits", "large commits"])
def test_a_batch_is_bounded_over_all_tables_and_none_waits_for_a_busy_one(tmp_path: Path, driver_rows: int) -> None:
    limit = 10
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path, batch_rows=limit, driver_rows=driver_rows)) as connection:
        for database in BACKLOG:
            connection.execute(f"create database {database}")
        context = connection.session.context
        attributes = PipeAttributes({"inclusion": "data", "history.enable": "false"})
        offsets = trees.begin(attributes, context)
        for database in BACKLOG:
            for first in (0, 4, 8):
                insert(connection, database, range(first, first + 4))
        insert(connection, "root.c", range(20, 40))
        feeds = Feeds(context)
        source = trees.create(attributes, PipeContext(context, recorded_job(connection, "p"), "p", shared=Shared(feeds)))
        waiting = set(BACKLOG) - {BUSY}
        for turn in count():
            insert(connection, BUSY, range(100 + turn * limit, 100 + turn * limit + limit))
            feeds.refresh()
            feeds.poll()
            batch = source.read(offsets)
            assert batch is not None
            again = source.read(offsets, batch.offsets)
            assert [described(event) for event in (again or batch).events] == [described(event) for event in batch.events]
            rows = sum(map(rows_of, batch.events))
            assert rows <= limit or len({event.data.database for event in batch.events if isinstance(event, InsertEvent)}) == 1, (
                "several tables beyond the limit"
            )
            offsets = batch.offsets
            waiting -= {feed.database.name for feed in feeds.trees() if offsets.get(feed.id) == feed.version()}
            if not waiting:
                break
            assert turn < 40, f"waiting for a busy table: {waiting}"


def insert(connection: headrace.Connection, database: str, times: range) -> None:
    """Write rows in one commit."""
    connection.execute(f"insert into {database}.x(time, s) values " + ", ".join(f"({time}, 1)" for time in times))


@pytest.mark.parametrize("lost", ["removed", "emptied"])
def test_a_table_that_has_lost_versions_is_an_error_and_no_reason_to_wait(tmp_path: Path, lost: str) -> None:
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path)) as connection:
        connection.execute("create database root.a")
        insert(connection, "root.a", range(3))
        context = connection.session.context
        attributes = PipeAttributes({"inclusion": "data", "history.enable": "false"})
        offsets, job_id = trees.begin(attributes, context), recorded_job(connection, "p")
        newest = max(tmp_path.rglob("rows/_delta_log/*.json"))
        newest.unlink() if lost == "removed" else newest.write_bytes(b"")
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path)) as connection:
        feeds = Feeds(connection.session.context)
        pipe = PipeContext(connection.session.context, job_id, "p", shared=Shared(feeds))
        source = trees.create(attributes, pipe)
        feeds.refresh()
        feeds.poll()
        assert source.has_news(offsets)
        with pytest.raises(OffsetAheadError if lost == "removed" else DamagedLogError):
            source.read(offsets)


def test_an_unreadable_table_is_logged_once_until_it_can_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with headrace.connect(dialect="iotdb", settings=load(home=tmp_path)) as connection:
        connection.execute("create database root.a")
        insert(connection, "root.a", range(3))
        feeds = Feeds(connection.session.context)
        feeds.refresh()
        feeds.poll()
        newest = max(tmp_path.glob("tables/*/devices/rows/_delta_log/*.json"))
        unreadable = newest.with_name(f"{int(newest.stem) + 1:020}.json")
        for _ in range(2):
            unreadable.mkdir()
            for _ in range(3):
                feeds.poll()
            unreadable.rmdir()
            feeds.poll()
        assert [record.exc_info for record in caplog.records if "cannot read the version" in record.message] == [None, None]
