"""Which rows and values of devices a pipe transfers: a pattern of paths, and a range of time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.access import EVERY_PATH, PathFilter
from headrace.model.paths import PathPattern, split_path
from headrace.model.time import TickRanges
from headrace.pipes.changes import has_values, with_column
from headrace.pipes.events import DEVICE, TIME, DeviceRows
from headrace.trees.devices import may_lie_in

MAX_CACHED_PATHS: Final = 200_000
"""Pairs of a device and a measurement whose match is remembered by a pipe."""


class Pattern(Protocol):
    """A pattern of the paths of series."""

    def may_match_below(self, path: str) -> bool:
        """Return whether a series below a path may match."""

    def matches(self, device: str, measurement: str) -> bool:
        """Return whether a series matches."""


@dataclass(frozen=True, slots=True)
class PrefixPattern:
    """Matches the paths that begin with some characters."""

    prefix: str

    def may_match_below(self, path: str) -> bool:
        """Return whether a series below a path may match."""
        below = f"{path}."
        return below.startswith(self.prefix) or self.prefix.startswith(below)

    def matches(self, device: str, measurement: str) -> bool:
        """Return whether a series matches."""
        return f"{device}.{measurement}".startswith(self.prefix)


@dataclass(frozen=True, slots=True)
class TreePattern:
    """Matches paths node by node, with the wildcards `*` and `**`."""

    pattern: PathPattern

    def may_match_below(self, path: str) -> bool:
        """Return whether a series below a path may match."""
        return may_lie_in(self.pattern, path)

    def matches(self, device: str, measurement: str) -> bool:
        """Return whether a series matches."""
        return self.pattern.matches((*split_path(device), measurement))


@dataclass(frozen=True, slots=True)
class TicksRange:
    """A range of time in ticks, both ends inclusive; None is unbounded."""

    first: int | None = None
    last: int | None = None

    def clip(self, ranges: TickRanges) -> TickRanges:
        """Return the parts of ranges that lie in this one."""
        clipped = (
            (low if self.first is None else max(low, self.first), high if self.last is None else min(high, self.last))
            for low, high in ranges
        )
        return tuple((low, high) for low, high in clipped if low <= high)


ALL_TIMES: Final = TicksRange()


@dataclass(slots=True)
class Selection:
    """Selects the values of the series that match a pattern and may be read. Remembers which series do."""

    pattern: Pattern
    readable: Callable[[], PathFilter] = lambda: EVERY_PATH
    _allowed: PathFilter = EVERY_PATH
    _matched: dict[tuple[str, str], bool] = field(default_factory=dict)

    def apply(self, data: DeviceRows, times: TicksRange = ALL_TIMES) -> DeviceRows | None:
        """Return the selected values of rows within a range of time; None if there are none."""
        allowed = self.readable()
        if allowed != self._allowed:
            self._allowed = allowed
            self._matched.clear()
        rows = self._select_times(data.rows, times)
        rows = self._select_series(rows, data.columns)
        names = [name for name in rows.column_names if name in data.columns]
        rows = rows.filter(has_values(rows, names))
        filled = [TIME, DEVICE, *(name for name in names if rows[name].null_count < rows.num_rows)]
        return data.with_rows(rows.select(filled)) if rows.num_rows else None

    def _select_times(self, rows: pa.Table, times: TicksRange) -> pa.Table:
        for limit, compare in ((times.first, pc.greater_equal), (times.last, pc.less_equal)):
            if limit is not None:
                rows = rows.filter(compare(rows[TIME], limit))
        return rows

    def _select_series(self, rows: pa.Table, columns: Mapping[str, object]) -> pa.Table:
        """Return rows of devices that match, without the values of series that do not."""
        encoded = rows[DEVICE].combine_chunks()
        paths = encoded.dictionary.to_pylist()
        names = [name for name in rows.column_names if name in columns]
        matched = self._match(paths, [getattr(columns[name], "name", name) for name in names])
        if matched.all():
            return rows
        numbers = encoded.indices.to_numpy()
        for name, mask in zip(names, matched.T, strict=True):
            rows = _mask_column(rows, name, mask, numbers)
        has_match = np.logical_or.reduce(matched, axis=1)
        return rows.filter(pa.array(has_match[numbers]))

    def _match(self, paths: Sequence[str], measurements: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """Return for each device and measurement whether it matches."""
        if len(self._matched) > MAX_CACHED_PATHS:
            self._matched.clear()
        return np.array([[self._is_match(path, name) for name in measurements] for path in paths], bool).reshape(
            len(paths), len(measurements)
        )

    def _is_match(self, path: str, measurement: str) -> bool:
        key = (path, measurement)
        if key not in self._matched:
            is_allowed = self._allowed.allows_all or self._allowed.includes((*split_path(path), measurement))
            self._matched[key] = is_allowed and self.pattern.matches(path, measurement)
        return self._matched[key]


def _mask_column(
    rows: pa.Table, name: str, mask: np.ndarray[tuple[int], np.dtype[np.bool_]], numbers: np.ndarray[tuple[int], np.dtype[np.int32]]
) -> pa.Table:
    """Return rows with NULL where a column's device does not match; without the column if none does."""
    if not mask.any():
        return rows.drop_columns([name])
    if mask.all():
        return rows
    column = rows[name]
    return with_column(rows, name, pc.if_else(pa.array(mask[numbers]), column, pa.scalar(None, column.type)))
