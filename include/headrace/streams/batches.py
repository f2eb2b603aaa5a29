"""The interface between a stream's runner and the processor of its micro-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from headrace.model.quarantine import QuarantineChange
from headrace.streams.notifications.events import WindowEvents
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.windows.change_batch import Changes


@dataclass(frozen=True, slots=True)
class StagedWindows:
    """Windows in Parquet files of a folder, which are deleted once they are committed.

    `files` have finished windows to write; `retracted`, windows to remove: key columns `p*` and `_wstart`.
    """

    uri: str
    files: tuple[str, ...] = ()
    retracted: tuple[str, ...] = ()

    def plus(self, files: tuple[str, ...], retracted: tuple[str, ...]) -> StagedWindows:
        return StagedWindows(self.uri, self.files + files, self.retracted + retracted)


@dataclass(frozen=True)
class BatchResult:
    """The result of one micro-batch.

    Attributes:
        upserts: Windows to write: key columns `p*` and outputs.
        retractions: Windows to remove: key columns `p*` and `_wstart`.
        state: The state after the micro-batch. The runner sets its position.
        wake_at: When the job needs its next micro-batch even if nothing changes, in epoch ms of the connection's clock. Each
            result replaces the request of the one before: None cancels it.
        events: The events of the stream's notification.
        messages: What has to be sent; set by the sink.
        staged: Further windows to write and to remove, which are in files.
        quarantine: What changes in quarantine.
        rewritten: How many of the windows to write are known to be in the target.
        noted: Some of the windows that were computed again, or got rows too late, as `noted_windows` returns them.
    """

    upserts: pa.Table
    retractions: pa.Table
    state: StreamState
    wake_at: int | None = None
    events: WindowEvents | None = None
    messages: tuple[bytes, ...] = ()
    staged: StagedWindows | None = None
    quarantine: QuarantineChange | None = None
    rewritten: int = 0
    noted: pa.Table | None = None


class Processor(Protocol):
    """Computes the micro-batches of one job. Writes nothing, and neither reads nor sets positions."""

    def process_batch(self, state: StreamState, changes: Changes) -> BatchResult:
        """Compute one micro-batch.

        `changes` has no rows if only the clock made the micro-batch due. `changes.now` may be at or after `state.wake_at` even if
        there are rows: do what is due by then, or ask for it again.
        """


def idle_result(state: StreamState) -> BatchResult:
    """Return a result without windows."""
    return BatchResult(pa.table({}), pa.table({}), state)
