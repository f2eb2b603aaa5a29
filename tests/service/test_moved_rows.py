"""Rows of subtables whose tags change, in streams without history: those move whose windows the stream has computed.

The expected results are computed row by row. They include the rows from before the stream in windows of INTERVAL and SESSION that
it has, but windows that no row has touched stay out.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.settings import load
from headrace.streams.windows import results as results_of_batches
from headrace.streams.windows.retention import evict_windows
from tests.service.conftest import START
from tests.service.test_changed_tags import insert, results
from tests.support.drawing import SEED, drawn

MINUTE = 60_000
SITES = {"a": "north", "b": "north", "c": "south", "d": "west"}
Row = tuple[str, int]
"""A subtable, and minutes after the start."""
Window = tuple[Any, int, list[Row]]
"""A group, the start in milliseconds, and the rows."""


@pytest.fixture
def meters(connection: headrace.Connection) -> headrace.Connection:
    create_meters(connection)
    return connection


def create_meters(connection: headrace.Connection) -> None:
    connection.execute("create stable m (ts timestamp, v int) tags (site varchar(10))")
    connection.execute("create table " + " ".join(f"{name} using m tags ('{site}')" for name, site in SITES.items()))


def create_stream(connection: headrace.Connection, rest: str, options: str = "ignore expired 0", trigger: str = "at_once") -> None:
    partition = "tbname series, site" if rest.startswith(("state", "event", "count")) else "site"
    tags = "series varchar(10), site varchar(10)" if "series" in partition else "site varchar(10)"
    connection.execute(
        f"create stream s trigger {trigger} ignore update 0 {options} into o tags ({tags})"
        f" as select _wstart, count(*) n, sum(v) v from m partition by {partition} {rest}"
    )


def set_site(connection: headrace.Connection, name: str, site: str) -> None:
    connection.execute(f"alter table {name} set tag site = '{site}'")


@pytest.mark.parametrize("window", ["interval(1h)", "interval(1h) sliding(30m)", "session(ts, 20m)", "interval(1n)"])
def test_a_result_of_a_late_row_that_is_older_than_the_stream_moves(meters: headrace.Connection, window: str) -> None:
    insert(meters, ("c", 60_000, 1))
    create_stream(meters, window)
    insert(meters, ("a", 5, 7), ("a", 120_000, 9))
    meters.settle()
    set_site(meters, "a", "south")
    meters.settle()
    factor = 2 if "sliding" in window else 1
    moved = [row for row in results(meters) if row[2] in (7, 9)]
    assert {row[0] for row in results(meters)} == {"south"}
    assert sum(row[2] for row in moved) == 16 * factor
    assert meters.verify(stream="s").equal


@pytest.mark.parametrize("window", ["interval(1h)", "interval(1h) sliding(30m)", "session(ts, 20m)"])
def test_a_window_that_spans_the_creation_and_has_no_later_row_does_not_appear(meters: headrace.Connection, window: str) -> None:
    insert(meters, ("a", 100, 1), ("b", 101, 1))
    create_stream(meters, window)
    set_site(meters, "a", "south")
    insert(meters, ("d", 300, 2))
    meters.settle()
    assert {row[0] for row in results(meters)} == {"west"}
    insert(meters, ("b", 102, 4))
    meters.settle()
    set_site(meters, "b", "east")
    meters.settle()
    assert {row[0] for row in results(meters)} == {"west", "east"}
    assert meters.verify(stream="s").equal


@pytest.mark.parametrize("options", ["ignore expired 0", "ignore expired 0 delete_mark 1m"])
@pytest.mark.parametrize("window", ["state_window(v)", "event_window start with v > 0 end with v > 1"])
def test_windows_of_rows_begin_with_the_first_row_that_the_stream_has_read(
    meters: headrace.Connection, window: str, options: str
) -> None:
    insert(meters, ("a", 1, 1), ("a", 2, 2), ("c", 1000, 1))
    create_stream(meters, window, options)
    for minute in (10, 12, 1010, 1012):
        insert(meters, ("a", minute, 1), ("a", minute + 1, 2))
        meters.settle()
    before = [row[1:] for row in results(meters, tags=("site",))]
    assert sum(row[0] for row in before) == 8
    set_site(meters, "a", "south")
    meters.settle()
    assert results(meters, tags=("site",)) == [("south", *row) for row in before]


@pytest.mark.parametrize("window", ["state_window(v)", "event_window start with v > 0 end with v > 1", "count_window(2)"])
def test_a_correction_of_an_evicted_window_leaves_rows_from_before_the_stream_out(
    meters: headrace.Connection, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_of_batches, "evict_windows", lambda plan, state, _: evict_windows(plan, state, 2))
    insert(meters, ("a", 1, 1), ("a", 2, 2), ("a", 3, 1), ("c", 300, 1))
    create_stream(meters, window, "watermark 1m ignore expired 1")
    for minute in (10, 12, 14, 1010, 2012):
        insert(meters, ("a", minute, 1), ("a", minute + 1, 2))
        meters.settle()
    before = results(meters, tags=("site",))
    meters.execute(f"delete from a where ts = {START + 10 * MINUTE}")
    meters.settle()
    after = results(meters, tags=("site",))
    assert sum(row[1] for row in before) == 10
    assert sum(row[1] for row in after) == 9


def test_results_without_a_window_move_by_their_rows(meters: headrace.Connection) -> None:
    insert(meters, ("a", 1, 1), ("c", 1000, 1))
    query = "select ts, v from m partition by tbname, site"
    meters.execute(f"create stream s trigger at_once ignore update 0 into o tags (site varchar(10)) as {query}")
    insert(meters, ("a", 10, 2), ("a", 1010, 3))
    meters.settle()
    set_site(meters, "a", "south")
    meters.settle()
    assert results(meters) == [("south", 2), ("south", 3)]


def test_windows_that_fill_has_added_are_not_taken_for_computed_ones(meters: headrace.Connection) -> None:
    insert(meters, ("a", 200, 1), ("b", 200, 1), ("c", 1000, 1))
    create_stream(meters, "interval(1h) fill(value, 0, 0)")
    insert(meters, ("b", 10, 2), ("b", 1010, 3))
    meters.settle()
    before = results(meters)
    assert ("north", 0, 0) in before
    set_site(meters, "a", "west")
    meters.settle()
    assert results(meters) == before


# Row by row


@dataclass
class Evaluator:
    """What a stream without history has, by the rows and the tags. `counted` are the rows that count in windows that it has.

    In windows of INTERVAL, a row counts in each of them by itself, else it counts as a whole (`None`).
    """

    window: str
    first: dict[str, int] = field(default_factory=dict)
    """Where windows begin that depend on the order of rows, by subtable."""
    sites: dict[str, str] = field(default_factory=lambda: dict(SITES))
    rows: dict[Row, int] = field(default_factory=dict)
    counted: set[tuple[Row, int | None]] = field(default_factory=set)

    def windows(self, *sites: dict[str, str]) -> Iterator[Window]:
        """Yield the windows of rows by the tags, or by any of several."""
        by_group = defaultdict[Any, set[Row]](set)
        for row in self.rows:
            for site in (tags[row[0]] for tags in sites or (self.sites,)):
                by_group[(row[0], site) if self.first else site].add(row)
        for group, rows in by_group.items():
            yield from self.windows_of(group, sorted(rows, key=lambda row: row[1]))

    def windows_of(self, group: Any, rows: list[Row]) -> Iterator[Window]:
        if self.window.startswith("interval"):
            starts = sorted({start for row in rows for start in self.starts(row)})
            yield from ((group, start, [row for row in rows if start in self.starts(row)]) for start in starts)
        else:
            yield from ((group, START + part[0][1] * MINUTE, part) for part in self.runs(rows))

    def starts(self, row: Row) -> list[int]:
        slide = 30 * MINUTE if "sliding" in self.window else 60 * MINUTE
        latest = (START + row[1] * MINUTE) // slide * slide
        return [latest, latest - slide] if "sliding" in self.window else [latest]

    def runs(self, rows: list[Row]) -> list[list[Row]]:
        """Divide the rows of a group, in order, into windows."""
        if self.first:
            rows = [row for row in rows if row[1] >= self.first[row[0]]]
        runs = [rows[:1]] if rows else []
        for before, row in pairwise(rows):
            if self.belongs(before, row, len(runs[-1])):
                runs[-1].append(row)
            else:
                runs.append([row])
        return [run for run in runs if not self.window.startswith("event") or self.rows[run[-1]] > 1]

    def belongs(self, before: Row, row: Row, count: int) -> bool:
        if self.window.startswith("session"):
            return row[1] - before[1] <= 20
        if self.window.startswith("state"):
            return self.rows[row] == self.rows[before]
        return count < 2 if self.window.startswith("count") else self.rows[before] <= 1

    def count(self, row: Row) -> None:
        starts = self.starts(row) if self.window.startswith("interval") else [None]
        self.counted |= {(row, start) for start in starts}

    def write(self, row: Row, value: int | None) -> None:
        """Insert, correct or delete (None) a row: all windows that it is in, before and after that, count."""
        if row in self.rows:
            self.count(row)
            self.spread()
        if value is None:
            del self.rows[row]
            self.counted = {one for one in self.counted if one[0] != row}
        else:
            self.rows[row] = value
            self.count(row)
        self.spread()

    def retag(self, sites: dict[str, str]) -> None:
        """Change tags. A window that the stream has takes all rows that join it, also if those that count there leave."""
        before, self.sites = self.sites, sites
        counted = set(self.counted)
        for site, start, rows in list(self.windows(before, sites)):
            number = start if self.window.startswith("interval") else None
            if any((row, number) in counted for row in rows if before[row[0]] == site):
                self.counted |= {(row, number) for row in rows}
        self.spread()

    def spread(self) -> None:
        """A window with a row that counts has all of its rows."""
        for _, start, rows in list(self.windows()):
            number = start if self.window.startswith("interval") else None
            if any((row, number) in self.counted for row in rows):
                self.counted |= {(row, number) for row in rows}

    def results(self) -> list[tuple[Any, ...]]:
        self.spread()
        results = []
        for group, start, rows in self.windows():
            number = start if self.window.startswith("interval") else None
            if self.first or any((row, number) in self.counted for row in rows):
                values = [self.rows[row] for row in rows]
                results.append((*([group] if isinstance(group, str) else group), start, len(values), sum(values)))
        return sorted(results, key=str)


@dataclass
class Play:
    """Writes and changes of tags, drawn at random. Until they settle, tags change before all else."""

    draw: random.Random
    evaluator: Evaluator
    connection: headrace.Connection
    writes: list[tuple[Row, int | None]] = field(default_factory=list)
    sites: dict[str, str] = field(default_factory=dict)

    def new_row(self) -> Row:
        name = self.draw.choice(list(SITES))
        return name, self.draw.randrange(self.evaluator.first.get(name, 0), 240)

    def insert(self) -> None:
        rows = {self.new_row(): self.draw.randrange(1, 4) for _ in range(self.draw.randrange(1, 5))}
        insert(self.connection, *((*row, value) for row, value in rows.items()))
        self.writes += rows.items()

    def delete(self) -> None:
        pending = dict(self.writes)
        rows = {row: value for row, value in {**self.evaluator.rows, **pending}.items() if value is not None}
        rows = {row: value for row, value in rows.items() if row[1] >= self.evaluator.first.get(row[0], 0)}
        if rows:
            row = self.draw.choice(sorted(rows))
            self.connection.execute(f"delete from {row[0]} where ts = {START + row[1] * MINUTE}")
            self.writes.append((row, None))

    def retag(self) -> None:
        for name in self.draw.sample(list(SITES), self.draw.choice((1, 1, 2, 3))):
            site = self.draw.choice(("north", "south", "west"))
            set_site(self.connection, name, site)
            self.sites[name] = site

    def settle(self) -> None:
        self.connection.settle()
        self.evaluator.retag({**self.evaluator.sites, **self.sites})
        for row, value in self.writes:
            self.evaluator.write(row, value)
        self.writes = []

    def step(self) -> None:
        for _ in range(self.draw.randrange(1, 4)):
            self.draw.choice((self.insert, self.insert, self.delete, self.retag, self.retag))()
        self.settle()


def starts_and_results(connection: headrace.Connection, evaluator: Evaluator) -> list[tuple[Any, ...]]:
    tags = ["series", "site"] if evaluator.first else ["site"]
    context = connection.session.context
    target = context.catalog.tables.get("d", "o")
    rows = context.tables.scan(target).join(context.tables.tags.read(target), "tbname").to_pylist()
    names = [column.name for column in target.columns]
    starts = [round(row[names[0]].timestamp() * 1000) for row in rows]
    values = [(*(row[tag] for tag in tags), start, row["n"], row["v"]) for row, start in zip(rows, starts, strict=True)]
    return sorted(values, key=str)


WINDOWS = (
    "interval(1h)",
    "interval(1h) sliding(30m)",
    "session(ts, 20m)",
    "state_window(v)",
    "event_window start with v > 0 end with v > 1",
    "count_window(2)",
)


def play(home: Path, window: str, seed: str, steps: int, **changed: Any) -> None:
    draw = random.Random(f"{SEED} {window} {seed}")
    first = {} if window.startswith(("interval", "session")) else {"a": 30, "b": 40, "c": 130, "d": 1}
    evaluator = Evaluator(window, first)
    settings = load(home=home, **changed)
    clock = headrace.ManualClock(START)
    with headrace.connect(settings=settings, clock=clock) as connection:
        connection.execute("create database d")
        connection.execute("use d")
        create_meters(connection)
        most = {"a": 30, "b": 40, "c": 101, "d": 0} if first else dict.fromkeys(SITES, 121)
        before = {(name, draw.randrange(most[name])): 1 for name in SITES for _ in range(4) if most[name]} | {("c", 100): 2}
        insert(connection, *((*row, value) for row, value in before.items()))
        evaluator.rows.update(before)
        create_stream(connection, window, "watermark 10h ignore expired 1" if "count" in window else "ignore expired 0")
        played = Play(draw, evaluator, connection)
        for _ in range(steps):
            played.step()
            assert starts_and_results(connection, evaluator) == evaluator.results()
        if not first:
            assert connection.verify(stream="s").difference is None
    with headrace.connect(settings=settings, clock=clock) as connection:
        connection.execute("use d")
        played = Play(draw, evaluator, connection)
        for _ in range(2):
            played.step()
            assert starts_and_results(connection, evaluator) == evaluator.results()
        if not first:
            assert connection.verify(stream="s").difference is None


@pytest.mark.parametrize("window", drawn(WINDOWS, "moved rows", 3))
def test_all_results_are_those_of_an_evaluation_row_by_row(tmp_path: Path, window: str) -> None:
    play(tmp_path / "home", window, "small", 6)


@pytest.mark.parametrize("window", drawn(WINDOWS, "moved rows of large commits", 1))
def test_large_subtables_make_no_difference(tmp_path: Path, window: str) -> None:
    play(tmp_path / "home", window, "large", 6, driver_rows=7)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("window", drawn(WINDOWS, "moved rows on Spark", 1))
def test_spark_makes_no_difference(tmp_path: Path, window: str) -> None:
    play(tmp_path / "home", window, "spark", 2, kernels="never")
