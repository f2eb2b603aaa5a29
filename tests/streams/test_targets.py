"""Where the results of a stream go: keys, precisions, KEEP, and names that are taken."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.errors import InvalidStreamError
from headrace.streams.kind import STREAM

START = 1_700_000_000_000
MINUTE = 60_000
DAY = 24 * 60 * MINUTE

pytestmark = pytest.mark.spark


@pytest.fixture
def connection(tmp_path: Path) -> headrace.Connection:
    opened = headrace.connect(tmp_path / "home", clock=headrace.ManualClock(START))
    opened.execute("create database d")
    opened.execute("use d")
    opened.execute("create stable m (ts timestamp, a int) tags (g int)")
    opened.execute("create table m1 using m tags (1) m2 using m tags (2)")
    return opened


def fetch(connection: headrace.Connection, sql: str) -> list[tuple[object, ...]]:
    connection.settle()
    return connection.execute(sql).fetchall()


def counter(connection: headrace.Connection, stream: str, name: str) -> int:
    return int(getattr(connection.session.context.catalog.jobs.get("d", stream, STREAM).progress.counters, name))


def test_a_target_with_listed_columns_keeps_the_key_of_the_source(connection: headrace.Connection) -> None:
    connection.execute("create table k (ts timestamp, n int composite key, a int)")
    connection.execute("create stream s trigger at_once into o (t, number, value) as select ts, n, a from k")
    connection.execute(f"insert into k values ({START}, 1, 10) ({START}, 2, 20)")
    assert fetch(connection, "select number, value from o order by 1") == [(1, 10), (2, 20)]
    assert [row[:1] + row[3:] for row in fetch(connection, "describe o")][1] == ("number", "COMPOSITE KEY")


def test_an_existing_target_without_the_key_of_the_source_is_refused(connection: headrace.Connection) -> None:
    connection.execute("create table k (ts timestamp, n int composite key, a int)")
    connection.execute("create stable o (ts timestamp, n int, a int) tags (g int)")
    with pytest.raises(InvalidStreamError, match="o has no key column for n, the key of the source"):
        connection.execute("create stream s trigger at_once into o as select ts, n, a from k")


def test_a_window_whose_key_changes_leaves_one_row(connection: headrace.Connection) -> None:
    connection.execute(
        "create stream s trigger at_once ignore update 0 into o (t, n composite key, total) "
        "as select _wstart, count(*), sum(a) from m interval(1m)"
    )
    connection.execute(f"insert into m1 values ({START}, 1)")
    assert fetch(connection, "select n, total from o") == [(1, 1)]
    connection.execute(f"insert into m1 values ({START + 1}, 2)")
    assert fetch(connection, "select n, total from o") == [(2, 3)]
    connection.execute(f"delete from m1 where ts = {START}")
    assert fetch(connection, "select n, total from o") == [(1, 2)]


@pytest.mark.parametrize(
    ("query", "blamed"),
    [
        ("select _wstart, count(*) from n.m session(ts, 1s)", "_wstart may have fractions of a ms"),
        ("select _wstart, count(*) from n.m interval(1500u)", "_wstart may have fractions of a ms"),
        ("select _wstart, last(ts) at from n.m interval(1s)", "at may have fractions of a ms"),
    ],
)
def test_a_target_that_would_lose_fractions_is_refused(connection: headrace.Connection, query: str, blamed: str) -> None:
    connection.execute("create database n precision 'us'")
    connection.execute("create table n.m (ts timestamp, a int)")
    with pytest.raises(InvalidStreamError, match=blamed):
        connection.execute(f"create stream s trigger at_once into o as {query}")


@pytest.mark.parametrize("precision", ["us", "ns"])
def test_windows_of_whole_ticks_go_to_a_coarser_target(connection: headrace.Connection, precision: str) -> None:
    unit = {"us": 1_000, "ns": 1_000_000}[precision]
    connection.execute(f"create database n precision '{precision}'")
    connection.execute("create table n.m (ts timestamp, a int)")
    connection.execute("create stream s trigger at_once into o as select _wstart, _wend, count(*) n from n.m interval(1s)")
    connection.execute(f"insert into n.m values ({START * unit + 1}, 1) ({START * unit + 2}, 1)")
    connection.execute(f"insert into n.m values ({(START + 1000) * unit + 1}, 1)")
    rows = fetch(connection, "select cast(_wstart as bigint), cast(_wend as bigint), n from o")
    assert rows == [(START, START + 1000, 2), (START + 1000, START + 2000, 1)]


@pytest.mark.parametrize("history", [0, 1])
def test_results_older_than_keep_are_discarded_and_counted(connection: headrace.Connection, history: int) -> None:
    connection.execute("create database short keep 2d")
    rows = f"({START - 3 * DAY}, 1) ({START - DAY}, 2) ({START}, 4)"
    if history:
        connection.execute(f"insert into m1 values {rows}")
    connection.execute(
        f"create stream s trigger at_once fill_history {history} into short.o as select _wstart, sum(a) total from m interval(1d)"
    )
    if not history:
        connection.execute(f"insert into m1 values {rows}")
    assert fetch(connection, "select total from short.o order by _wstart") == [(2,), (4,)]
    if not history:
        assert (counter(connection, "s", "rows_discarded"), counter(connection, "s", "rows_out")) == (1, 2)
    assert connection.verify(stream="d.s").equal


def test_a_window_is_discarded_once_it_is_older_than_keep(connection: headrace.Connection) -> None:
    connection.execute("create database short keep 2d")
    connection.execute(
        "create stream s trigger at_once ignore expired 0 into short.o as select _wstart, sum(a) t from m interval(1d)"
    )
    connection.execute(f"insert into m1 values ({START}, 1)")
    assert len(fetch(connection, "select t from short.o")) == 1
    connection.clock.advance(4 * DAY)
    connection.execute(f"insert into m1 values ({START + 1}, 1)")
    assert fetch(connection, "select t from short.o") == [(1,)], "the row is as it was: KEEP has no effect on stored rows"
    assert counter(connection, "s", "rows_discarded") == 1


def test_another_keep_applies_to_what_a_running_stream_writes_next(connection: headrace.Connection) -> None:
    connection.execute("create database short buffer 8")
    connection.execute("create stream s trigger at_once into short.o as select _wstart, sum(a) t from m interval(1d)")
    connection.execute(f"insert into m1 values ({START - 3 * DAY}, 1)")
    assert fetch(connection, "select t from short.o") == [(1,)]
    connection.execute("alter database short keep 2d")
    connection.execute(f"insert into m2 using m tags (2) values ({START - 4 * DAY}, 2) ({START}, 4)")
    assert fetch(connection, "select t from short.o order by _wstart") == [(1,), (4,)]
    assert counter(connection, "s", "rows_discarded") == 1
    connection.execute("alter database short keep 10d")
    connection.execute(f"insert into m3 using m tags (3) values ({START - 5 * DAY}, 8) ({START + 1}, 16)")
    assert fetch(connection, "select t from short.o order by _wstart") == [(8,), (1,), (20,)]


@pytest.mark.parametrize(
    "taken",
    [
        "create table {} (ts timestamp, a int)",
        "create table {} using m tags (9)",
        "create stable {} (ts timestamp, a int) tags (x int)",
    ],
    ids=["plain table", "subtable", "supertable"],
)
def test_a_group_whose_name_is_taken_is_discarded_and_the_others_are_not(connection: headrace.Connection, taken: str) -> None:
    one, other = (f"t_{letter * 32}" for letter in "ab")
    connection.execute(taken.format(one))
    connection.execute("create stable w (ts timestamp, a int) tags (name varchar(40))")
    connection.execute(f"create table w1 using w tags ('{one}') w2 using w tags ('{other}')")
    connection.execute(
        "create stream s trigger at_once into o subtable(name) as select _wstart, count(*) n from w partition by name interval(1m)"
    )
    connection.execute(f"insert into w1 values ({START}, 1) w2 values ({START}, 1) ({START + 1}, 1)")
    assert fetch(connection, "select tbname, n from o") == [(other, 2)]
    stream = connection.session.context.catalog.jobs.get("d", "s", STREAM)
    events = connection.session.context.catalog.events.all("job", stream.definition.id)
    assert [event.kind for event in events if one in event.message] == ["DISCARDED"]
    assert stream.state.value == "RUNNING"


def test_moving_a_subtable_with_set_tag_moves_it_in_and_out_of_a_stream(connection: headrace.Connection) -> None:
    connection.execute("create stream s trigger at_once into o as select _wstart, sum(a) total from m where g = 1 interval(1m)")
    connection.execute(f"insert into m1 values ({START}, 1) m2 values ({START}, 2)")
    assert fetch(connection, "select total from o") == [(1,)]
    connection.execute("alter table m2 set tag g = 1")
    assert fetch(connection, "select total from o") == [(1,)], "the change applies to rows from then on"
    connection.execute(f"insert into m2 values ({START + MINUTE}, 4)")
    assert fetch(connection, "select total from o order by _wstart") == [(1,), (4,)]
    connection.execute("alter table m1 set tag g = 9")
    connection.execute(f"insert into m1 values ({START + 2 * MINUTE}, 8) m2 values ({START + 2 * MINUTE}, 16)")
    assert fetch(connection, "select total from o order by _wstart") == [(1,), (4,), (16,)]
