"""What one of Spark's tasks does with a large commit: it computes the windows of a range of series, and stages their results.

A window has rows of one series, so a range of series can be computed without the others. Only the watermark depends on all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar import UnsupportedError
from headrace.model.jobs import JobCounters
from headrace.storage.delta.change_columns import as_inserted
from headrace.storage.delta.shares import Share
from headrace.streams.batches import BatchResult, StagedWindows
from headrace.streams.definition.define import StreamPlan
from headrace.streams.keep import kept_result
from headrace.streams.notifications.events import WindowEvents, join_events
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.state.tables import join_tables
from headrace.streams.wide.division import OrderedState, join_series
from headrace.streams.wide.staging import stage_windows
from headrace.streams.windows.accounting import later_of
from headrace.streams.windows.change_batch import Changes, to_ticks
from headrace.streams.windows.large_commits import LargeCommits
from headrace.streams.windows.results import result_of
from headrace.streams.windows.retention import Span, evict_windows

MAX_CLOSED_WINDOWS: Final = 100
"""Closed windows of a slice to retain, at least two for each subtable: the driver gets those of all slices."""


@dataclass(frozen=True)
class CommitPart:
    """A range of series: the rows that a commit has of it, and what the state has."""

    share: Share
    state: StreamState


@dataclass(frozen=True)
class PartResult:
    """The result of some series: their state after a commit, with the counters of the commit alone.

    Windows to write and to retract are in tables, or in staged files, whose names `files` and `retracted` have.
    """

    state: StreamState
    upserts: pa.Table | None = None
    retractions: pa.Table | None = None
    events: WindowEvents | None = None
    files: tuple[str, ...] = ()
    retracted: tuple[str, ...] = ()

    @classmethod
    def of(cls, result: BatchResult, folder: str | None) -> PartResult:
        """Return a result that is staged in a folder; None leaves it in memory."""
        if folder is None:
            return cls(result.state, result.upserts, result.retractions, result.events)
        return cls(result.state, files=stage_windows(folder, result.upserts), retracted=stage_windows(folder, result.retractions))


@dataclass(frozen=True)
class PartTask:
    """What all tasks of a commit have in common. Sent to Spark's workers.

    `changes` is the commit without its rows; `version`, that of the source which it made; `max_event_time`, the largest one after
    it, in ticks. `remaining` returns rows without those that the stream leaves out; None if it leaves out none. Results are staged
    in `folder`.
    """

    commits: LargeCommits
    changes: Changes
    version: int
    columns: tuple[str, ...]
    span: Span
    max_event_time: int | None
    remaining: Callable[[pa.Table], pa.Table] | None
    folder: str

    @property
    def plan(self) -> StreamPlan:
        return self.commits.plan

    def compute(self, part: CommitPart) -> PartResult | None:
        """Return the result of a part; None if the driver has to compute the commit, because windows need recalculation."""
        results, states = list[PartResult](), OrderedState(self.plan, part.state)
        for rows in self._read(part):
            last = pc.max(rows[part.share.key].unique().cast(pa.string())).as_py()
            result = self._compute_slice(states.take_through(last), [as_inserted(rows, self.version)])
            if result is None:
                return None
            results.append(result)
        result = self._compute_slice(states.take_through(None), [])
        return None if result is None else join_results([*results, result])

    def _compute_slice(self, state: StreamState, pieces: Iterable[pa.Table]) -> PartResult | None:
        try:
            merged = self.commits.merge_pieces(state, self.changes, pieces, self.span)
        except UnsupportedError:
            return None
        if merged is None:
            return None
        evaluated = replace(merged, count=replace(merged.count, max_event_time=self.max_event_time))
        result = result_of(self.plan, state, evaluated, MAX_CLOSED_WINDOWS)
        return PartResult.of(kept_result(self.plan, result, self.changes.now), self.folder)

    def _read(self, part: CommitPart) -> Iterator[pa.Table]:
        """Yield the rows of a part that remain, by ranges of series."""
        rows = part.share.read(self.columns)
        return rows if self.remaining is None else (slice_ for slice_ in map(self.remaining, rows) if slice_.num_rows)

    def max_time(self, part: CommitPart) -> int | None:
        """Return the largest event time of the rows of a part that pass WHERE, in ticks; None if there are none."""
        latest: int | None = None
        for rows in self._read(part):
            passing = self.commits.kernels.passing(rows)
            if passing.any():
                times = to_ticks(rows[self.plan.source.timestamp.name], self.plan.query.precision)
                latest = later_of(latest, int(times[passing].max()))
        return latest


def whole_result(plan: StreamPlan, state: StreamState, results: Sequence[PartResult], folder: str | None) -> BatchResult:
    """Return the result of a commit from the state before it and the results of all series.

    `folder` is where results are staged; None if they are in memory.
    """
    total = join_results(results)
    counters = state.counters.plus(total.state.counters)
    moved = replace(total.state, position=state.position, counters=replace(counters, batches=state.counters.batches + 1))
    return BatchResult(
        pa.table({}) if total.upserts is None else total.upserts,
        pa.table({}) if total.retractions is None else total.retractions,
        evict_windows(plan, moved),
        events=total.events,
        staged=None if folder is None else StagedWindows(folder, total.files, total.retracted),
    )


def join_results(results: Sequence[PartResult]) -> PartResult:
    first, *others = states = [result.state for result in results]
    return PartResult(
        replace(
            join_series(first, others),
            counters=reduce(JobCounters.plus, (state.counters for state in states)),
            max_event_time=reduce(later_of, (state.max_event_time for state in states)),
            evicted_through=reduce(later_of, (state.evicted_through for state in states)),
        ),
        join_tables([result.upserts for result in results]),
        join_tables([result.retractions for result in results]),
        join_events([result.events for result in results]),
        tuple(name for result in results for name in result.files),
        tuple(name for result in results for name in result.retracted),
    )
