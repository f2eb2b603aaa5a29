"""With IGNORE UPDATE 1, rows stay in the group in which they were counted when a tag changes, and changes of them are ignored."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

import headrace
from headrace.errors import HistoryGoneError
from headrace.model.jobs import JobState
from tests.service.conftest import START
from tests.service.test_changed_tags import insert, meters, results
from tests.service.test_dropped_subtables import create, sums

__all__ = ["meters"]

SPARK = pytest.mark.spark

WINDOWS = {
    "interval(1h)": 1,
    "interval(1h) sliding(30m)": 2,
    "interval(1n)": 1,
    "session(ts, 20m)": 1,
    "state_window(v > 0)": 1,
    "event_window start with v > 0 end with v > 0": 1,
    "count_window(2)": 1,
}


def counters(connection: headrace.Connection) -> tuple[int, int, int]:
    (record,) = connection.session.context.catalog.jobs.all()
    counts = record.progress.counters
    assert counts.rows_in == counts.rows_handled
    return counts.rows_in, counts.rows_used, counts.rows_expired


@pytest.mark.parametrize("options", ["ignore expired 0", ""])
@pytest.mark.parametrize("window", WINDOWS)
def test_rows_stay_where_they_were_counted(meters: headrace.Connection, window: str, options: str) -> None:
    factor = WINDOWS[window]
    by = "tbname, site" if window.startswith(("state", "event", "count")) else "site"
    create(meters, f"partition by {by} {window}", "watermark 1s" if "count" in window else options)
    insert(meters, ("a", 10, 1), ("b", 11, 99), ("c", 10, 5), ("c", 12, 91), ("a", 70, 7), ("b", 72, 93))
    meters.settle()
    before = results(meters)
    assert sums(meters) == {"north": 200 * factor, "south": 96 * factor}
    meters.execute("alter table a set tag site = 'south'")
    meters.settle()
    assert results(meters) == before
    insert(meters, ("a", 10, 50))
    meters.execute(f"delete from a where ts = {START + 70 * 60_000}")
    meters.settle()
    assert results(meters) == before, "changes of rows that were counted with the earlier tag are ignored"
    assert counters(meters)[2] == 2, "and counted"
    insert(meters, ("a", 200, 40), ("a", 201, 94))
    meters.settle()
    assert sums(meters) == {"north": 200 * factor, "south": 230 * factor}
    if options and "count" not in window:
        meters.execute(f"delete from a where ts = {START + 200 * 60_000}")
        meters.settle()
        assert sums(meters)["south"] == 190 * factor, "changes of later rows are not"


def test_a_window_that_another_row_recalculates_keeps_the_rows_of_its_group(meters: headrace.Connection) -> None:
    create(meters, "partition by site interval(1h)", "ignore expired 0")
    insert(meters, ("a", 10, 1), ("b", 11, 100), ("c", 10, 5))
    meters.settle()
    meters.execute("alter table a set tag site = 'south'")
    meters.execute(f"delete from b where ts = {START + 11 * 60_000}")
    meters.execute(f"delete from c where ts = {START + 10 * 60_000}")
    insert(meters, ("c", 20, 6), ("a", 300, 7))
    meters.settle()
    assert sums(meters) == {"north": 1, "south": 13}
    meters.execute("alter table a set tag site = 'west'")
    insert(meters, ("c", 30, 8), ("a", 310, 9))
    meters.execute(f"delete from c where ts = {START + 20 * 60_000}")
    meters.settle()
    assert sums(meters) == {"north": 1, "south": 15, "west": 9}


def test_a_condition_on_a_tag_keeps_what_it_has_let_pass(meters: headrace.Connection) -> None:
    meters.execute(
        "create stream s trigger at_once into o"
        " as select _wstart, sum(v) v from m where site = 'north' partition by tbname interval(1h)"
    )
    insert(meters, ("a", 10, 1), ("b", 11, 100))
    meters.settle()
    meters.execute("alter table a set tag site = 'south'")
    insert(meters, ("a", 10, 70), ("a", 20, 2), ("b", 12, 3))
    meters.settle()
    assert sorted(row[-1] for row in results(meters, tags=())) == [1, 103]


def test_values_of_tags_alone_move_no_rows(meters: headrace.Connection) -> None:
    meters.execute(
        "create stream s trigger at_once into o as select _wstart, count(*) n, last(site) w from m partition by tbname interval(1h)"
    )
    insert(meters, ("a", 10, 1))
    meters.settle()
    (effect,) = meters.execute("alter table a set tag site = 'south'").fetchall()
    assert effect[1].startswith("reads the new tags of later rows")
    insert(meters, ("a", 10, 2))
    meters.settle()
    assert results(meters, tags=()) == [(2, "south")]


@pytest.mark.parametrize("changed", [{}, pytest.param({"driver_rows": 2}, marks=SPARK)], ids=str)
def test_earlier_groups_outlast_a_restart(
    meters: headrace.Connection, changed: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    if changed:
        request.getfixturevalue("spark")
    create(meters, "partition by site interval(1h)", "ignore expired 0")
    insert(meters, ("a", 10, 1), ("a", 70, 2), ("a", 71, 2), ("a", 72, 2), ("b", 11, 100))
    meters.settle()
    meters.execute("alter table a set tag site = 'south'")
    insert(meters, ("c", 10, 5))
    meters.settle()
    settings = meters.session.context.settings.replace(changed)
    with headrace.connect(settings=settings, clock=headrace.ManualClock(START)) as other:
        other.execute("use d")
        other.execute(f"delete from a where ts > {START + 11 * 60_000}")
        other.execute(f"delete from b where ts = {START + 11 * 60_000}")
        other.settle()
        assert sums(other) == {"north": 7, "south": 5}
        assert counters(other)[2] == 3


@pytest.mark.parametrize("ignore_update", [0, 1])
def test_tags_that_were_removed_stop_the_stream_with_a_way_out(meters: headrace.Connection, ignore_update: int) -> None:
    create(meters, "partition by site interval(1h)", f"ignore update {ignore_update}")
    insert(meters, ("a", 10, 1), ("b", 11, 100))
    meters.settle()
    for site in ("south", "west"):
        meters.execute(f"alter table a set tag site = '{site}'")
    context = meters.session.context
    folder = Path(context.tables.uri, "d", "m", "tags")
    delta = DeltaTable(folder)
    delta.create_checkpoint()
    for version in range(delta.version()):
        (folder / "_delta_log" / f"{version:020}.json").unlink()
    insert(meters, ("b", 12, 1))
    with headrace.connect(settings=context.settings, clock=headrace.ManualClock(START)) as other:
        with suppress(HistoryGoneError):
            other.settle()
        (record,) = other.session.context.catalog.jobs.all()
        assert record.reason is not None
        assert (record.state, record.reason.code) == (JobState.STOPPED, "HISTORY_GONE")
        assert "of tags of d.m has been removed" in record.reason.message
        assert "RESET STREAM" in record.reason.hint
