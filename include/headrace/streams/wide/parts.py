"""What one of Spark's tasks does with a large commit: it computes the windows of a range of series, and stages their results.

A window has rows of one series, so a range of series can be computed without the others. Only the watermark depends on all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.kernels import UnsupportedError
from headrace.compute.plan import SERIES_KEY
from headrace.model.jobs import JobCounters
from headrace.storage.delta.changes import as_inserted
from headrace.storage.delta.shares import SeriesRange, Share
from headrace.streams.batches import BatchResult, StagedWindows
from headrace.streams.definition.define import StreamPlan
from headrace.streams.keep import kept_result
from headrace.streams.state.checkpoints import StreamState, event_times, window_table
from headrace.streams.wide.staging import stage_windows
from headrace.streams.windows.accounting import later_of
from headrace.streams.windows.change_batch import Bools, Changes, to_numpy, to_ticks
from headrace.streams.windows.large_commits import LargeCommits
from headrace.streams.windows.results import result_of
from headrace.streams.windows.retention import Span, evict_windows, subtable_key

MAX_CLOSED_WINDOWS: Final = 100
"""Closed windows of a slice to retain, at least two for each subtable: the driver gets those of all slices."""
Select = Callable[[pa.ChunkedArray], Bools]


@dataclass(frozen=True)
class CommitPart:
    """A range of series: the rows that a commit has of it, and what the state has."""

    share: Share
    state: StreamState


@dataclass(frozen=True)
class PartResult:
    """The result of some series.

    Attributes:
        state: The state of these series after the commit. Its counters are those of the commit alone.
        retractions: Windows to remove: key columns `p*` and `_wstart`.
        files: The names of staged files with windows to write.
    """

    state: StreamState
    retractions: pa.Table
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class PartTask:
    """What all tasks of a commit have in common. Sent to Spark's workers.

    Attributes:
        commits: Merges rows of the stream into windows.
        changes: The commit, without its rows.
        version: The version of the source that it made.
        columns: The columns of rows that the query reads.
        span: The first and last instant of its rows.
        max_event_time: The largest event time after it, in ticks.
        folder: Where results are staged.
    """

    commits: LargeCommits
    changes: Changes
    version: int
    columns: tuple[str, ...]
    span: Span
    max_event_time: int | None
    folder: str

    @property
    def plan(self) -> StreamPlan:
        """The stream."""
        return self.commits.plan

    def compute(self, part: CommitPart) -> PartResult | None:
        """Return the result of a part; None if the driver has to compute the commit, because windows need recalculation."""
        results, rest, key = list[PartResult](), part.state, part.share.key
        for rows in part.share.read(self.columns):
            names = rows[key].unique().cast(pa.string())
            own, rest = split_series(self.plan, rest, partial(contains, names))
            result = self._compute_slice(own, [as_inserted(rows, self.version)])
            if result is None:
                return None
            results.append(result)
        result = self._compute_slice(rest, [])
        return None if result is None else join_results([*results, result])

    def _compute_slice(self, state: StreamState, pieces: Iterable[pa.Table]) -> PartResult | None:
        """Return the result of all rows of some series."""
        try:
            merged = self.commits.merge_pieces(state, self.changes, pieces, self.span)
        except UnsupportedError:
            return None
        if merged is None:
            return None
        evaluated = replace(merged, count=replace(merged.count, max_event_time=self.max_event_time))
        result = result_of(self.plan, state, evaluated, MAX_CLOSED_WINDOWS)
        kept = kept_result(self.plan, result, self.changes.now)
        return PartResult(kept.state, kept.retractions, stage_windows(self.folder, kept.upserts))

    def max_time(self, part: CommitPart) -> int | None:
        """Return the largest event time of the rows of a part that pass WHERE, in ticks; None if there are none."""
        latest: int | None = None
        for rows in part.share.read(self.columns):
            passing = self.commits.kernels.passing(rows)
            if passing.any():
                times = to_ticks(rows[self.plan.source.timestamp.name], self.plan.query.precision)
                latest = later_of(latest, int(times[passing].max()))
        return latest


def whole_result(
    plan: StreamPlan, state: StreamState, results: Sequence[PartResult], max_event_time: int | None, folder: str
) -> BatchResult:
    """Return the result of a commit, whose windows to write are staged in a folder.

    Args:
        plan: The stream.
        state: The state before the commit.
        results: The results of all series.
        max_event_time: The largest event time after it, in ticks.
        folder: Where results are staged.
    """
    total = join_results(results)
    counters = state.counters.plus(total.state.counters)
    moved = replace(
        total.state,
        position=state.position,
        counters=replace(counters, batches=state.counters.batches + 1),
        max_event_time=max_event_time,
    )
    no_windows = total.retractions.slice(0, 0)
    return BatchResult(no_windows, total.retractions, evict_windows(plan, moved), staged=StagedWindows(folder, total.files))


def join_results(results: Sequence[PartResult]) -> PartResult:
    """Return the result of the series of all results."""
    first, *others = states = [result.state for result in results]
    return PartResult(
        replace(
            join_series(first, others),
            counters=reduce(JobCounters.plus, (state.counters for state in states)),
            evicted_through=reduce(later_of, (state.evicted_through for state in states)),
        ),
        pa.concat_tables([result.retractions for result in results], promote_options="permissive"),
        tuple(name for result in results for name in result.files),
    )


def contains(names: pa.ChunkedArray | pa.Array, series: pa.ChunkedArray) -> Bools:
    """Return a mask of the series that are among names."""
    return to_numpy(pc.is_in(series, pa.chunked_array([names]).combine_chunks())).astype(np.bool_)


def is_in_range(range_: SeriesRange, series: pa.ChunkedArray) -> Bools:
    """Return a mask of the series in a range."""
    mask = range_.mask(series.combine_chunks())
    return np.ones(len(series), np.bool_) if mask is None else np.asarray(mask, np.bool_)


def split_series(plan: StreamPlan, state: StreamState, select: Select) -> tuple[StreamState, StreamState]:
    """Split a state into that of the selected series and that of the others. Neither has counters."""
    key, times = subtable_key(plan), state.max_event_time_by_subtable.to_table()
    assert key is not None
    windows = None if state.windows is None else state.windows.to_table()
    has_times, has_window = select(times[SERIES_KEY]), None if windows is None else select(windows[key])

    def part(*, selected: bool) -> StreamState:
        """Return the state of the series that are selected, or not."""
        own_times = times.filter(pa.array(has_times == selected))
        own_windows = None if windows is None or has_window is None else windows.filter(pa.array(has_window == selected))
        without_counters = replace(state, counters=JobCounters(), messages=(), checkpoint=None)
        return with_tables(without_counters, own_times, own_windows, () if state.windows is None else state.windows.keys)

    return part(selected=True), part(selected=False)


def join_series(state: StreamState, others: Sequence[StreamState]) -> StreamState:
    """Return a state with the windows and event times of other series too."""
    states = [state, *others]
    tables = [part.windows for part in states if part.windows is not None and part.windows.num_rows]
    windows = pa.concat_tables([table.to_table() for table in tables], promote_options="permissive") if tables else None
    times = pa.concat_tables([part.max_event_time_by_subtable.to_table() for part in states])
    return with_tables(state, times, windows, tables[0].keys if tables else ())


def with_tables(state: StreamState, times: pa.Table, windows: pa.Table | None, keys: Sequence[str]) -> StreamState:
    """Return a state with these event times, and with these windows, which are looked up by `keys`."""
    own_windows = None if windows is None or windows.num_rows == 0 else window_table(windows, keys)
    return replace(state, max_event_time_by_subtable=event_times(times), windows=own_windows)
