"""The windows that a stream has in its target: those next to a change are found in memory, or read from the target.

In memory are the first and the last start of each group, and the rows of the latest windows. They follow from the target, so that
nothing has to be restored after a restart: they are read again, as whenever another writer has changed the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.errors import HistoryGoneError
from headrace.model.tables import Table
from headrace.storage import Bounds
from headrace.storage.values.scalars import stored_nanoseconds
from headrace.streams.definition.define import StreamPlan
from headrace.streams.filling.gaps import Neighborhood, WindowKeys
from headrace.streams.filling.marks import MARK, window_mark
from headrace.streams.state.tables import ROW_ID, StateTable
from headrace.streams.windows.change_batch import Bools, Int64s, to_numpy
from headrace.streams.windows.stored_rows import coalesce_ranges, in_ranges

MAX_CACHED_WINDOWS: Final = 8_000
"""Windows to keep in memory of all groups in the target; at least `MIN_CACHED_PER_GROUP` for each that was written lately."""
MIN_CACHED_PER_GROUP: Final = 2
MAX_CACHED_PER_GROUP: Final = 64
MAX_CACHED_GROUPS: Final = 200_000
"""When windows of more groups than this are in memory, they are forgotten."""
FIRST_SLIDES: Final = 64
"""How many slides around a window its neighbors are searched first."""
WIDENING: Final = 16
"""The factor by which the search is widened until they are found."""
NEVER: Final = np.iinfo(np.int64).max
NO_GROUP: Final = -1


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
    """The windows of one stream in its target, a `table` with its hidden columns. Not thread-safe."""

    def __init__(self, context: Context, plan: StreamPlan, table: Table) -> None:
        self.context = context
        self.plan = plan
        self.table = table
        self.version: int | None = None
        self._ends: dict[str, tuple[int, int]] = {}
        self._cached = self._no_rows()

    @property
    def schema(self) -> pa.Schema:
        """The stored columns of the target."""
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
        self._cached = self._no_rows()

    def _no_rows(self) -> StateTable:
        return StateTable.of(self.schema.empty_table(), [self.table.series_key])

    def around(self, names: Sequence[str], group: Int64s, start: Int64s) -> EmittedRows:
        """Return windows of groups, among them those at these starts, and the ones before and after each.

        Two of them follow each other if one is at these starts, which the target need not have. `group` has indexes of `names`, the
        target's subtables.
        """
        cached = self._cached_windows(names, self._cached_ids(names))
        first, last = self._ends_of(names)[group].T
        requests = Requests(group, start, first, last)
        cached_from = first_starts(cached.keys.group, cached.keys.start, len(names))[group]
        missing = requests.filter(~has_neighbors(requests, cached.keys, cached_from, np.full(len(group), NEVER)))
        return self._keyed(names, pa.concat_tables([cached.rows, *self._search(names, missing)]))

    def _keyed(self, names: Sequence[str], rows: pa.Table) -> EmittedRows:
        """Return those of some rows that are in groups with these names, with their keys."""
        group = pc.index_in(rows[self.table.series_key], pa.array(names, pa.string()))
        rows = rows.filter(pc.is_valid(group))
        keys = WindowKeys(to_numpy(group.drop_null()).astype(np.int64), self._ticks(rows), np.arange(rows.num_rows))
        return EmittedRows(keys, rows)

    def _cached_ids(self, names: Sequence[str]) -> Int64s:
        return self._cached.matching(pa.table({self.table.series_key: pa.array(names, pa.string())}))

    def _cached_windows(self, names: Sequence[str], ids: Int64s) -> EmittedRows:
        return self._keyed(names, self._cached.take(ids).drop_columns(ROW_ID))

    def windows_within(self, names: Sequence[str], bounds: Bounds) -> WindowKeys:
        """Return the windows of groups with these names in a range of stored units."""
        return self._keyed(names, self._scan(None, columns=[self.table.series_key, self.table.timestamp.name], bounds=bounds)).keys

    def _search(self, names: Sequence[str], requests: Requests) -> list[pa.Table]:
        """Read the neighbors of windows from the target, in ranges that are widened until they have them."""
        span = FIRST_SLIDES * self._slide
        parts = []
        while len(requests.start):
            low, high = search_ranges(requests, span)
            parts.append(self._read([names[index] for index in np.unique(requests.group)], low, high))
            requests = requests.filter(~has_neighbors(requests, self._keyed(names, parts[-1]).keys, low, high))
            span *= WIDENING
        return parts

    @property
    def _slide(self) -> int:
        window = self.plan.query.interval
        assert window is not None
        return window.sliding.max_ticks(self.plan.query.precision)

    def _read(self, names: Sequence[str], low: Int64s, high: Int64s) -> pa.Table:
        """Return the windows of some groups in ranges of ticks, both ends inclusive."""
        bounds = [self._bounds(first, last) for first, last in coalesce_ranges(low, high)]
        condition = in_ranges(self.table.timestamp.name, self.plan.target_database.precision, bounds)
        return self._scan(self.version, tbnames=names, bounds=Bounds(bounds[0].low, bounds[-1].high), condition=condition)

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
        ids = self._cached_ids(names)
        cached = self._cached_windows(names, ids).keys
        self._set_ends(names, near)
        latest = latest_windows(near, self._ends_of(names)[:, 1], first_starts(cached.group, cached.start, len(names)))
        per_group = max(MIN_CACHED_PER_GROUP, min(MAX_CACHED_PER_GROUP, MAX_CACHED_WINDOWS // max(len(self._ends), 1)))
        kept = latest[number_from_last(near.group[latest]) < per_group]
        self._cached = self._cached.replace(ids, rows.take(pa.array(near.row[kept])))
        if self._cached.num_rows > MIN_CACHED_PER_GROUP * MAX_CACHED_GROUPS:
            self._cached = self._no_rows()

    def _set_ends(self, names: Sequence[str], near: Neighborhood) -> None:
        ends = self._ends_of(names)
        is_lost = np.zeros(ends.shape, np.bool_)
        np.logical_or.at(is_lost, near.group, near.is_retracted[:, None] & (near.start[:, None] == ends[near.group]))
        ends = np.where(is_lost, (NEVER, -NEVER), ends)
        np.minimum.at(ends[:, 0], near.group[near.is_new], near.start[near.is_new])
        np.maximum.at(ends[:, 1], near.group[near.is_new], near.start[near.is_new])
        for name, (first, last) in zip(names, ends.tolist(), strict=True):
            if first <= last:
                self._ends[name] = (first, last)
            else:
                self._ends.pop(name, None)

    def _ends_of(self, names: Sequence[str]) -> Int64s:
        return np.array([self._ends.get(name, (NEVER, -NEVER)) for name in names], np.int64).reshape(-1, 2)


def first_starts(group: Int64s, start: Int64s, groups: int) -> Int64s:
    """Return the first start in each group; `NEVER` if there is none."""
    first = np.full(groups, NEVER)
    np.minimum.at(first, group, start)
    return first


def search_ranges(requests: Requests, span: int) -> tuple[Int64s, Int64s]:
    """Return the ranges in which to search; a window beyond the first or the last one of its group has that as its neighbor."""
    nearest = np.clip(requests.start, requests.first, requests.last)
    return np.maximum(nearest - span, requests.first), np.minimum(nearest + span, requests.last)


def has_neighbors(requests: Requests, known: WindowKeys, low: Int64s, high: Int64s) -> Bools:
    """Return a mask of the requests in whose own range are windows before and after, as far as there are any.

    All windows in the ranges are known.
    """
    order = np.lexsort((known.start, known.group))
    group = np.concatenate(([NO_GROUP], known.group[order], [NO_GROUP]))
    start = np.concatenate(([0], known.start[order], [0]))
    starts, rank = np.unique(np.concatenate((start[1:-1], requests.start)), return_inverse=True)
    codes, wanted = np.split(np.concatenate((group[1:-1], requests.group)) * len(starts) + rank, [len(order)])
    left, right = np.searchsorted(codes, wanted), np.searchsorted(codes, wanted, side="right") + 1
    before = (group[left] == requests.group) & (start[left] >= low)
    after = (group[right] == requests.group) & (start[right] <= high)
    return np.asarray((before | (low <= requests.first)) & (after | (high >= requests.last)))


def latest_windows(near: Neighborhood, last: Int64s, cached_from: Int64s) -> Int64s:
    """Return the windows up to the last one of each group among which none is missing: in memory already, or in its run."""
    is_last_run = np.isin(near.run, near.run[near.is_new & (near.start == last[near.group])])
    known_from = np.minimum(cached_from, first_starts(near.group[is_last_run], near.start[is_last_run], len(last)))
    return np.flatnonzero(near.is_new & (near.start >= known_from[near.group]))


def number_from_last(group: Int64s) -> Int64s:
    """Return the number of each row among those of its group, from 0 for the last one. Rows are ordered by group."""
    return np.searchsorted(group, group, side="right") - np.arange(len(group)) - 1
