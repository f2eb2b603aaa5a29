"""CREATE OR REPLACE STREAM, ALTER STREAM and RESET STREAM."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.errors import Error, InternalError, InvalidStreamError, NotFoundError, NotSupportedError
from headrace.jobs.hosts import Driving
from headrace.model.failpoints import FailpointError, armed
from headrace.model.jobs import DesiredState, JobRecord
from headrace.runtime.job_host import JobHost
from headrace.streams.kind import STREAM

START = 1_700_000_000_000
MINUTE = 60_000
SUMS = "trigger at_once into o as select _wstart, sum(a) total from m interval(1m)"

pytestmark = pytest.mark.spark


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(tmp_path / "home", clock=headrace.ManualClock(START)) as opened:
        opened.execute("create database d")
        opened.execute("use d")
        opened.execute("create stable m (ts timestamp, a int) tags (g int)")
        opened.execute("create table m1 using m tags (1) m2 using m tags (2)")
        yield opened


def rows(connection: headrace.Connection, sql: str) -> list[tuple[object, ...]]:
    connection.settle()
    return connection.execute(sql).fetchall()


def execute_and_settle(connection: headrace.Connection, sql: str) -> None:
    connection.execute(sql)
    connection.settle()


def job(connection: headrace.Connection) -> JobRecord:
    return connection.session.context.catalog.jobs.get("d", "s", STREAM)


def plan_text(connection: headrace.Connection, sql: str) -> str:
    return "\n".join(row[0] for row in connection.execute(f"explain {sql}").fetchall())


def test_options_change_in_place_and_decide_on_later_rows(connection: headrace.Connection) -> None:
    connection.execute(f"create stream s {SUMS}")
    connection.execute(f"insert into m1 values ({START}, 1) ({START + 5 * MINUTE}, 2)")
    connection.execute(f"insert into m1 values ({START}, 100)")
    assert rows(connection, "select total from o order by _wstart") == [(1,), (2,)], "the late row has expired"
    before = job(connection)
    connection.execute("alter stream s ignore expired 0 ignore update 0")
    after = job(connection)
    assert (after.definition.id, after.progress.position) == (before.definition.id, before.progress.position)
    assert connection.execute("show create stream s").fetchall()[0][1] == (
        "CREATE STREAM s TRIGGER AT_ONCE IGNORE EXPIRED 0 IGNORE UPDATE 0 INTO o "
        "AS SELECT _wstart, sum(a) AS total FROM m INTERVAL(1m)"
    )
    connection.execute(f"insert into m1 values ({START + 2 * MINUTE}, 10) ({START + 5 * MINUTE}, 20)")
    assert rows(connection, "select total from o order by _wstart") == [(1,), (10,), (20,)]


@pytest.mark.parametrize(
    "window",
    [
        "interval(1m)",
        "session(ts, 30s)",
        "partition by tbname state_window(a)",
        "partition by tbname event_window start with a > 0 end with a > 2",
    ],
)
def test_a_stream_whose_watermark_changes_equals_its_query_once_its_windows_are_closed(
    connection: headrace.Connection, window: str
) -> None:
    query = f"select _wstart, count(*) n, sum(a) total from m {window}"
    connection.execute(f"create stream s trigger window_close ignore expired 0 ignore update 0 into o as {query}")
    for step, change in enumerate((None, "watermark 3m", None, "watermark 0a", None)):
        if change is not None:
            connection.execute(f"alter stream s {change}")
        at = START + step * 2 * MINUTE
        connection.execute(f"insert into m1 values ({at}, 1) ({at + 20_000}, 3) ({at + 90_000}, 1) ({at + 95_000}, 3)")
        connection.execute(f"insert into m1 values ({at - MINUTE}, 2) ({at + 21_000}, 3) m2 values ({at + 1000}, 3)")
        connection.settle()
    connection.execute(f"insert into m1 values ({START + 60 * MINUTE}, 9) m2 values ({START + 60 * MINUTE}, 9)")
    connection.settle()
    assert connection.verify(stream="d.s").equal


def test_altering_to_the_same_options_changes_nothing(connection: headrace.Connection) -> None:
    connection.execute(f"create stream s {SUMS}")
    text = job(connection).definition.sql
    connection.execute("alter stream s watermark 0a")
    assert job(connection).definition.sql == text
    connection.execute("alter stream if exists missing watermark 1s")
    with pytest.raises(NotFoundError):
        connection.execute("alter stream missing watermark 1s")


def test_an_option_that_the_query_does_not_allow_is_refused_by_name(connection: headrace.Connection) -> None:
    connection.execute("create stream s watermark 10s into o as select _wstart, count(*) n from m1 count_window(2)")
    with pytest.raises(InvalidStreamError, match="WATERMARK"):
        connection.execute("alter stream s watermark 0s")
    with pytest.raises(NotSupportedError, match="altering FILL_HISTORY of a stream"):
        connection.execute("alter stream s fill_history 1")


def test_reset_computes_the_target_again_from_the_stored_rows(connection: headrace.Connection) -> None:
    connection.execute(f"insert into m1 values ({START - MINUTE}, 7)")
    connection.execute(f"create stream s {SUMS}")
    connection.execute(f"insert into m1 values ({START}, 1) ({START + 5 * MINUTE}, 2)")
    connection.execute(f"insert into m1 values ({START}, 50)")
    connection.settle()
    connection.execute("insert into o (tbname, _wstart, total) select tbname, _wstart + 1h, 99 from o")
    connection.execute(f"delete from o where _wstart = {START + 5 * MINUTE}")
    before = job(connection)
    connection.execute("reset stream s")
    assert rows(connection, "select _wstart, total from o") == rows(connection, "select _wstart, sum(a) from m interval(1m)")
    after = job(connection)
    assert (after.definition.id != before.definition.id, after.definition.sql) == (True, before.definition.sql)
    assert after.progress.counters.rows_expired == 0
    connection.execute(f"insert into m1 values ({START + 5 * MINUTE + 1}, 4)")
    assert rows(connection, "select total from o order by _wstart desc limit 1") == [(6,)]
    assert connection.verify(stream="d.s").equal


def test_a_paused_stream_stays_paused_when_it_is_reset(connection: headrace.Connection) -> None:
    connection.execute(f"create stream s {SUMS}")
    connection.execute("pause stream s")
    connection.execute(f"insert into m1 values ({START}, 1)")
    connection.execute("reset stream s")
    assert rows(connection, "select total from o") == []
    assert job(connection).desired is DesiredState.PAUSED
    connection.execute("resume stream s")
    assert rows(connection, "select total from o") == [(1,)]


def test_replacing_a_missing_stream_creates_it(connection: headrace.Connection) -> None:
    connection.execute(f"create or replace stream s {SUMS}")
    connection.execute(f"insert into m1 values ({START}, 1)")
    assert rows(connection, "select total from o") == [(1,)]


def test_replacing_only_options_keeps_target_and_progress(connection: headrace.Connection) -> None:
    connection.execute(f"create stream s {SUMS}")
    connection.execute(f"insert into m1 values ({START}, 1)")
    connection.settle()
    before = job(connection)
    statement = f"create or replace stream s ignore update 0 watermark 1m {SUMS}"
    assert plan_text(connection, statement).splitlines()[:3] == [
        "alter stream d.s, which keeps its target and its position",
        "  WATERMARK 0a → 1m",
        "  IGNORE UPDATE 1 → 0",
    ]
    connection.execute(statement)
    assert job(connection).progress == before.progress
    connection.execute(f"insert into m1 values ({START}, 5)")
    assert rows(connection, "select total from o") == [(5,)]


def test_replacing_the_notifications_keeps_target_and_progress(connection: headrace.Connection) -> None:
    connection.execute(f"create stream s {SUMS}")
    statement = f"create or replace stream s {SUMS} notify ('ws://localhost:1') on ('window_close') on_failure drop"
    assert plan_text(connection, statement).splitlines()[1] == "  NOTIFY"
    before = job(connection)
    connection.execute(statement)
    after = job(connection).definition
    assert (after.id, "NOTIFY" in after.sql) == (before.definition.id, True)
    connection.execute(f"create or replace stream s {SUMS}")
    assert "NOTIFY" not in job(connection).definition.sql


def test_replacing_the_query_rebuilds_the_target(connection: headrace.Connection) -> None:
    connection.execute(
        "create stream s trigger at_once into o tags (g int) as select _wstart, sum(a) total from m partition by g interval(1m)"
    )
    connection.execute(f"insert into m1 values ({START}, 1) ({START + 9 * MINUTE}, 2) m2 values ({START}, 4)")
    assert len(rows(connection, "select total from o")) == 3
    statement = (
        "create or replace stream s trigger at_once into o tags (g int) "
        "as select _wstart, max(a) total from m where g = 1 partition by g interval(2m)"
    )
    described = plan_text(connection, statement)
    assert "replace stream d.s" in described
    assert any(line.strip().startswith("-") and "sum" in line for line in described.splitlines())
    assert any(line.strip().startswith("+") and "max" in line for line in described.splitlines())
    assert "recompute 3 stored rows of d.m in about 1 chunks, on Spark" in described
    connection.execute(statement)
    query = "select _wstart, max(a) from m where g = 1 interval(2m)"
    assert rows(connection, "select _wstart, total from o") == rows(connection, query)
    connection.execute(f"insert into m1 values ({START + 20 * MINUTE}, 8) m2 values ({START + 20 * MINUTE}, 16)")
    assert rows(connection, "select _wstart, total from o order by _wstart") == rows(connection, query)


def test_replacing_the_target_leaves_the_old_one(connection: headrace.Connection) -> None:
    connection.execute(f"create stream s {SUMS}")
    connection.execute(f"insert into m1 values ({START}, 1)")
    connection.settle()
    connection.execute(
        "create or replace stream s trigger at_once into o2 as select _wstart, sum(a) total, count(*) n from m interval(1m)"
    )
    assert rows(connection, "select total, n from o2") == [(1, 1)]
    connection.execute(f"insert into m1 values ({START + 1}, 2)")
    assert rows(connection, "select total, n from o2") == [(3, 2)]
    assert rows(connection, "select total from o") == [(1,)]
    connection.execute("drop stable o")


def test_a_target_that_does_not_fit_is_refused_and_nothing_changes(connection: headrace.Connection) -> None:
    connection.execute(f"create stream s {SUMS}")
    before = job(connection)
    with pytest.raises(Error) as caught:
        connection.execute(
            "create or replace stream s trigger at_once into o as select _wstart, sum(a), count(*) from m interval(1m)"
        )
    assert "the target o does not fit the new results" in caught.value.message
    assert "name another target" in caught.value.hint
    with pytest.raises(InvalidStreamError, match="the column total of o is BIGINT, the result is DOUBLE"):
        connection.execute("create or replace stream s trigger at_once into o as select _wstart, avg(a) total from m interval(1m)")
    assert job(connection) == before


def test_a_column_that_the_target_has_gained_can_be_filled_by_a_replacement(connection: headrace.Connection) -> None:
    connection.execute(f"create stream s {SUMS}")
    connection.execute(f"insert into m1 values ({START}, 1)")
    connection.settle()
    connection.execute("alter stable o add column n bigint")
    connection.execute(
        "create or replace stream s trigger at_once into o as select _wstart, sum(a) total, count(*) n from m interval(1m)"
    )
    assert rows(connection, "select total, n from o") == [(1, 1)]
    connection.execute(f"insert into m1 values ({START + 1}, 2)")
    assert rows(connection, "select total, n from o") == [(3, 2)]


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    "failpoint", ["streams.replace.prepared", "streams.replace.recorded", "history.evaluate", "history.commit", "history.committed"]
)
def test_a_crash_while_a_stream_is_replaced_leaves_the_old_or_the_new_one(connection: headrace.Connection, failpoint: str) -> None:
    connection.execute(f"create stream s {SUMS}")
    connection.execute(f"insert into m1 values ({START}, 1) ({START + 9 * MINUTE}, 2)")
    connection.settle()
    statement = "create or replace stream s trigger at_once into o as select _wstart, max(a) total from m interval(2m)"
    with armed(f"{failpoint}:1:raise"), pytest.raises((FailpointError, InternalError)):
        execute_and_settle(connection, statement)
    is_new = "max(a)" in job(connection).definition.sql
    assert is_new == (failpoint != "streams.replace.prepared")
    query = "select _wstart, max(a) from m interval(2m)" if is_new else "select _wstart, sum(a) from m interval(1m)"
    assert rows(connection, "select * from (select _wstart, total from o) order by _wstart") == rows(connection, query)


def test_a_driver_of_the_old_stream_cannot_add_to_the_new_results(connection: headrace.Connection) -> None:
    connection.execute(f"create stream s {SUMS}")
    connection.execute(f"insert into m1 values ({START}, 1)")
    connection.settle()
    old = job(connection)
    connection.execute("reset stream s")
    connection.execute(f"insert into m1 values ({START + 1}, 2)")
    context = connection.session.context
    pollers = JobHost(Driving(context))
    target = context.catalog.tables.get("d", "o")
    version = context.tables.version(target)
    pollers.reconcile([old])
    while pollers.poll():
        pass
    assert pollers.running == frozenset(), "it leaves its poller, and ends no other stream"
    pollers.close()
    assert context.tables.version(target) == version
    assert rows(connection, "select total from o") == [(3,)]
