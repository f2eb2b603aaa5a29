"""The ledger of backfills: chunks, and the progress of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

HISTORY: Final = "history"
"""The run that backfills a job's history; other runs are recomputations that a user started."""
EARLIER: Final = "earlier runs"
"""What is left of runs that have ended long ago: the ranges that they have computed."""


class ChunkState(StrEnum):
    """State of a backfill chunk."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of a backfill: event times `[start, end)` in ticks of the source, evaluated at a fixed source version.

    `first_series` (inclusive) and `end_series` (exclusive) restrict it to some series, by their names; None is no limit.
    """

    job_id: str
    run: str
    number: int
    start: int
    end: int
    rows: int
    state: ChunkState = ChunkState.PENDING
    message: str | None = None
    first_series: str | None = None
    end_series: str | None = None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Progress of a backfill run, in epoch milliseconds. Of the `rows` planned, `rows_planned_done` are in chunks that are done."""

    job_id: str
    run: str
    chunks: int
    done: int
    running: int
    failed: int
    rows: int
    rows_planned_done: int
    rows_done: int
    started: int | None = None
    updated: int | None = None

    @property
    def complete(self) -> bool:
        """True once every chunk is done."""
        return self.done == self.chunks

    @property
    def fraction(self) -> float:
        """The share that is done, 0 to 1: by planned rows, or by chunks if none were planned; 1 if there is nothing to do."""
        done, total = (self.rows_planned_done, self.rows) if self.rows else (self.done, self.chunks)
        return done / total if total else 1.0

    def eta_ms(self, now: int) -> int | None:
        """Return the milliseconds that the rest takes at the current pace; None while the pace is unknown."""
        if self.complete:
            return 0
        if self.started is None or not self.fraction:
            return None
        return max(0, round((now - self.started) * (1 - self.fraction) / self.fraction))


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges of whole numbers, both ends inclusive, in order; those that overlap or adjoin are one."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return merged
