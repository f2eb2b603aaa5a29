"""Which way a large commit is computed: piece by piece, by executors, or divided by series; else from all changes at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from headrace.compute.kernels import UnsupportedError
from headrace.streams.batches import BatchResult
from headrace.streams.context import Context
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.wide.commits import WideCommits, can_be_wide
from headrace.streams.wide.divided import DividedCommits, ProcessRows
from headrace.streams.windows.change_batch import Changes, LargeCommit
from headrace.streams.windows.evaluation import KernelEvaluation
from headrace.streams.windows.large_commits import LargeCommits, TooManyWindowsError
from headrace.streams.windows.results import result_of

MAX_WINDOWS: Final = 2_000_000
"""Greatest number of windows of a commit that are in this process at a time, if it can be computed in another way."""


@dataclass(frozen=True)
class LargeCommitProcessor:
    """Computes the large commits of one stream.

    Attributes:
        context: The driver's environment.
        pieces: Merges new rows piece by piece; None without kernels.
        wide: Has executors compute new rows; None if windows may have rows of several series.
        divided: Computes the changes of some series after the others; None likewise.
    """

    context: Context
    pieces: LargeCommits | None
    wide: WideCommits | None
    divided: DividedCommits | None

    def process(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult | None:
        """Return the result of a commit; None if it has to be computed from all changes at once."""
        result = self._process_inserted(state, changes, commit)
        if result is None and self.divided is not None:
            return self.divided.process(state, changes, commit)
        return result

    def _process_inserted(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult | None:
        """Return the result of new rows that are on time; None if there are others."""
        if commit.inserted is None or self.pieces is None:
            return None
        if self.wide is None:
            return self._merge(self.pieces, state, changes, commit)
        if commit.count <= self.context.settings.wide_commit_rows:
            try:
                return self._merge(replace(self.pieces, max_windows=MAX_WINDOWS), state, changes, commit)
            except TooManyWindowsError:
                pass
        return self.wide.process(state, changes, commit.inserted)

    def _merge(self, pieces: LargeCommits, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult | None:
        try:
            merged = pieces.merge(state, changes, commit)
        except UnsupportedError:
            return None
        return None if merged is None else result_of(pieces.plan, state, merged)


def large_commit_processor(
    context: Context, plan: StreamPlan, kernels: KernelEvaluation | None, process_rows: ProcessRows
) -> LargeCommitProcessor:
    """Return how the large commits of a stream are computed.

    Args:
        context: The driver's environment.
        plan: The stream.
        kernels: Its kernels; None if Spark SQL computes its windows.
        process_rows: Computes changes of some series.
    """
    if kernels is None:
        return LargeCommitProcessor(context, None, None, None)
    pieces = LargeCommits(plan, kernels)
    if not can_be_wide(plan):
        return LargeCommitProcessor(context, pieces, None, None)
    divided = DividedCommits(context, plan, kernels, process_rows)
    return LargeCommitProcessor(context, pieces, WideCommits(context, plan, kernels), divided)
