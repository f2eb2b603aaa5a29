"""The sink of a stream with FILL: commits the windows of a micro-batch together with those that FILL adds and removes."""

from __future__ import annotations

from headrace.context import Context
from headrace.model.positions import Position
from headrace.storage import Commit
from headrace.streams.batches import BatchResult
from headrace.streams.definition.define import StreamPlan
from headrace.streams.filling.filler import Filler
from headrace.streams.sinks.sink import DeltaSink


class FillingSink(DeltaSink):
    """A `DeltaSink` of a stream with FILL."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        super().__init__(context, plan)
        self.filler = Filler(context, plan, self.target)

    def fence(self) -> None:
        super().fence()
        self.filler = Filler(self.context, self.plan, self.target)

    def _commit_result(self, result: BatchResult, position: Position, expected: int | None) -> bool:
        commit = Commit.of_stream(self.plan.id, position.batch, expected, self.context.epoch, position.offsets)
        return self.filler.commit(result.upserts, result.retractions, commit)


def table_sink_of(context: Context, plan: StreamPlan) -> DeltaSink:
    return FillingSink(context, plan) if plan.fills_gaps else DeltaSink(context, plan)
