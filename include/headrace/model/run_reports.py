"""Reports of what runs of jobs do, for who follows them from outside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from headrace.model.jobs import JobDefinition
from headrace.model.ledger import Chunk
from headrace.model.time import Precision

BACKFILL: Final = "backfill"


class RunState(StrEnum):
    """What happens to a run, in the words of OpenLineage."""

    START = "START"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True)
class RunReport:
    """What has happened to a run.

    Attributes:
        definition: The job.
        run: What identifies the run among those of the job. All reports of a run have the same.
        state: What has happened.
        part: What of the job runs: `BACKFILL` for a chunk of its history; empty for the job itself.
        started: When the run began, in epoch milliseconds.
        range: The times that it computes, from the first to before the last, in epoch milliseconds; None if it has no end.
        rows_in, rows_out, bytes_out: What the run has read and written so far; None if that is not known.
        error: Why it failed.
    """

    definition: JobDefinition
    run: str
    state: RunState
    part: str = ""
    started: int = 0
    range: tuple[int, int] | None = None
    rows_in: int | None = None
    rows_out: int | None = None
    bytes_out: int | None = None
    error: str | None = None


def chunk_report(definition: JobDefinition, chunk: Chunk, precision: Precision | None = None) -> RunReport:
    """Return the report that a chunk of a backfill begins now; with the precision of its times, they are its range."""
    started = time.time_ns() // 1_000_000
    run, times = f"{chunk.run}/{chunk.number}/{started}", None
    if precision is not None:
        times = (chunk.start * 1000 // precision.ticks_per_second, chunk.end * 1000 // precision.ticks_per_second)
    return RunReport(definition, run, RunState.START, BACKFILL, started, times, rows_in=chunk.rows)


class RunReports:
    """Takes reports. Never waits, and never raises an error. By default it drops them, as no receiver is configured."""

    def report(self, report: RunReport) -> None:
        """Take a report."""

    def counts(self) -> dict[str, int]:
        """Return how many reports were sent and dropped; empty if none are sent at all."""
        return {}

    def close(self) -> None:
        """Send what waits, for a few seconds at most, and take no more."""


@contextmanager
def reported(reports: RunReports, start: RunReport) -> Iterator[list[RunReport]]:
    """Report that a run begins, and how it ends; `ended[0] = …` changes the report of its end, such as the rows."""
    ended = [replace(start, state=RunState.COMPLETE)]
    reports.report(start)
    try:
        yield ended
    except Exception as error:
        reports.report(replace(start, state=RunState.FAIL, error=str(error)))
        raise
    except BaseException:
        reports.report(replace(start, state=RunState.ABORT))
        raise
    reports.report(ended[0])
