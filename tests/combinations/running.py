"""Plays many streams of one home, and compares their targets with the evaluator's and with VERIFY."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

import headrace
from headrace.errors import Error
from headrace.model.failpoints import FailpointError, armed
from tests.combinations.evaluator import filled
from tests.combinations.homes import PlayedHome
from tests.combinations.playing import COMPARED_UNTIL, CREATED, PARTITIONS, Play
from tests.combinations.windows import SECOND, microseconds

STEP_MS: Final = 700_000
"""Longer than all delays of triggers."""


@dataclass
class Home(PlayedHome[Play]):
    """A home with a database for each combination, played side by side."""

    is_clocked: bool = False
    """Whether the clock is that of the rows, as FORCE_WINDOW_CLOSE needs it; then all plays have rows of equal times."""
    judged: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.now = min(play.base for play in self.plays) // 1000 + CREATED * self.plays[0].scale.unit * 1000
        self.open()

    def open(self) -> None:
        self.connection = headrace.connect(self.folder, clock=headrace.ManualClock(self.now))

    def play(self) -> None:
        """Play all combinations to the end."""
        self.each(lambda play: list(play.setup()))
        self.each(lambda play: play.insert(play.rows(0, CREATED)) if play.combination["history"] != "none" else [])
        self.each(create)
        self.settle(CREATED)
        self.each(lambda play: play.insert(play.rows(0, CREATED)) if play.combination["history"] == "none" else [])
        self.settle(CREATED)
        self.each(lambda play: play.insert(play.rows(CREATED, 25)))
        self.settle(25)
        self.each(lambda play: play.insert(play.rows(25, 99)))
        self.settle(40)
        self.each(lambda play: play.happen(play.combination["first"], second=False))
        self.stop()
        self.settle(45)
        self.each(again)
        self.settle(50)
        self.each(lambda play: play.happen(play.combination["second"], second=True))
        self.settle(55)
        for number in range(4):
            self.each(partial(Play.closing, number=number))
            self.settle(100 * number + 150)
        self.backfill()
        self.settle(600)
        for play in self.plays:
            if play.name not in self.problems:
                self.judge(play)

    def enter(self, play: Play) -> None:
        with suppress(Error):
            self.connection.execute(f"use {play.name}")

    def settle(self, unit: int) -> None:
        """Let all streams process what was written, and all delays pass."""
        now = self.now + STEP_MS
        if self.is_clocked:
            now = (self.plays[0].base + unit * self.plays[0].scale.unit * SECOND) // 1000
        for _ in range(2):
            self.connection.settle()
            self.connection.clock.set(max(now, self.now))
        self.connection.settle()
        self.now = max(now, self.now)
        for play in self.plays:
            if play.evaluator.options.trigger == "force_window_close" and play.evaluator.is_running:
                play.evaluator.pass_time(self.now * 1000)

    def stop(self) -> None:
        """Open the home again, after the death of a driver if the combinations ask for it."""
        stop = self.plays[0].combination["stop"]
        if stop == "kill":
            with armed("streams.state.written:1:raise"), suppress(FailpointError, Error):
                self.connection.settle()
        if stop != "none":
            self.connection.close()
            self.open()

    def backfill(self) -> None:
        for play in self.plays:
            if play.combination["history"] == "backfill" and play.name not in self.problems:
                try:
                    self.connection.backfill(stream=f"{play.name}.s")
                    play.evaluator.backfill()
                except Error as error:
                    self.note(play, f"{error}")

    # Judging

    def judge(self, play: Play) -> None:
        """Compare a target with the evaluator's results, and VERIFY's verdict with what the evaluator expects of it."""
        try:
            found = self.target(play)
            differences = list(different(play, expected(play), found))
            if differences:
                self.note(play, "\n  ".join(["(group, start): expected, found", *differences[:4]]))
            elif problem := self.verify(play):
                self.note(play, problem)
        except Error as error:
            self.note(play, f"{error}")

    def target(self, play: Play) -> dict[tuple[Any, int], tuple[Any, ...]]:
        """Return the results by group and start in microseconds."""
        context = self.connection.session.context
        table = context.catalog.tables.get(play.name, "o")
        tags = {row["tbname"]: row for row in context.tables.tags.read(table).to_pylist()}
        has_group = PARTITIONS[play.combination["partition"]][1] and play.combination["target"] != "new"
        rows = {}
        for row in in_microseconds(context.tables.scan(table), play).to_pylist():
            start = row["ws"]
            group = tags[row["tbname"]]["p"] if has_group else row["tbname"] if play.combination["partition"] != "none" else None
            if start < play.base + COMPARED_UNTIL * play.scale.unit * SECOND:
                rows[group, start] = (row["n"], value_of(row["v"], play))
        return rows

    def verify(self, play: Play) -> str | None:
        """Return what is wrong about VERIFY's verdict, or None."""
        if play.evaluator.options.trigger == "force_window_close":
            return None
        verification = self.connection.verify(stream=f"{play.name}.s")
        if verification.equal:
            self.judged["VERIFY: equal"] += 1
            return None
        if play.evaluator.partial_groups or play.evaluator.is_beyond_query:
            self.judged["VERIFY: different, as its options say"] += 1
            return None
        if play.combination["history"] == "backfill" and play.combination["window"] == "count":
            self.judged["VERIFY: different, as the live stream counts from its first row"] += 1
            return None
        return f"VERIFY: {verification.difference}"


def in_microseconds(rows: pa.Table, play: Play) -> pa.Table:
    """Return stored rows with their times as microseconds; those of a database of nanoseconds are stored as numbers."""
    times = rows["ws"].cast(pa.int64())
    divisor = 1000 if play.combination["precision"] == "ns" else 1
    return rows.set_column(rows.column_names.index("ws"), "ws", pc.divide(times, divisor))


def value_of(value: Any, play: Play) -> Any:
    """Return a stored value, a timestamp as microseconds."""
    if play.result_type() != "timestamp" or value is None:
        return value
    return value // 1000 if isinstance(value, int) else microseconds(value)


def create(play: Play) -> list[str]:
    """Return the statement that creates the stream. One that will be replaced has another condition."""
    if play.combination["history"] == "replace":
        return [play.statement(replaced="g < 3")]
    if play.combination["history"] == "filled" and play.evaluator.options.trigger != "force_window_close":
        play.evaluator.recompute()
    else:
        play.evaluator.start()
        play.evaluator.forced_until = play.base + CREATED * play.scale.unit * SECOND + play.evaluator.options.watermark
    return [play.statement()]


def again(play: Play) -> list[str]:
    """Return the statement that computes a stream again."""
    match play.combination["history"]:
        case "reset":
            play.evaluator.recompute()
            return ["reset stream s"]
        case "replace":
            play.evaluator.recompute()
            return [play.statement()]
    return []


def expected(play: Play) -> dict[tuple[Any, int], tuple[Any, ...]]:
    """Return the evaluator's results by group and start."""
    evaluator, query = play.evaluator, play.evaluator.query
    if evaluator.options.trigger == "force_window_close":
        results = evaluator.forced_results()
    elif query.windows is None:
        results = {
            place: (images[-1].row["g"], images[-1].row[query.column])
            for place, images in evaluator.windows().items()
            if place in evaluator.written
        }
    else:
        results = filled(query, evaluator.results())
    until = play.base + COMPARED_UNTIL * play.scale.unit * SECOND
    return {place: value for place, value in results.items() if place[1] < until}


def undecided(play: Play) -> set[tuple[Any, int]]:
    """Return the windows that are open, which the target has only if a history ended while they were."""
    evaluator = play.evaluator
    shows_open = evaluator.query.windows is None or evaluator.options.trigger in ("at_once", "max_delay")
    return set() if shows_open else evaluator.open_places()


def different(play: Play, wanted: dict[Any, Any], found: dict[Any, Any]) -> Iterator[str]:
    """Yield differences. Groups whose names the target does not have are compared as a whole."""
    skipped, open_places = play.evaluator.open_groups, undecided(play)
    if play.combination["target"] == "new" and play.combination["partition"] not in ("none",):
        if skipped:
            return
        starts = {start for _, start in open_places}
        wanted, found = ({place: value for place, value in some.items() if place[1] not in starts} for some in (wanted, found))
        ours = sorted((start, *map(comparable, value)) for (_, start), value in wanted.items())
        theirs = sorted((start, *map(comparable, value)) for (_, start), value in found.items())
        yield from (
            f"{place}: {value}, missing" for place, value in wanted.items() if (place[1], *map(comparable, value)) not in theirs
        )
        yield from (
            f"{place}: {value} too much" for place, value in found.items() if (place[1], *map(comparable, value)) not in ours
        )
        if len(ours) != len(theirs):
            yield f"{len(ours)} results, {len(theirs)} found"
        return
    for place in sorted(wanted.keys() | found.keys(), key=repr):
        if place[0] in skipped or place in open_places:
            continue
        one, other = wanted.get(place), found.get(place)
        if one is None or other is None or tuple(map(comparable, one)) != tuple(map(comparable, other)):
            yield f"{place}: {one}, {other}"


def comparable(value: Any) -> str:
    """Return a text that equal values have in common, whatever their types."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return repr(value)
    if hasattr(value, "timestamp"):
        return f"{round(value.timestamp() * 1e6)}"
    number = float(value)
    return "0" if number == 0 else f"{number:.9g}" if math.isfinite(number) else repr(number)
