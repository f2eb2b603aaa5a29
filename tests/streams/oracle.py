"""The expected contents of a stream over `readings`, computed row by row in plain Python from the definition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.streams.environment import START, SUBTABLES, Row
from tests.streams.expected import OF_VALUES

Group = tuple[Any, ...]
Window = tuple[Group, int]
RowValues = tuple[int | None, str | None]

PARTITIONS = {"": "()", "tbname": "(tbname)", "g": "(g)", "b": "(b)", "g, b": "(g, b)"}


@dataclass(frozen=True)
class Options:
    """A stream's statement in parts; lengths in ms. `more` is a further column, one of `OF_VALUES`."""

    trigger: str = "at_once"
    watermark: int = 0
    ignore_expired: bool = False
    ignore_update: bool = False
    partition: str = ""
    where: int | None = None
    length: int = 10_000
    sliding: int | None = None
    more: str = ""

    @property
    def width(self) -> int:
        """The number of columns."""
        return 7 if self.more else 6

    def sql(self, name: str) -> str:
        where = f" where a >= {self.where}" if self.where is not None else ""
        partition = f" partition by {self.partition}" if self.partition else ""
        sliding = f" sliding({self.sliding}a)" if self.sliding else ""
        more = f", {self.more}" if self.more else ""
        return (
            f"create stream {name} trigger {self.trigger} watermark {self.watermark}a ignore expired {int(self.ignore_expired)} "
            f"ignore update {int(self.ignore_update)} into out_{name} as select _wstart ws, count(*) n, count(a) na, sum(a) total, "
            f"min(a) low, max(b) top{more} from readings{where}{partition} interval({self.length}a){sliding}"
        )

    def query(self) -> str:
        return self.sql("x").partition(" as ")[2]

    def passes(self, row: RowValues) -> bool:
        return self.where is None or (row[0] is not None and row[0] >= self.where)

    def group(self, subtable: str, g: int, row: RowValues) -> Group:
        parts = {"tbname": subtable, "g": g, "b": row[1]}
        return tuple(parts[name] for name in self.partition.split(", ") if name)

    def windows(self, ts: int) -> Iterator[int]:
        """Yield the starts of the windows that an instant lies in, latest first."""
        step = self.sliding or self.length
        start = ts - (ts + START) % step
        while start + self.length > ts:
            yield start
            start -= step


@dataclass
class Oracle:
    """One stream after each write. `windows` has the rows that count in each window, `emitted` the target's rows."""

    options: Options
    g: Mapping[str, int] = field(default_factory=lambda: SUBTABLES)
    stored: dict[tuple[str, int], RowValues] = field(default_factory=dict)
    windows: dict[Window, list[RowValues]] = field(default_factory=lambda: defaultdict(list))
    emitted: dict[Window, tuple[Any, ...]] = field(default_factory=dict)
    max_time_by_subtable: dict[str, int] = field(default_factory=dict)
    max_event_time: int | None = None
    used: int = 0
    updated: int = 0
    expired: int = 0
    filtered: int = 0

    def insert(self, rows: Sequence[Row]) -> None:
        """Process one commit of rows."""
        written = {(row[0], row[1]): (row[2], row[3]) for row in rows}
        watermark, max_time_by_subtable = self.watermark(), dict(self.max_time_by_subtable)
        touched: set[Window] = set()
        recalculate: set[Window] = set()
        for (subtable, ts), row in written.items():
            old = self.stored.get((subtable, ts))
            self.stored[subtable, ts] = row
            late = self.options.ignore_expired and ts < max_time_by_subtable.get(subtable, ts)
            images = [row] if old is None or self.options.ignore_update else [old, row]
            is_update = len(images) == 2
            self.count(row, ts, late, watermark, is_update)
            for image in filter(self.options.passes, images):
                for start in self.options.windows(ts):
                    window = (self.options.group(subtable, self.g[subtable], image), start)
                    if late and watermark is not None and start + self.options.length - 1 < watermark:
                        continue
                    if is_update:
                        recalculate.add(window)
                    else:
                        self.windows[window].append(image)
                        touched.add(window)
            if self.options.passes(row):
                self.max_time_by_subtable[subtable] = max(ts, self.max_time_by_subtable.get(subtable, ts))
                self.max_event_time = max(ts, ts if self.max_event_time is None else self.max_event_time)
        self.finish_write(touched, recalculate)

    def count(self, row: RowValues, ts: int, late: bool, watermark: int | None, is_update: bool) -> None:
        last = next(self.options.windows(ts)) + self.options.length - 1
        if not self.options.passes(row):
            self.filtered += 1
        elif late and watermark is not None and last < watermark:
            self.expired += 1
        elif is_update:
            self.updated += 1
        else:
            self.used += 1

    def delete(self, subtable: str, first: int, last: int) -> None:
        """Process one delete."""
        recalculate = set()
        for (name, ts), row in list(self.stored.items()):
            if name == subtable and first <= ts <= last:
                del self.stored[name, ts]
                if self.options.passes(row):
                    recalculate |= {(self.options.group(name, self.g[name], row), start) for start in self.options.windows(ts)}
        self.finish_write(set(), recalculate)

    def finish_write(self, touched: set[Window], recalculate: set[Window]) -> None:
        """Recalculate windows and update the target at the end of a write."""
        for window in recalculate:
            self.windows[window] = self.recalculated(window)
        for window in list(self.windows):
            if not self.windows[window]:
                del self.windows[window]
                self.emitted.pop(window, None)
        for window in self.windows:
            changed = window in touched or window in recalculate or window not in self.emitted
            if changed and (self.options.trigger == "at_once" or self.closed(window)):
                self.emitted[window] = self.value(window)

    def recalculated(self, window: Window) -> list[RowValues]:
        group, start = window
        return [
            row
            for (subtable, ts), row in self.stored.items()
            if self.options.passes(row)
            and self.options.group(subtable, self.g[subtable], row) == group
            and start <= ts < start + self.options.length
        ]

    def watermark(self) -> int | None:
        return None if self.max_event_time is None else self.max_event_time - self.options.watermark

    def closed(self, window: Window) -> bool:
        watermark = self.watermark()
        return watermark is not None and window[1] + self.options.length - 1 < watermark

    def value(self, window: Window) -> tuple[Any, ...]:
        rows = self.windows[window]
        numbers = [a for a, _ in rows if a is not None]
        texts = [b for _, b in rows if b is not None]
        total, low = (sum(numbers), min(numbers)) if numbers else (None, None)
        values = (window[1], len(rows), len(numbers), total, low, max(texts) if texts else None)
        return (*values, OF_VALUES[self.options.more]([a for a, _ in rows])) if self.options.more else values

    def results(self) -> list[tuple[Any, ...]]:
        """Return the rows of the target without tags, ordered."""
        return sorted(self.emitted.values(), key=repr)
