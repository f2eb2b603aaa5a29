"""Division of a table's rows by time, between windows that follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from headrace.model.windows import WindowGrid
from headrace.storage.delta.pruning import MAX_INT64, Bounds

ALL_TIMES = Bounds(-MAX_INT64, MAX_INT64)


@dataclass(frozen=True, slots=True)
class RowsOverTime:
    """How many rows are earlier than each of some instants, which ascend; between them, rows are spread evenly."""

    instants: npt.NDArray[np.int64]
    earlier: npt.NDArray[np.float64]

    @classmethod
    def of(cls, extents: Sequence[Bounds], rows: Sequence[float]) -> RowsOverTime:
        """Estimate the times of rows by the least and greatest timestamp of each row group, and about how many rows it has."""
        lows = np.array([extent.low for extent in extents])
        ends = np.array([extent.high for extent in extents]) + 1
        instants = np.unique(np.concatenate([lows, ends]))
        density = np.array(rows) / (ends - lows)
        changes = np.zeros(len(instants))
        np.add.at(changes, np.searchsorted(instants, lows), density)
        np.add.at(changes, np.searchsorted(instants, ends), -density)
        between = np.cumsum(changes)[:-1] * np.diff(instants)
        return cls(instants, np.concatenate([[0.0], np.cumsum(between)]))

    @property
    def total(self) -> float:
        """About how many rows there are."""
        return float(self.earlier[-1])

    @property
    def length(self) -> int:
        """The time from the first row to the last."""
        return int(self.instants[-1] - self.instants[0])

    def cut(self, windows: WindowGrid, number: int) -> list[Bounds]:
        """Return at most `number` ranges that cover all times, have about equally many rows, and do not cut a window."""
        targets = self.total * np.arange(1, number) / number
        instants = np.interp(targets, self.earlier, self.instants)
        starts = sorted({windows.floor(int(instant)) for instant in instants})
        inner = [start for start in starts if start > self.instants[0]]
        return [Bounds(low, end - 1) for low, end in pairwise([ALL_TIMES.low, *inner, ALL_TIMES.high + 1])]
