"""Large commits that are merged piece by piece, once for each share of the windows if there are too many of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from headrace.model.jobs import JobCounters
from headrace.streams.batches import BatchResult, StagedWindows, idle_result
from headrace.streams.keep import kept_result
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.wide.parts import PartResult
from headrace.streams.wide.staging import can_stage, create_staging_folder, discard_staged
from headrace.streams.windows.change_batch import Changes, LargeCommit
from headrace.streams.windows.large_commits import TooManyWindowsError
from headrace.streams.windows.merged_commits import MergedCommits, MergedRows, WindowShare
from headrace.streams.windows.results import result_of, unevicted_result
from headrace.streams.windows.retention import evict_windows

GROWTH: Final = 4
"""How many times as many shares are tried if the windows of one are too many."""


@dataclass(frozen=True)
class MergedCommitProcessor:
    """Computes the large commits of one stream."""

    merged: MergedCommits

    @property
    def has_shares(self) -> bool:
        return bool(WindowShare.all_of(self.merged.plan).columns) and can_stage(self.merged.plan)

    def process(self, state: StreamState, changes: Changes, commit: LargeCommit, max_windows: int) -> BatchResult:
        """Return the result of a commit, with about `max_windows` windows in memory if they can be divided and staged."""
        share = WindowShare.all_of(self.merged.plan)
        if not self.has_shares:
            return self._process_all(state, changes, commit, share, None)
        while True:
            try:
                if share.count == 1:
                    return self._process_all(state, changes, commit, share, max_windows)
                return self._process_shares(state, changes, commit, share, max_windows)
            except TooManyWindowsError:
                share = replace(share, count=share.count * GROWTH)

    def _process_all(
        self, state: StreamState, changes: Changes, commit: LargeCommit, share: WindowShare, limit: int | None
    ) -> BatchResult:
        rows = self.merged.merge(commit, state, changes, share, limit)
        if rows.span is None:
            return idle_result(state)
        result = result_of(self.merged.plan, state, self.merged.evaluate(rows, state, changes, share))
        return replace(result, state=replace(result.state, deferred=rows.marks))

    def _process_shares(
        self, state: StreamState, changes: Changes, commit: LargeCommit, share: WindowShare, limit: int
    ) -> BatchResult:
        plan = self.merged.plan
        staged = StagedWindows(create_staging_folder(self.merged.context, plan.id))
        current, rows = state, MergedRows(state)
        try:
            for number in range(share.count):
                own = replace(share, number=number)
                rows = self.merged.merge(commit, state, changes, own, limit)
                if rows.span is None:
                    break
                part = self._process_share(state, current, changes, rows, own, staged.uri)
                current, staged = part.state, staged.plus(part.files, part.retracted)
        except TooManyWindowsError:
            discard_staged(staged)
            raise
        return replace(idle_result(evict_windows(plan, replace(current, deferred=rows.marks))), staged=staged)

    def _process_share(
        self, before: StreamState, current: StreamState, changes: Changes, rows: MergedRows, share: WindowShare, folder: str
    ) -> PartResult:
        """Return the result of a share, staged in a folder. Rows are counted with the first.

        `before` is the state before the commit, `current` that after the shares so far.
        """
        plan = self.merged.plan
        state = replace(current, max_event_time=before.max_event_time)
        evaluated = self.merged.evaluate(rows, state, changes, share)
        if share.number > 0:
            evaluated = replace(evaluated, count=replace(evaluated.count, counters=JobCounters()))
        result = kept_result(plan, unevicted_result(plan, state, evaluated), changes.now)
        return PartResult.of(result, folder)
