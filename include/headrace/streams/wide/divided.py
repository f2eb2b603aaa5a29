"""Large commits with late, updated or deleted rows: divided by series on the driver's disk, and computed one part after the other.

A part has all changes of its series, so that it is computed like a small micro-batch, with the state of these series alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from headrace.compute.kernels import UnsupportedError
from headrace.streams.batches import BatchResult
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.keep import kept_result
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.wide.parts import PartResult, split_series, whole_result
from headrace.streams.wide.spill import Spill
from headrace.streams.wide.staging import create_staging_folder, stage_windows
from headrace.streams.windows.accounting import later_of
from headrace.streams.windows.change_batch import Changes, LargeCommit, change_batch
from headrace.streams.windows.evaluation import KernelEvaluation

ProcessRows = Callable[[StreamState, Changes], BatchResult]
"""Computes changes from all of them at once."""


@dataclass(frozen=True)
class DividedCommits:
    """Computes the large commits of one stream part by part."""

    context: Context
    plan: StreamPlan
    kernels: KernelEvaluation
    process_rows: ProcessRows

    def process(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult | None:
        """Return the result of a commit; None if it has to be computed from all changes at once."""
        with Spill.open(commit.series_key, commit.count) as spill:
            latest = state.max_event_time
            try:
                for piece in commit.plain_pieces():
                    spill.add(piece)
                    latest = later_of(latest, self._max_event_time(replace(changes, source=piece)))
            except UnsupportedError:
                return None
            if not spill.parts():
                return None
            return self._process_parts(state, replace(changes, max_event_time=latest), spill)

    def _max_event_time(self, changes: Changes) -> int | None:
        """Return the largest event time of written rows that pass WHERE, in ticks."""
        batch = change_batch(self.plan, changes, ignore_update=self.plan.ignores_updates)
        times = batch.ts[batch.is_written & self.kernels.passing(batch.rows)]
        return int(times.max()) if len(times) else None

    def _process_parts(self, state: StreamState, changes: Changes, spill: Spill) -> BatchResult:
        """Return the result of all parts. Windows to write are staged."""
        folder = create_staging_folder(self.context, self.plan.id)
        results, rest = list[PartResult](), state
        for number in spill.parts():
            own, rest = split_series(self.plan, rest, partial(spill.has_series, number))
            results.append(self._process_part(own, replace(changes, source=spill.read(number)), folder))
        return whole_result(self.plan, state, results, changes.max_event_time, folder)

    def _process_part(self, state: StreamState, changes: Changes, folder: str) -> PartResult:
        """Return the result of the changes of a part."""
        result = kept_result(self.plan, self.process_rows(state, changes), changes.now)
        return PartResult(result.state, result.retractions, stage_windows(folder, result.upserts))
