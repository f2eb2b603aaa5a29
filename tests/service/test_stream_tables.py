"""`ins_streams` and `ins_stream_tasks`, whose columns are those of TDengine."""

from __future__ import annotations

from typing import Any

import pytest

import headrace
from headrace.errors import EgressDeniedError
from headrace.model.jobs import JobState, StopReason
from headrace.streams.kind import STREAM
from headrace.web.view import job_detail

START = 1_700_000_000_000

STREAM_COLUMNS = """
stream_name create_time stream_id history_id sql status source_db target_db target_table watermark trigger sink_quota
checkpoint_interval checkpoint_backup history_scan_idle message
"""
TASK_COLUMNS = """
stream_name task_id node_type node_id level status stage in_queue process_total process_throughput out_total out_throughput
info start_time start_id start_ver checkpoint_time checkpoint_id checkpoint_ver checkpoint_size checkpoint_backup extra_info
history_task_id history_task_status notify_event_stat
"""


def select(connection: headrace.Connection, columns: str, table: str = "ins_streams") -> list[tuple[Any, ...]]:
    return connection.execute(f"select {columns} from information_schema.{table}").fetchall()


@pytest.fixture
def stream(readings: headrace.Connection) -> headrace.Connection:
    readings.execute(
        "create stream s trigger at_once watermark 5s into o "
        "as select _wstart, count(*) n from readings partition by tbname interval(1m)"
    )
    return readings


def test_the_columns_are_those_of_tdengine(stream: headrace.Connection) -> None:
    for table, columns in (("ins_streams", STREAM_COLUMNS), ("ins_stream_tasks", TASK_COLUMNS)):
        description = stream.execute(f"select * from information_schema.{table}").description
        assert description is not None
        assert [name for name, *_ in description] == columns.split()


def test_a_stream_is_described_in_the_words_of_tdengine(stream: headrace.Connection) -> None:
    columns = "stream_name, status, source_db, target_db, target_table, `watermark`, `trigger`, sink_quota, message"
    assert select(stream, columns) == [("s", "init", "d", "d", "o", 5000, "at once", "0", "")]
    ((stream_id, history_id),) = select(stream, "stream_id, history_id")
    assert (stream_id[:2], len(stream_id), history_id) == ("0x", 18, None)


def test_the_status_follows_the_stream(stream: headrace.Connection) -> None:
    stream.execute(f"insert into dev1 values ({START}, 1, 1)")
    stream.settle()
    assert select(stream, "status") == [("ready",)]
    stream.execute("pause stream s")
    assert select(stream, "status") == [("paused",)]
    stream.execute("resume stream s")
    job = stream.session.context.catalog.jobs.get("d", "s", STREAM).definition.id
    stream.session.context.catalog.jobs.set_state(job, JobState.STOPPED, StopReason("DATA", "too large", "cast it", START))
    assert select(stream, "status, message") == [("failed", "[DATA] too large (cast it)")]
    stream.session.context.catalog.jobs.set_state(job, JobState.STOPPED, StopReason("X", "lost", "wait", START, transient=True))
    assert select(stream, "status") == [("recover",)]


def test_a_task_shows_rows_and_checkpoint(stream: headrace.Connection) -> None:
    stream.execute(f"insert into dev1 values ({START}, 1, 1) ({START + 1}, 2, 2)")
    stream.settle()
    columns = "stream_name, node_type, node_id, process_total, out_total, checkpoint_id, in_queue, history_task_id"
    assert select(stream, columns, "ins_stream_tasks") == [("s", "snode", 1, "2 rows", "1 rows", 1, "0 rows", None)]
    assert select(stream, "checkpoint_ver is not null and stage is not null", "ins_stream_tasks") == [(True,)]


def test_each_origin_of_a_virtual_table_has_a_task(readings: headrace.Connection) -> None:
    readings.execute("create table p (ts timestamp, volts int)")
    readings.execute(f"insert into dev1 values ({START}, 1, 1)")
    readings.execute("create vtable v (ts timestamp, a int from dev1.a, volts int from p.volts)")
    readings.execute("create stream w into both as select _wstart, sum(a) a, sum(volts) volts from v interval(1m)")
    readings.execute(f"insert into p values ({START}, 1)")
    readings.settle()
    columns = "level, info, start_ver, checkpoint_ver"
    tasks = select(readings, columns, "ins_stream_tasks")
    assert tasks == [("source", "d.readings", None, 1), ("source", "d.p", None, 1), ("agg", "", None, None)]
    assert len(set(select(readings, "task_id", "ins_stream_tasks"))) == 3


@pytest.mark.parametrize("scheme", ["wss", "https"])
def test_addresses_of_notifications_are_shown_without_their_secrets(readings: headrace.Connection, scheme: str) -> None:
    sql = (
        "create stream s into o as select _wstart, count(*) n from readings partition by tbname interval(1m) "
        f"notify ('{scheme}://user:password@h.example/a?token=secret') on ('window_close')"
    )
    readings.execute(sql)
    catalog = readings.session.context.catalog
    record = catalog.jobs.get("d", "s", STREAM)
    shown = [
        *(sql for table in ("ins_streams", "ins_stream_progress") for (sql,) in select(readings, "`sql`", table)),
        job_detail(catalog, record, START)["sql"],
    ]
    assert shown == [sql.replace("user:password@", "*" * 14).replace("a?token=secret", "*" * 14)] * 3
    assert readings.execute("show create stream s").fetchall() == [("s", sql)]


def test_notifications_go_to_allowed_hosts_only(readings: headrace.Connection) -> None:
    settings = readings.session.context.settings.replace({"egress": "*.example.com"})
    statement = (
        "create or replace stream s into o as select _wstart, count(*) n from readings interval(1m) "
        "notify ('ws://{host}') on ('window_open')"
    )
    with headrace.connect(settings=settings, database="d") as connection:
        with pytest.raises(EgressDeniedError, match="HEADRACE_EGRESS does not allow notify at ws://example") as error:
            connection.execute(statement.format(host="example.org"))
        assert error.value.hint == "the administrator can list it in HEADRACE_EGRESS"
        connection.execute(statement.format(host="a.example.com"))
        with pytest.raises(EgressDeniedError):
            connection.execute(statement.format(host="example.org"))
