"""Where the results of a stream go: keys, precisions, KEEP, and names that are taken."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest

import headrace
from headrace.errors import DataError, InvalidStreamError
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
def test_a_group_whose_name_is_taken_stops_the_stream_and_loses_nothing(connection: headrace.Connection, taken: str) -> None:
    one, other = (f"t_{letter * 32}" for letter in "ab")
    connection.execute(taken.format(one))
    connection.execute("create stable w (ts timestamp, a int) tags (name varchar(40))")
    connection.execute(f"create table w1 using w tags ('{one}') w2 using w tags ('{other}')")
    connection.execute(
        "create stream s trigger at_once into o subtable(name) as select _wstart, count(*) n from w partition by name interval(1m)"
    )
    connection.execute(f"insert into w1 values ({START}, 1) w2 values ({START}, 1) ({START + 1}, 1)")
    connection.settle()
    stream = connection.session.context.catalog.jobs.get("d", "s", STREAM)
    assert stream.state.value == "STOPPED"
    assert stream.reason is not None
    assert f"a group's results cannot be written to o: table d.{one} exists already" in stream.reason.message
    assert "RESUME STREAM" in stream.reason.hint
    connection.execute(f"drop {'stable' if 'stable' in taken else 'table'} {one}")
    connection.execute("resume stream s")
    assert fetch(connection, "select tbname, n from o order by 1") == [(one, 1), (other, 2)]


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


COLUMNS = {
    "end_ticks": ("bigint", "t"),
    "end_text": ("varchar(20)", "t"),
    "instant": ("timestamp", "v"),
    "of_text": ("timestamp", "s"),
    "positive": ("int unsigned", "v"),
    "small": ("tinyint", "v"),
    "whole": ("int", "x"),
    "single": ("float", "x"),
    "short": ("varchar(5)", "s"),
    "few": ("nchar(4)", "s"),
    "bytes": ("varbinary(4)", "s"),
    "number": ("bigint", "s"),
    "fraction": ("decimal(6, 2)", "x"),
    "truth": ("bool", "s"),
    "large": ("bigint unsigned", "s"),
}
"""Columns of a target, and what fills them: a column `v BIGINT, x DOUBLE, s VARCHAR(30), t TIMESTAMP` of the source."""
DEFAULTS = {"v": "5", "x": "1.7", "s": "'7'", "t": "'2020-01-01'"}
BAD = {
    "positive": "-7",
    "small": "128",
    "instant": "9223372036854775807",
    "of_text": "'abc'",
    "whole": "2147483648.0",
    "single": "1e300",
    "short": "'123456'",
    "few": "'12345'",
    "bytes": "'12345'",
    "number": "'7 inch'",
    "fraction": "10000.0",
    "truth": "'maybe'",
    "large": "'18446744073709551616'",
}
"""Values that a column cannot hold."""


def target_of(connection: headrace.Connection, name: str, columns: Sequence[str], options: str = "") -> None:
    """Create a target with some of the columns, and a stream that fills them."""
    types = ", ".join(f"{column} {COLUMNS[column][0]}" for column in columns)
    connection.execute(f"create stable t_{name} (ts timestamp, {types}) tags (g bigint unsigned)")
    values = ", ".join(f"{COLUMNS[column][1]} {column}" for column in columns)
    connection.execute(
        f"create stream s_{name} trigger at_once {options} into t_{name} as select ts, {values} from w partition by tbname"
    )


@pytest.fixture(params=["auto", "never"])
def wide(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> headrace.Connection:
    """A home that computes by kernels, or by Spark SQL, with the source `w`."""
    monkeypatch.setenv("HEADRACE_KERNELS", request.param)
    opened = headrace.connect(tmp_path / "home", clock=headrace.ManualClock(START))
    opened.execute("create database d")
    opened.execute("use d")
    opened.execute("create stable w (ts timestamp, v bigint, x double, s varchar(30), t timestamp) tags (g int)")
    return opened


@pytest.mark.drawn(2)
def test_values_reach_an_existing_target_as_cast_converts_them(wide: headrace.Connection) -> None:
    target_of(wide, "all", list(COLUMNS))
    wide.execute(
        f"insert into w1 using w tags (1) values ({START}, 5, 1.7, '7', '2020-01-01') ({START + 1}, null, null, null, null)"
    )
    wide.execute(f"insert into w1 values ({START + 2}, 100, -4.3, '1234', '1969-12-31 23:59:59.999Z')")
    rows = fetch(wide, f"select {', '.join(COLUMNS)} from t_all order by ts")
    utc = dt.UTC
    whole = [tuple(row[:2]) + tuple(row[4:]) for row in rows]
    assert whole[0][:6] == (1_577_836_800_000, "1577836800000", 5, 5, 1, pytest.approx(1.7))
    assert whole[0][6:] == ("7", "7", b"7", 7, Decimal("1.70"), True, 7)
    assert rows[0][2:4] == (
        dt.datetime(1970, 1, 1, microsecond=5000, tzinfo=utc),
        dt.datetime(1970, 1, 1, microsecond=7000, tzinfo=utc),
    )
    assert set(rows[1]) == {None}
    assert whole[2] == (-1, "-1", 100, 100, -4, pytest.approx(-4.3), "1234", "1234", b"1234", 1234, Decimal("-4.30"), True, 1234)
    target_of(wide, "some", ["end_ticks", "positive", "whole", "short", "number", "truth"], "fill_history 1")
    assert fetch(wide, "select end_ticks, whole, short from t_some order by ts")[2] == (-1, -4, "1234")
    assert wide.verify(stream="d.s_some").equal


@pytest.mark.drawn(2)
def test_what_a_column_of_an_existing_target_cannot_hold_is_set_aside_and_counted(wide: headrace.Connection) -> None:
    is_far = wide.session.context.settings.kernels == "never"
    near = ["positive", "small", "instant", "whole", "short", "few"]
    columns = ["positive", *(column for column in BAD if column not in near)] if is_far else near
    for column in columns:
        target_of(wide, column, [column])
    for number, column in enumerate(columns):
        values = DEFAULTS | {COLUMNS[column][1]: BAD[column]}
        wide.execute(f"insert into w1 using w tags (1) values ({START + number}, {', '.join(values.values())})")
    wide.settle()
    held = wide.execute("select stream_name, row_time, message from information_schema.ins_stream_quarantine").fetchall()
    messages = {(name, int(time.timestamp() * 1000) - START): message for name, time, message in held}
    for number, column in enumerate(columns):
        written = BAD[column].strip("'")
        assert f" is not valid for {column}, which is {COLUMNS[column][0].upper()}" in messages[f"s_{column}", number]
        assert messages[f"s_{column}", number].startswith(written[:1])
        assert counter(wide, f"s_{column}", "rows_quarantined") == sum(name == f"s_{column}" for name, _ in messages)
        if column not in ("of_text", "single", "bytes", "fraction"):  # verify knows no such casts
            assert wide.verify(stream=f"d.s_{column}").equal


def test_what_a_column_cannot_hold_stops_a_stream_with_on_error_stop(wide: headrace.Connection) -> None:
    target_of(wide, "positive", ["positive"], "on_error stop")
    wide.execute(f"insert into w1 using w tags (1) (ts, v) values ({START}, -7)")
    assert fetch(wide, "select * from t_positive") == []
    reason = wide.session.context.catalog.jobs.get("d", "s_positive", STREAM).reason
    assert reason is not None
    assert reason.code == "DATA"
    assert reason.message.startswith("-7 is not valid for positive, which is INT UNSIGNED (in the row of w1 at ")


def test_a_tag_and_a_constant_of_fill_that_do_not_fit_are_named(connection: headrace.Connection) -> None:
    connection.execute("create stable o (ts timestamp, n tinyint) tags (name varchar(2))")
    connection.execute(
        "create stream s trigger at_once into o tags (name) as "
        "select _wstart, count(*) from m partition by cast(a as varchar(9)) name interval(1m)"
    )
    connection.execute(f"insert into m1 values ({START}, 12) ({START + 1}, 345)")
    assert fetch(connection, "select name, n from o") == [("12", 1)]
    assert counter(connection, "s", "rows_quarantined") == 1
    connection.execute("create stable p (ts timestamp, n tinyint) tags (g int)")
    with pytest.raises(DataError, match="300 is not valid for n, which is TINYINT"):
        connection.execute("create stream f trigger at_once into p as select _wstart, sum(a) from m interval(1m) fill(value, 300)")
