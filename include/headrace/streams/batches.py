"""A micro-batch of one job: what it computes, and what computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows.changes import Changes


@dataclass(frozen=True)
class BatchResult:
    """What a micro-batch comes to.

    Attributes:
        upserts: Windows to write: `p*` and outputs.
        retractions: Windows to remove: `p*` and `_wstart`.
        state: The state after it; the runner gives it its position.
        wake_at: When the job wants its next micro-batch even if nothing has changed, in epoch ms of the connection's clock. Each
            result says so anew: None cancels what an earlier one asked for.
    """

    upserts: pa.Table
    retractions: pa.Table
    state: StreamState
    wake_at: int | None = None


class Processor(Protocol):
    """Computes the micro-batches of one job. It writes nothing, and neither knows nor sets positions."""

    def run(self, state: StreamState, changes: Changes) -> BatchResult:
        """Compute one micro-batch.

        `changes` has no rows if the clock alone is the reason. `changes.now` may be at or after `state.wake_at` with rows as well:
        whatever is due then is to be done, or asked for again.
        """


def idle(state: StreamState) -> BatchResult:
    """The result of a micro-batch without rows for the job."""
    nothing = pa.table({})
    return BatchResult(nothing, nothing, state)
