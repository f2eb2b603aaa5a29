"""Calls of functions over series, whose rows come in parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.functions.arrow import TIME

SERIES: Final = "series"
VALUE: Final = "value"


class SeriesStream(Protocol):
    """A call of a function over some series, one after the other."""

    def process(self, rows: pa.Table, *, more: bool) -> pa.Table:
        """Return the points that the function adds for the next rows.

        Args:
            rows: `series`, a number (INT64), `time` in ticks, then `x0`, `x1`, … for the inputs, of which one at least is not NULL;
                in order of series and time. The last series may continue in the next part.
            more: whether another part follows. If not, the last series ends.

        Returns:
            `series`, `time`, `value`: by series, then in the order in which the function added them.
        """

    def close(self) -> None:
        """Free what the call holds, also after an error or before its last part."""


@dataclass(slots=True)
class WholeSeries:
    """A call of a function that takes all rows of a series at once, and so holds those of the series that may continue.

    `apply` returns `time` and `value` for `time`, `x0`, `x1`, …; of several points at one time the last counts.
    """

    apply: Callable[[pa.Table], pa.Table]
    _held: pa.Table | None = field(default=None, init=False)

    def process(self, rows: pa.Table, *, more: bool) -> pa.Table:
        """Return the points of the series that have ended."""
        rows = rows if self._held is None else pa.concat_tables([self._held, rows])
        starts = series_starts(rows[SERIES])
        ends = np.append(starts[1:], rows.num_rows)
        complete = len(starts) - 1 if more and len(starts) else len(starts)
        self._held = rows.slice(starts[-1]) if complete < len(starts) else None
        parts = [
            self._points(rows.slice(start, end - start)) for start, end in zip(starts[:complete], ends[:complete], strict=True)
        ]
        return pa.concat_tables(parts or [self._points(rows.slice(0, 0))])

    def close(self) -> None:
        """Forget the rows."""
        self._held = None

    def _points(self, rows: pa.Table) -> pa.Table:
        points = last_of_each_time(self.apply(rows.drop_columns([SERIES]).combine_chunks()))
        number = rows[SERIES][0] if rows.num_rows else pa.scalar(0, pa.int64())
        return points.add_column(0, SERIES, pa.repeat(number, points.num_rows))


def whole_series(apply: Callable[..., pa.Table], **options: object) -> Callable[[], SeriesStream]:
    """Return what opens a call of a function of a module that takes all rows of a series at once. It can be pickled."""
    return partial(WholeSeries, partial(apply, **options))


def series_starts(numbers: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the first row of each run of equal numbers."""
    values = numbers.to_numpy()
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.concatenate([np.zeros(min(len(values), 1), np.int64), changes])


def last_of_each_time(points: pa.Table) -> pa.Table:
    """Return points in order of time, without those that a later one at their time replaces."""
    ticks = pc.cast(points[TIME], pa.int64()).to_numpy()
    if (ticks[1:] > ticks[:-1]).all():
        return points
    _, last = np.unique(ticks[::-1], return_index=True)
    return points.take(pa.array(len(ticks) - 1 - last))
