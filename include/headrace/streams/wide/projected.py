"""Large commits to streams without a window: each row is one result, so they are computed piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.context import Context
from headrace.streams.batches import BatchResult, StagedWindows
from headrace.streams.definition.define import StreamPlan
from headrace.streams.keep import kept_result
from headrace.streams.sources.spill import Spill
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.wide.divided import ProcessRows
from headrace.streams.wide.parts import PartResult
from headrace.streams.wide.staging import can_stage, create_staging_folder
from headrace.streams.windows.change_batch import Changes, LargeCommit


@dataclass(frozen=True)
class ProjectedCommits:
    """Computes the large commits of one stream without a window."""

    context: Context
    plan: StreamPlan
    process_rows: ProcessRows

    def process(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult | None:
        """Return the result of a commit; None if it cannot be staged."""
        if not can_stage(self.plan):
            return None
        staged = StagedWindows(create_staging_folder(self.context, self.plan.id))
        batches = state.counters.batches + 1
        for piece in self._pieces(commit):
            result = kept_result(self.plan, self.process_rows(state, replace(changes, source=piece)), changes.now)
            part = PartResult.of(result, staged.uri)
            state, staged = part.state, staged.plus(part.files, part.retracted)
        state = replace(state, counters=replace(state.counters, batches=batches))
        no_rows = pa.table({})
        return BatchResult(no_rows, no_rows, state, staged=staged)

    def _pieces(self, commit: LargeCommit) -> Iterator[pa.Table]:
        """Yield the changes in parts, each with all changes of its rows: a row before and after an update has one result."""
        if commit.inserted is not None:
            yield from commit.plain_pieces()
            return
        with Spill.open(self.plan.source.primary_key, commit.count) as spill:
            for piece in commit.plain_pieces():
                spill.add(piece)
            for number in spill.parts():
                yield spill.read(number)
