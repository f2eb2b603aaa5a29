"""What a stream's target has, computed row by row in plain Python from what the documentation says of windows and options.

It reads rows one by one, in the order in which they were written, and knows nothing of micro-batches, states or plans.
"""

from __future__ import annotations

import math
import statistics
import struct
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import Any

from tests.combinations.windows import Grid, Group, Image, Key, Row, Windows

# Values


def aggregate(name: str, values: Sequence[Any]) -> Any:
    """Return an aggregate of values in order of time; all but `count` ignore NULL and are NULL without values."""
    present = [value for value in values if value is not None]
    if name == "count":
        return len(present)
    if not present:
        return None
    match name:
        case "sum":
            return sum(present)
        case "avg":
            return sum(map(Decimal, present)) / len(present)
        case "min" | "max":
            return (min if name == "min" else max)(present)
        case "first":
            return present[0]
        case "last":
            return present[-1]
        case "spread":
            return max(present) - min(present)
        case "increase":
            return float(sum(after - before if after >= before else after for before, after in pairwise(present)))
    return statistics.pstdev(map(float, present))


@dataclass(frozen=True)
class Query:
    """A stream's query. `group` returns the group of a row by its subtable, tags and values."""

    windows: Windows | Grid | None
    aggregate: str
    column: str
    passes: Callable[[int, Row], bool]
    group: Callable[[Row], Group]
    fill: str = "none"
    constants: tuple[Any, Any] = (None, None)
    is_whole: bool = False
    """Whether the value is an integer."""
    is_instant: bool = False
    is_single: bool = False
    """Whether the value is a number of single precision."""
    digits: int | None = None
    """The digits after the point that the type of the value has."""
    shown: Callable[[Any], Any] = lambda value: value
    """Converts values, such as a length of time to ticks."""
    bounding: str | None = None
    """The column that the bounds of windows depend on."""
    takes_earlier_rows: bool = True
    """Whether windows have rows from before the stream."""

    def bounds_change(self, old: Image, new: Image) -> bool:
        """Return whether a new version of a row is in other windows, which are then recalculated whatever IGNORE UPDATE says."""
        if self.windows is None or self.bounding is None:
            return self.windows is None
        return old.row[self.bounding] != new.row[self.bounding] or not self.passes(new.key[1], new.row)

    def value(self, images: Sequence[Image]) -> tuple[int, Any]:
        if self.aggregate == "increase":
            # Of a row that counts in two versions, the smaller value comes first.
            images = sorted(images, key=lambda image: (image.key[1], image.row[self.column] or 0))
        value = aggregate(self.aggregate, [image.row[self.column] for image in images])
        return len(images), self.rounded(self.shown(value))

    def rounded(self, value: Any) -> Any:
        """Return a value with the digits of its type."""
        if self.digits is None or value is None:
            return value
        return Decimal(value).quantize(Decimal(10) ** -self.digits, ROUND_HALF_UP)


@dataclass(frozen=True)
class Options:
    """A stream's options; the watermark in microseconds."""

    trigger: str
    watermark: int
    ignore_expired: bool
    ignore_update: bool
    mixes: bool = True
    """Whether groups are made by something else than the subtable."""


Place = tuple[Group, int]
"""A group and the start of a window, or the time of a row if there are no windows."""


@dataclass
class Evaluator:
    """A stream after each write. `rows` are those of the source, `counted` the versions of rows that count in each group."""

    query: Query
    options: Options
    tags: dict[str, Row]
    rows: dict[Key, Row] = field(default_factory=dict)
    counted: dict[Group, list[Image]] = field(default_factory=lambda: defaultdict(list))
    in_interval: dict[Place, list[Image]] = field(default_factory=dict)
    written: set[Place] = field(default_factory=set)
    forced: dict[Place, tuple[int, Any]] = field(default_factory=dict)
    max_by_subtable: dict[str, int] = field(default_factory=dict)
    max_time: int | None = None
    is_running: bool = False
    partial_groups: set[Group] = field(default_factory=set)
    """Groups in which rows were left out, or counted twice."""
    open_groups: set[Group] = field(default_factory=set)
    """Partial groups with windows of rows that were recalculated: how many of their rows are read again is not documented."""
    forced_until: int = 0
    frozen: dict[Place, tuple[int, Any]] = field(default_factory=dict)
    frozen_groups: set[Group] = field(default_factory=set)
    """The results of groups whose subtable was dropped, and these groups."""
    backfilled: dict[Place, list[Image]] | None = None
    """The windows after a backfill, after which nothing happens any more."""
    recomputed_until: int = 0
    """The watermark when all results were computed from the stored rows."""

    def image(self, key: Key, row: Row) -> Image:
        return Image(key, {**row, **self.tags.get(key[0], {}), "tbname": key[0]})

    def is_counted(self, image: Image) -> bool:
        return self.query.passes(image.key[1], image.row)

    # What happens

    def insert(self, rows: Mapping[Key, Row]) -> None:
        """Read the rows of one commit."""
        watermark, max_by_subtable = self.watermark, dict(self.max_by_subtable)
        before, all_touched, all_again = self.windows(), set[Place](), set[Place]()
        for key, row in rows.items():
            old = None if key not in self.rows else self.image(key, self.rows[key])
            new = self.image(key, row)
            self.rows[key] = row
            if not self.is_running:
                continue
            is_out_of_order = key[1] < max_by_subtable.get(key[0], key[1])
            is_late = self.options.ignore_expired and is_out_of_order and self.query.windows is not None
            is_update = old is not None and (not self.options.ignore_update or self.query.bounds_change(old, new))
            for version in [old, new] if is_update and old is not None else [new]:
                if self.is_counted(version):
                    self.partial_groups |= {self.query.group(version.row)} if old is not None and not is_update else set()
                    is_partial = is_out_of_order or old is not None
                    touched, again = self.read(
                        version,
                        watermark if is_late else None,
                        is_update=is_update,
                        is_partial=is_partial,
                        is_again=old is not None,
                    )
                    all_touched |= touched
                    all_again |= again
            if self.is_counted(new):
                self.advance(key)
        self.finish(before, all_touched, all_again)

    def read(
        self, image: Image, late_after: int | None, *, is_update: bool, is_partial: bool, is_again: bool
    ) -> tuple[set[Place], set[Place]]:
        """Count a version of a row in its windows, or leave it out. Return those that count it and those to be recalculated."""
        group, touched, again = self.query.group(image.row), set[Place](), set[Place]()
        for start, last in self.places(image.key[1]):
            if late_after is not None and last < late_after:
                self.partial_groups.add(group)
            elif is_update or (self.options.trigger == "continuous_window_close" and self.is_closed(last)):
                again.add((group, start))
            else:
                touched.add((group, start))
                self.count((group, start), image)
                if is_again and last < self.recomputed_until:
                    # A window that was closed before the stream was computed is read from the source when it changes.
                    self.open_groups.add(group)
                if is_partial and not isinstance(self.query.windows, Grid):
                    self.open_groups |= {group} & self.partial_groups
        return touched, again

    def open_places(self) -> set[Place]:
        """Return the windows of rows that have not closed."""
        windows = {} if isinstance(self.query.windows, Grid) else self.windows()
        return {place for place, images in windows.items() if not self.is_closed(max(image.key[1] for image in images))}

    def is_closed(self, last: int) -> bool:
        return self.watermark is not None and last < self.watermark

    def count(self, place: Place, image: Image) -> None:
        if not isinstance(self.query.windows, Grid):
            self.counted[place[0]].append(image)
        elif place in self.in_interval:
            self.in_interval[place].append(image)
        else:
            self.in_interval[place] = self.stored(place)

    def delete(self, subtable: str, times: Sequence[int]) -> None:
        """Delete rows of a subtable."""
        before, again = self.windows(), set()
        for ts in times:
            row = self.rows.pop((subtable, ts), None)
            if row is not None and self.is_counted(image := self.image((subtable, ts), row)):
                again |= {(self.query.group(image.row), start) for start, _ in self.places(ts)}
        self.finish(before, set(), again)

    def drop(self, subtable: str) -> None:
        """Drop a subtable. Its rows stay in the results until their windows are recalculated."""
        for key in [key for key in self.rows if key[0] == subtable]:
            del self.rows[key]
        self.partial_groups |= {self.query.group(image.row) for images in self.counted.values() for image in images}
        # What was not written yet of a group of its own has no table to go to.
        if self.options.mixes or self.query.windows is None:
            return
        if self.options.trigger in ("at_once", "max_delay", "window_close"):
            results = {place: value for place, value in self.results().items() if place[0] == subtable}
            self.frozen |= {place: value for place, value in results.items() if self.is_shown(place)}
            self.frozen_groups.add(subtable)
            if any(self.is_of_history(place) for place in results.keys() - self.frozen.keys()):
                self.open_groups.add(subtable)
        else:
            self.open_groups.add(subtable)

    def is_of_history(self, place: Place) -> bool:
        """Return whether all rows of a window were there when a history ended, which may have written it while it was open."""
        return max(image.key[1] for image in self.windows()[place]) <= self.recomputed_until + self.options.watermark

    def is_shown(self, place: Place) -> bool:
        """Return whether the target has the result of a window, once all delays have passed."""
        if self.options.trigger != "window_close":
            return True
        if isinstance(self.query.windows, Grid):
            last = next(
                self.query.windows.end(number) - 1
                for number in self.query.windows.numbers(place[1])
                if self.query.windows.start(number) == place[1]
            )
        else:
            last = max(image.key[1] for image in self.windows()[place])
        return self.is_closed(last)

    def set_tag(self, subtable: str, name: str, value: Any) -> None:
        """Change a tag. Under IGNORE UPDATE 0 the windows of its rows are recalculated, in the old and the new group."""
        before, again = self.windows(), set[Place]()
        old = self.tags[subtable]
        for key, row in self.rows.items():
            images = []
            for tags in (old, {**old, name: value}) if key[0] == subtable else ():
                self.tags[subtable] = tags
                images.append(self.image(key, row))
            groups = [(self.query.group(image.row),) if self.is_counted(image) else None for image in images]
            if len(set(groups)) > 1:
                counted = [self.query.group(image.row) for image in images if self.is_counted(image)]
                again |= {(group, start) for group in counted for start, _ in self.places(key[1])}
        self.tags[subtable] = {**old, name: value}
        if again and self.options.ignore_update:
            self.partial_groups |= {place[0] for place in again}
        elif self.query.windows is not None or again:
            self.finish(before, set(), again)

    def start(self) -> None:
        """Begin without the rows that are stored.

        INTERVAL and SESSION have them in the windows that the stream touches. Other windows begin with the stream's first row, and
        what they take of earlier ones when they are recalculated is not documented.
        """
        self.is_running = True
        for image in self.passing():
            if self.query.takes_earlier_rows:
                self.counted[self.query.group(image.row)].append(image)
            elif self.query.windows is not None:
                self.partial_groups.add(self.query.group(image.row))

    def backfill(self) -> None:
        """Compute the closed windows from the stored rows; open ones stay those of the rows that the stream has seen."""
        seen = {place: images for place, images in self.windows().items() if place in self.written}
        self.recompute()
        if self.query.windows is None or self.query.takes_earlier_rows:
            return
        stored, is_open = self.windows(), self.open_places()
        live_from: dict[Group, int] = {}
        for group, start in is_open:
            live_from[group] = min(start, live_from.get(group, start))
        closed = {place: images for place, images in stored.items() if place not in is_open}
        live = {place: images for place, images in seen.items() if place[1] >= live_from.get(place[0], math.inf)}
        self.backfilled = closed | live
        self.written = set(self.backfilled)

    def recompute(self) -> None:
        """Compute all results from the stored rows, as a history does."""
        self.is_running = True
        self.counted, self.in_interval = defaultdict(list), {}
        self.partial_groups, self.open_groups, self.frozen, self.frozen_groups = set(), set(), {}, set()
        for image in self.passing():
            group = self.query.group(image.row)
            self.counted[group].append(image)
            self.in_interval |= {(group, start): [] for start, _ in self.places(image.key[1])}
            self.advance(image.key)
        self.in_interval = {place: self.stored(place) for place in self.in_interval} if isinstance(self.query.windows, Grid) else {}
        self.written = set(self.windows())
        self.recomputed_until = self.watermark or 0

    def pass_time(self, now: int) -> None:
        """Compute the windows that FORCE_WINDOW_CLOSE owes at a time of the clock, from the rows that have arrived."""
        assert isinstance(self.query.windows, Grid)
        for image in self.passing():
            for number in self.query.windows.numbers(image.key[1]):
                due = self.query.windows.end(number) + self.options.watermark
                place = self.query.group(image.row), self.query.windows.start(number)
                if self.forced_until < due <= now and place not in self.forced:
                    images = self.stored(place)
                    self.forced[place] = self.query.value(images)
        self.forced_until = max(now, self.forced_until)

    # What follows

    @property
    def watermark(self) -> int | None:
        return None if self.max_time is None else self.max_time - self.options.watermark

    def advance(self, key: Key) -> None:
        self.max_by_subtable[key[0]] = max(key[1], self.max_by_subtable.get(key[0], key[1]))
        self.max_time = max(key[1], key[1] if self.max_time is None else self.max_time)

    def places(self, ts: int) -> list[tuple[int, int]]:
        """Return where a row counts: the starts of its windows of INTERVAL, else its own time, with the last instants."""
        grid = self.query.windows
        if not isinstance(grid, Grid):
            return [(ts, ts)]
        return [(grid.start(number), grid.end(number) - 1) for number in grid.numbers(ts)]

    def passing(self) -> list[Image]:
        images = [self.image(key, row) for key, row in self.rows.items()]
        return sorted((image for image in images if self.is_counted(image)), key=by_time)

    def stored(self, place: Place) -> list[Image]:
        """Return the stored rows of a window of INTERVAL, or of a group."""
        is_grid = isinstance(self.query.windows, Grid)
        return [
            image
            for image in self.passing()
            if self.query.group(image.row) == place[0]
            and (not is_grid or any(start == place[1] for start, _ in self.places(image.key[1])))
        ]

    def read_again(self, group: Group, times: set[int]) -> list[Image]:
        """Return what counts in a group after its rows were read again; without windows only the rows of these times are."""
        stored = self.stored((group, 0))
        if self.query.windows is not None:
            return stored
        others = [image for image in self.counted[group] if image.key[1] not in times]
        return [*others, *(image for image in stored if image.key[1] in times)]

    def windows(self) -> dict[Place, list[Image]]:
        """Return the windows that have rows, with the versions of rows that count."""
        if self.backfilled is not None:
            return self.backfilled
        if isinstance(self.query.windows, Grid):
            return {place: list(images) for place, images in self.in_interval.items() if images}
        return {place: images for group in self.counted for place, images in self.windows_of(group).items()}

    def windows_of(self, group: Group) -> dict[Place, list[Image]]:
        """Return the windows of rows of a group: the last version of each row bounds them, all versions count."""
        versions = defaultdict(list)
        for image in self.counted[group]:
            versions[image.key].append(image)
        bounding = sorted((images[-1] for images in versions.values()), key=by_time)
        if self.query.windows is None:
            return {(group, image.key[1]): [image] for image in bounding}
        assert not isinstance(self.query.windows, Grid)
        found = self.query.windows(bounding)
        return {(group, window[0].key[1]): [version for image in window for version in versions[image.key]] for window in found}

    def finish(self, before: Mapping[Place, Sequence[Image]], touched: set[Place], again: set[Place]) -> None:
        """Recalculate windows from the stored rows, and note which results are written."""
        if not self.is_running:
            return
        if isinstance(self.query.windows, Grid):
            self.in_interval |= {place: self.stored(place) for place in again}
            changed = touched | again
        else:
            for group in {place[0] for place in again}:
                self.open_groups |= {group} & self.partial_groups
                self.counted[group] = self.read_again(group, {start for owner, start in again if owner == group})
            after = self.windows()
            changed = {
                place
                for place, images in after.items()
                if list(before.get(place, [])) != list(images) or any((place[0], image.key[1]) in again for image in images)
            }
        self.written = (self.written | changed) & set(self.windows())

    def forced_results(self) -> dict[Place, tuple[int | None, Any]]:
        """Return what FORCE_WINDOW_CLOSE has computed, with a result of FILL for each window after the first of its group."""
        grid, query = self.query.windows, self.query
        assert isinstance(grid, Grid)
        found: dict[Place, tuple[int | None, Any]] = dict(self.forced)
        if query.fill == "none":
            return found
        for group in {place[0] for place in self.forced}:
            first = min(start for owner, start in self.forced if owner == group)
            before, number = self.forced[group, first], max(grid.numbers(first))
            while grid.end(number) + self.options.watermark <= self.forced_until:
                place = group, grid.start(number)
                if place not in found:
                    found[place] = gap(query, before, before, 0, 1)
                elif place in self.forced:
                    before = self.forced[place]
                number += 1
        return found

    @property
    def is_beyond_query(self) -> bool:
        """Whether results differ from the query over the stored rows, by what the options say."""
        stored = Evaluator(self.query, self.options, self.tags, self.rows)
        stored.recompute()
        all_results = stored.results()
        return any(all_results.get(place) != value for place, value in self.results().items())

    def results(self) -> dict[Place, tuple[int, Any]]:
        """Return the values of all results that are written, without those of FILL."""
        windows = self.windows()
        values = {place: self.query.value(sorted(windows[place], key=by_time)) for place in self.written}
        return {place: value for place, value in values.items() if place[0] not in self.frozen_groups} | self.frozen


def by_time(image: Image) -> tuple[int, str]:
    return image.key[1], image.key[0]


def filled(query: Query, results: Mapping[Place, tuple[int, Any]]) -> dict[Place, tuple[int | None, Any]]:
    """Return results with those of FILL: windows between two that follow each other in a group."""
    found: dict[Place, tuple[int | None, Any]] = dict(results)
    if query.fill == "none" or not isinstance(query.windows, Grid):
        return found
    grid, by_group = query.windows, defaultdict[Group, list[int]](list)
    for group, start in results:
        by_group[group].append(start)
    for group, starts in by_group.items():
        starts.sort()
        for before, after in pairwise(starts):
            for start in grid.between(before, after):
                found[group, start] = gap(query, results[group, before], results[group, after], start - before, after - before)
    return found


def gap(query: Query, before: tuple[Any, ...], after: tuple[Any, ...], elapsed: int, length: int) -> tuple[Any, Any]:
    """Return the values of a filled window so long after the window before, to which the one after has some length.

    A DOUBLE becomes a DECIMAL by its shortest text, as in Spark: 0.8875, and not what is a little less in binary digits.
    """
    match query.fill:
        case "null":
            return None, None
        case "prev":
            return before[0], before[1]
        case "next":
            return after[0], after[1]
        case "value":
            return query.constants
    first = math.trunc(before[0] + (after[0] - before[0]) * elapsed / length)
    low, high = before[1], after[1]
    if query.is_instant or low is None or high is None or not isinstance(low, int | float | Decimal) or isinstance(low, bool):
        return first, None
    value = float(low) + (float(high) - float(low)) * elapsed / length
    if query.digits is not None:
        return first, query.rounded(repr(value))
    if query.is_single:
        return first, struct.unpack("f", struct.pack("f", value))[0]
    return first, math.trunc(value) if query.is_whole else value
