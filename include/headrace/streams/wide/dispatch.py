"""Which way a large commit is computed: piece by piece, by executors, or divided by series; else from all changes at once."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from headrace.compute.columnar import UnsupportedError
from headrace.context import Context
from headrace.streams.batches import BatchResult
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.wide.commits import WideCommits, can_be_wide
from headrace.streams.wide.divided import DividedCommits, ProcessRows, can_be_divided
from headrace.streams.wide.merged import MergedCommitProcessor
from headrace.streams.windows.change_batch import Changes, LargeCommit
from headrace.streams.windows.evaluation import WindowEvaluation
from headrace.streams.windows.large_commits import LargeCommits, TooManyWindowsError
from headrace.streams.windows.merged_commits import MergedCommits, can_be_merged
from headrace.streams.windows.results import result_of

MAX_WINDOWS: Final = 2_000_000
"""Greatest number of windows of a commit that are in this process at a time, if it can be computed in another way."""


@dataclass(frozen=True)
class LargeCommitProcessor:
    """Computes the large commits of one stream, in the first of these ways that can.

    New rows are merged in `pieces` (if kernels know the plan) or by executors (`wide`); `merged` also takes late, updated and
    deleted rows, unless windows depend on the order of rows; `divided` computes the changes of some series after the others. Where
    windows may have rows of several series, `wide` and `divided` are None.
    """

    context: Context
    pieces: LargeCommits | None
    wide: WideCommits | None
    merged: MergedCommitProcessor | None
    divided: DividedCommits | None

    def process(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult | None:
        """Return the result of a commit; None if it has to be computed from all changes at once."""
        result = self._process_inserted(state, changes, commit)
        if result is not None:
            return result
        if self.merged is not None:
            return self.merged.process(state, changes, commit, MAX_WINDOWS)
        return None if self.divided is None else self.divided.process(state, changes, commit)

    def _process_inserted(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult | None:
        """Return the result of new rows that are on time; None if there are others."""
        if commit.inserted is None or self.pieces is None:
            return None
        has_other_way = self.wide is not None or (self.merged is not None and self.merged.has_shares)
        if self.wide is None or commit.count <= self.context.settings.wide_commit_rows:
            pieces = replace(self.pieces, max_windows=MAX_WINDOWS if has_other_way else None)
            with suppress(TooManyWindowsError):
                try:
                    merged = pieces.merge(state, changes, commit)
                except UnsupportedError:
                    return None
                return None if merged is None else result_of(pieces.plan, state, merged)
        return None if self.wide is None else self.wide.process(state, changes, commit)


def large_commit_processor(
    context: Context, plan: StreamPlan, evaluation: WindowEvaluation, process_rows: ProcessRows
) -> LargeCommitProcessor:
    """Return how the large commits of a stream are computed; `process_rows` computes changes of some series."""
    kernels = evaluation.kernels
    return LargeCommitProcessor(
        context,
        pieces=None if kernels is None else LargeCommits(plan, kernels),
        wide=WideCommits(context, plan, kernels) if kernels is not None and can_be_wide(plan) else None,
        merged=MergedCommitProcessor(MergedCommits(context, plan, evaluation)) if can_be_merged(plan) else None,
        divided=DividedCommits(context, plan, evaluation, process_rows) if can_be_divided(plan) else None,
    )
