"""Compacting and vacuuming while streams run."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.context import Context
from headrace.errors import HistoryGoneError
from headrace.model.clock import ManualClock
from headrace.model.jobs import JobProgress
from headrace.model.ledger import EARLIER, Chunk
from headrace.model.positions import Position, source_id
from headrace.model.statements import CreateStream
from headrace.model.tables import ColumnReference, Table, TableKind
from headrace.runtime.table_maintenance import maintain
from headrace.sql import parse
from headrace.storage.delta import history
from headrace.storage.delta.handles import rows_uri
from headrace.storage.delta.history import history_properties
from headrace.streams import lifecycle
from headrace.streams.definition.define import define
from tests.runtime.meters import DATABASE, METERS, START, Meters, readings


@pytest.fixture
def meters(context: Context) -> Meters:
    made = Meters.create(context)
    for number in range(6):
        made.write(readings(5, seed=number, start=START + number * 100_000))
    return made


def test_small_files_are_compacted_and_old_ones_removed(meters: Meters) -> None:
    (done,) = maintain(meters.context, "db", retention_hours=0)
    assert (done.table, done.compacted) == ("db.meters", 6)
    assert done.removed >= 6
    rows = meters.context.tables.scan(METERS)
    assert rows.num_rows == len(meters.stored)


def test_files_that_a_stream_has_yet_to_read_are_kept(meters: Meters) -> None:
    meters.create_stream("FILL_HISTORY 1")
    boundary = meters.context.tables.version(METERS)
    meters.write(readings(5, seed=9, start=START + 900_000))
    done = {each.table: each for each in maintain(meters.context, retention_hours=0)}
    assert done["db.meters"].compacted == 7
    assert done["db.meters"].removed == 0
    assert done["db.meters"].kept == f"files since version {boundary} are kept for stream db.s"
    assert meters.context.tables.changes.read(METERS, boundary + 1, boundary + 1).num_rows == 5


def test_what_was_replaced_before_the_oldest_offset_goes_though_a_stream_is_behind(meters: Meters) -> None:
    context, tables = meters.context, meters.context.tables
    stream = meters.create_stream("TRIGGER AT_ONCE")
    compacted = tables.maintenance.compact(METERS)
    offset = tables.version(METERS)
    context.catalog.jobs.set_progress(stream, JobProgress(Position(1, {source_id("db", "meters"): offset})))
    first, second = list(meters.stored)[:2]
    meters.write([(*first, 1_000)])
    meters.write([(*second, 2_000)])
    meters.delete(first[0], first[1], first[1])
    written = tables.version(METERS)
    unread = changes(meters, offset, written)
    (done, _) = maintain(context, retention_hours=0)
    assert done.removed == compacted
    assert changes(meters, offset, written) == unread
    assert tables.scan(METERS, version=offset).num_rows == 30


def test_each_origin_of_a_virtual_table_keeps_what_a_stream_has_yet_to_read(meters: Meters) -> None:
    context, tables = meters.context, meters.context.tables
    pump = Table("db", "pump", METERS.columns, kind=TableKind.PLAIN)
    tables.create(pump, DATABASE)
    context.catalog.tables.create(pump)
    virtual = replace(pump, name="virtual", columns=(*pump.columns, replace(pump.columns[1], name="flow")), is_virtual=True)
    references = [ColumnReference("virtual", "v", METERS.id, "m1", "v"), ColumnReference("virtual", "flow", pump.id, "pump", "v")]
    context.catalog.virtual_tables.create(virtual, references)
    statement = parse("CREATE STREAM s INTO out AS SELECT _wstart, sum(v), sum(flow) FROM virtual INTERVAL(1m)")
    assert isinstance(statement, CreateStream)
    plan = define(statement, context.catalog, "db")
    lifecycle.create(context, plan, plan.definition(created=0))
    offsets = {source_id("db", "meters"): tables.version(METERS), source_id("db", "pump"): 0}
    assert context.catalog.jobs.by_id(plan.id).offsets == offsets
    meters.write(readings(5, seed=9, start=START + 900_000))
    kept = {each.table: each.kept for each in maintain(context, retention_hours=0)}
    assert kept == {
        "db.meters": f"files since version {offsets['db.meters']} are kept for stream db.s",
        "db.out": "",
        "db.pump": "",
    }


def changes(meters: Meters, offset: int, last: int) -> list[object]:
    """What a stream at an offset reads: updates and deletes, from change files."""
    rows: list[object] = meters.context.tables.changes.read(METERS, offset + 1, last).to_pylist()
    assert rows
    return rows


def test_change_files_of_unread_commits_outlive_a_full_vacuum(meters: Meters, monkeypatch: pytest.MonkeyPatch) -> None:
    context, tables = meters.context, meters.context.tables
    stream = meters.create_stream("TRIGGER AT_ONCE")
    offset = tables.version(METERS)
    context.catalog.jobs.set_progress(stream, JobProgress(Position(1, {source_id("db", "meters"): offset})))
    (name, time), *_ = meters.stored
    meters.write([(name, time, 1_000)])
    written = tables.version(METERS)
    unread = changes(meters, offset, written)
    monkeypatch.setattr(history, "MAX_LOAD_HOURS", 0)
    tables.maintenance.vacuum(METERS, 0, offset)
    assert changes(meters, offset, written) == unread
    tables.maintenance.vacuum(METERS, 0)
    with pytest.raises(HistoryGoneError):
        changes(meters, offset, written)


def age_log(meters: Meters, hours: int) -> None:
    """Make all log entries of the source older."""
    for entry in (Path(rows_uri(meters.context.tables.uri, METERS)) / "_delta_log").glob("*.json"):
        time = entry.stat().st_mtime - hours * 3_600
        os.utime(entry, (time, time))


def test_history_is_kept_for_a_stream_that_is_behind_up_to_a_limit_that_is_told_before(meters: Meters) -> None:
    context, tables = meters.context, meters.context.tables
    stream = meters.create_stream("TRIGGER AT_ONCE")
    offset = tables.version(METERS)
    context.catalog.jobs.set_progress(stream, JobProgress(Position(1, {source_id("db", "meters"): offset})))
    (name, time), *_ = meters.stored
    meters.write([(name, time, 1_000)])

    def events() -> list[str]:
        return [event.kind for event in context.catalog.events.all("job", stream) if event.kind.startswith("HISTORY")]

    age_log(meters, 50)
    maintain(context)
    assert events() == []
    age_log(meters, 50)
    maintain(context)
    assert events() == ["HISTORY_HELD"]
    assert tables.changes.read(METERS, offset + 1, offset + 1).num_rows == 2
    age_log(meters, 100)
    (done, _) = maintain(context)
    assert (events(), done.kept) == (["HISTORY_GONE", "HISTORY_HELD"], "")
    with pytest.raises(HistoryGoneError, match="FILL_HISTORY 1"):
        tables.changes.read(METERS, offset + 1, offset + 1)


def test_an_existing_table_gets_the_properties_of_its_history(meters: Meters) -> None:
    handle = meters.context.tables._handles.writer(METERS)
    with handle.latest() as delta:
        delta.alter.set_table_properties({"delta.enableExpiredLogCleanup": "true"})
    maintain(meters.context)
    with handle.latest() as delta:
        assert history_properties().items() <= delta.metadata().configuration.items()


def test_a_table_that_cannot_be_maintained_is_skipped(meters: Meters) -> None:
    meters.context.tables.drop(METERS)
    assert maintain(meters.context) == []


def test_maintenance_forgets_runs_that_have_ended_before_those_of_airflow_that_are_kept(meters: Meters) -> None:
    stream, ledger = meters.create_stream("FILL_HISTORY 1"), meters.context.catalog.ledger
    ledger.plan(stream, "again", [Chunk(stream, "again", 0, 0, 10, 1)])
    ledger.claim(stream, "again", 0)
    ledger.finish(stream, "again", 0)
    maintain(meters.context)
    assert len(ledger.chunks(stream, "again")) == 1
    clock = ManualClock(meters.context.clock.now() + (meters.context.settings.keep_runs_days + 1) * 86_400_000)
    maintain(replace(meters.context, clock=clock))
    assert ledger.chunks(stream, "again") == []
    assert [(chunk.start, chunk.end) for chunk in ledger.chunks(stream, EARLIER)] == [(0, 10)]
