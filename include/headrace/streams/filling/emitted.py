"""The windows that a stream has in its target: those next to a change are found in memory, or read from the target.

In memory are the first and the last start of each group, and the rows of the latest windows. They follow from the target, so that
nothing has to be restored after a restart: they are read again, as whenever another writer has changed the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.window_plans import IntervalWindow
from headrace.context import Context
from headrace.errors import HistoryGoneError
from headrace.storage import Bounds
from headrace.storage.values.scalars import stored_nanoseconds
from headrace.streams.definition.define import StreamPlan
from headrace.streams.filling.gaps import Neighborhood, WindowKeys
from headrace.streams.filling.marks import MARK, marked_table, window_mark
from headrace.streams.windows.change_batch import Bools, Int64s, to_numpy
from headrace.streams.windows.stored_rows import coalesce_ranges

MAX_CACHED_WINDOWS: Final = 8_000
"""Windows to keep in memory; at least `MIN_CACHED_PER_GROUP` for each group that was written lately."""
MIN_CACHED_PER_GROUP: Final = 2
MAX_CACHED_PER_GROUP: Final = 64
MAX_CACHED_GROUPS: Final = 200_000
"""When windows of more groups than this are in memory, they are forgotten."""
FIRST_SLIDES: Final = 64
"""How many slides around a window its neighbors are searched first."""
WIDENING: Final = 16
"""The factor by which the search is widened until they are found."""
NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class EmittedRows:
    """Windows of the target: their keys, with the indexes of their rows."""

    keys: WindowKeys
    rows: pa.Table


@dataclass(frozen=True)
class Requests:
    """Windows whose neighbors are needed, and the first and last window of the group of each (`NEVER`, `-NEVER`: none)."""

    group: Int64s
    start: Int64s
    first: Int64s
    last: Int64s

    def filter(self, mask: Bools) -> Requests:
        return Requests(self.group[mask], self.start[mask], self.first[mask], self.last[mask])


class EmittedWindows:
    """The windows of one stream in its target. Not thread-safe."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan
        self.table = marked_table(plan)
        self.version: int | None = None
        self._ends: dict[str, tuple[int, int]] = {}
        self._ids: dict[str, int] = {}
        self._cached_id = np.empty(0, np.int64)
        self._cached_start = np.empty(0, np.int64)
        self._cached_rows: pa.Table | None = None

    @property
    def schema(self) -> pa.Schema:
        """The stored columns of the target, with the mark."""
        return self.context.tables.schema(self.table, self.plan.target_database)

    def forget(self) -> None:
        """Read everything again next time."""
        self.version = None

    def refresh(self) -> int:
        version = self.context.tables.version(self.table)
        if self.version is None or (version != self.version and self._has_changed(self.version + 1, version)):
            self._load(version)
        self.version = version
        return version

    def _has_changed(self, first: int, last: int) -> bool:
        try:
            return self.context.tables.changes.count(self.table, first, last) > 0
        except HistoryGoneError:
            return True

    def _load(self, version: int) -> None:
        """Read the first and the last start of each group."""
        names = [self.table.series_key, self.table.timestamp.name]
        rows = self._scan(version, columns=names)
        starts = pa.table({"name": rows[names[0]], "start": self._ticks(rows)})
        ends = starts.group_by("name").aggregate([("start", "min"), ("start", "max")])
        columns = (ends[name].to_pylist() for name in ("name", "start_min", "start_max"))
        self._ends = {name: (first, last) for name, first, last in zip(*columns, strict=True)}
        self._clear_cache()

    def _clear_cache(self) -> None:
        self._ids.clear()
        self._cached_id, self._cached_start, self._cached_rows = np.empty(0, np.int64), np.empty(0, np.int64), None

    def around(self, names: Sequence[str], group: Int64s, start: Int64s) -> EmittedRows:
        """Return windows of groups, among them those at these starts, and the ones before and after each.

        Two of them follow each other if one is at these starts, which the target need not have. `group` has indexes of `names`, the
        target's subtables.
        """
        if len(self._ids) > MAX_CACHED_GROUPS:
            self._clear_cache()
        ids = np.array([self._ids.setdefault(name, len(self._ids)) for name in names], np.int64)
        ends = self._ends_of(names)
        cached = self._cached(ids)
        requests = Requests(group, start, ends[group, 0], ends[group, 1])
        parts = [cached, *self._search(names, requests.filter(~is_covered(requests, cached.keys, len(names))))]
        rows = pa.concat_tables([part.rows for part in parts])
        keys = WindowKeys(
            np.concatenate([part.keys.group for part in parts]),
            np.concatenate([part.keys.start for part in parts]),
            np.arange(rows.num_rows),
        )
        return EmittedRows(keys, rows)

    def windows_within(self, bounds: Bounds) -> tuple[list[str], Int64s]:
        rows = self._scan(None, columns=[self.table.series_key, self.table.timestamp.name], bounds=bounds)
        return rows[self.table.series_key].to_pylist(), self._ticks(rows)

    def _cached(self, ids: Int64s) -> EmittedRows:
        if self._cached_rows is None:
            return EmittedRows(WindowKeys(*(np.empty(0, np.int64) for _ in range(3))), self.schema.empty_table())
        group_of = np.full(len(self._ids), -1)
        group_of[ids] = np.arange(len(ids))
        group = group_of[self._cached_id]
        index = np.flatnonzero(group >= 0)
        rows = self._cached_rows.take(pa.array(index))
        return EmittedRows(WindowKeys(group[index], self._cached_start[index], np.arange(len(index))), rows)

    def _search(self, names: Sequence[str], requests: Requests) -> list[EmittedRows]:
        """Read the neighbors of windows from the target, in ranges that are widened until they have them."""
        span = FIRST_SLIDES * self._slide
        parts = []
        while len(requests.start):
            low, high = search_ranges(requests, span)
            wanted = [names[index] for index in np.unique(requests.group)]
            read = self._read(names, wanted, low, high)
            parts.append(read)
            requests = requests.filter(~has_neighbors(requests, read.keys, low, high))
            span *= WIDENING
        return parts

    @property
    def _slide(self) -> int:
        window = self.plan.query.window
        assert isinstance(window, IntervalWindow)
        return window.sliding.max_ticks(self.plan.query.precision)

    def _read(self, names: Sequence[str], wanted: list[str], low: Int64s, high: Int64s) -> EmittedRows:
        """Return the windows of some groups in ranges of ticks, both ends inclusive."""
        bounds = [self._bounds(first, last) for first, last in coalesce_ranges(low, high)]
        field = pc.field(self.table.timestamp.name)
        type_ = self.schema.field(self.table.timestamp.name).type
        parts = [
            (field >= pa.scalar(one.low, pa.int64()).cast(type_)) & (field <= pa.scalar(one.high, pa.int64()).cast(type_))
            for one in bounds
        ]
        outer = Bounds(bounds[0].low, bounds[-1].high)
        rows = self._scan(self.version, tbnames=wanted, bounds=outer, condition=reduce(or_, parts))
        group_of = {name: index for index, name in enumerate(names)}
        series = rows[self.table.series_key].to_pylist()
        group = np.array([group_of[name] for name in series], np.int64)
        return EmittedRows(WindowKeys(group, self._ticks(rows), np.arange(rows.num_rows)), rows)

    def _scan(
        self,
        version: int | None,
        *,
        columns: Sequence[str] | None = None,
        tbnames: Sequence[str] | None = None,
        bounds: Bounds | None = None,
        condition: pc.Expression | None = None,
    ) -> pa.Table:
        """Return the rows of windows of the query, as stored."""
        is_window = pc.field(MARK.name) == window_mark(self.plan)
        return self.context.tables.scan(
            self.table,
            columns=self.schema.names if columns is None else columns,
            filter=is_window if condition is None else is_window & condition,
            version=version,
            tbnames=tbnames,
            bounds=bounds,
        )

    def _ticks(self, rows: pa.Table) -> Int64s:
        """Return the timestamps of rows in ticks of the source."""
        stored = to_numpy(rows[self.table.timestamp.name].cast(pa.int64())).astype(np.int64)
        unit, tick = stored_nanoseconds(self.plan.target_database.precision), self.plan.query.precision.nanoseconds
        return stored * (unit // tick) if unit >= tick else stored // (tick // unit)

    def _bounds(self, first: int, last: int) -> Bounds:
        """Return a range of ticks of the source in the units that the target stores."""
        unit, tick = stored_nanoseconds(self.plan.target_database.precision), self.plan.query.precision.nanoseconds
        return Bounds(first * tick // unit, last * tick // unit)

    def committed(self, version: int, names: Sequence[str], near: Neighborhood, rows: pa.Table) -> None:
        """Take over what was committed: changed windows and their neighbors, with their rows.

        `version` is that of the target after the commit, `names` has the subtables of the groups in `near`.
        """
        self.version = version
        cached_from = self._first_cached(names)
        self._set_ends(names, near)
        self._set_cached(names, near, rows, cached_from)

    def _first_cached(self, names: Sequence[str]) -> Int64s:
        """Return for each group its first window in memory; `NEVER` if there is none."""
        first = np.full(len(self._ids), NEVER)
        np.minimum.at(first, self._cached_id, self._cached_start)
        return first[[self._ids[name] for name in names]]

    def _set_ends(self, names: Sequence[str], near: Neighborhood) -> None:
        old = self._ends_of(names)
        low, high = np.full(len(names), NEVER), np.full(len(names), -NEVER)
        np.minimum.at(low, near.group[near.is_new], near.start[near.is_new])
        np.maximum.at(high, near.group[near.is_new], near.start[near.is_new])
        retracted = near.is_retracted
        lost = [np.zeros(len(names), np.bool_) for _ in range(2)]
        for side in range(2):
            lost[side][near.group[retracted & (near.start == old[near.group, side])]] = True
        first = np.where(lost[0], low, np.minimum(low, old[:, 0]))
        last = np.where(lost[1], high, np.maximum(high, old[:, 1]))
        for name, ends in zip(names, zip(first.tolist(), last.tolist(), strict=True), strict=True):
            if ends[0] <= ends[1]:
                self._ends[name] = ends
            else:
                self._ends.pop(name, None)

    def _set_cached(self, names: Sequence[str], near: Neighborhood, rows: pa.Table, cached_from: Int64s) -> None:
        """Keep the latest windows of changed groups in memory, without a gap up to the last one of each."""
        ids = np.array([self._ids[name] for name in names], np.int64)
        is_latest = (near.start >= cached_from[near.group]) | is_in_last_run(near, self._ends_of(names)[:, 1], cached_from)
        added = np.flatnonzero(near.is_new & is_latest)
        is_touched = np.zeros(len(self._ids), np.bool_)
        is_touched[ids] = True
        others = np.flatnonzero(~is_touched[self._cached_id])
        kept_rows = self.schema.empty_table() if self._cached_rows is None else self._cached_rows.take(pa.array(others))
        all_ids = np.concatenate((self._cached_id[others], ids[near.group[added]]))
        all_starts = np.concatenate((self._cached_start[others], near.start[added]))
        all_rows = pa.concat_tables([kept_rows, rows.take(pa.array(near.row[added]))])
        index = select_latest(all_ids, all_starts)
        self._cached_id, self._cached_start = all_ids[index], all_starts[index]
        self._cached_rows = all_rows.take(pa.array(index)).combine_chunks()

    def _ends_of(self, names: Sequence[str]) -> Int64s:
        return np.array([self._ends.get(name, (NEVER, -NEVER)) for name in names], np.int64).reshape(-1, 2)


def is_covered(requests: Requests, cached: WindowKeys, groups: int) -> Bools:
    first = np.full(groups, NEVER)
    np.minimum.at(first, cached.group, cached.start)
    own = first[requests.group]
    return np.asarray((requests.first == NEVER) | (own <= requests.first) | (requests.start > own))


def search_ranges(requests: Requests, span: int) -> tuple[Int64s, Int64s]:
    """Return the ranges in which to search; a window beyond the first or the last one of its group has that as its neighbor."""
    nearest = np.clip(requests.start, requests.first, requests.last)
    return np.maximum(nearest - span, requests.first), np.minimum(nearest + span, requests.last)


def has_neighbors(requests: Requests, read: WindowKeys, low: Int64s, high: Int64s) -> Bools:
    """Return a mask of the requests whose own range has windows before and after, as far as there are any."""
    order = np.lexsort((read.start, read.group))
    group, start = read.group[order], read.start[order]
    before = np.zeros(len(requests.start), np.bool_)
    after = np.zeros(len(requests.start), np.bool_)
    for number, (own, instant) in enumerate(zip(requests.group.tolist(), requests.start.tolist(), strict=True)):
        own_starts = start[np.searchsorted(group, own) : np.searchsorted(group, own, side="right")]
        left, right = np.searchsorted(own_starts, instant), np.searchsorted(own_starts, instant, side="right")
        before[number] = left > 0 and own_starts[left - 1] >= low[number]
        after[number] = right < len(own_starts) and own_starts[right] <= high[number]
    return np.asarray((before | (low <= requests.first)) & (after | (high >= requests.last)))


def is_in_last_run(near: Neighborhood, last: Int64s, cached_from: Int64s) -> Bools:
    """Return a mask of the windows up to the last one of a group of which none is in memory, as far as none is missing."""
    is_last = near.is_new & (near.start == last[near.group]) & (cached_from[near.group] == NEVER)
    return np.isin(near.run, near.run[is_last])


def select_latest(ids: Int64s, starts: Int64s) -> Int64s:
    order = np.lexsort((-starts, ids))
    sorted_ids = ids[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = np.diff(sorted_ids) != 0
    first = np.flatnonzero(is_first)
    rank = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    per_group = int(np.clip(MAX_CACHED_WINDOWS // max(len(first), 1), MIN_CACHED_PER_GROUP, MAX_CACHED_PER_GROUP))
    return order[rank < per_group]
