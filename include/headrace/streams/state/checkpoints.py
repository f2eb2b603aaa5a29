"""The state that a stream carries from one micro-batch to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from headrace.compute.plan import SERIES_KEY
from headrace.errors import TerminalError
from headrace.model.jobs import JobCounters
from headrace.model.positions import Offsets, Position
from headrace.streams.state.tables import StateTable

MAX_EVENT_TIME: Final = "_max_event_time"
MAX_EVENT_TIMES: Final = pa.schema([(SERIES_KEY, pa.string()), (MAX_EVENT_TIME, pa.int64())])
"""The largest event time of each subtable, in ticks."""


class StateError(TerminalError, code="STATE"):
    """A checkpoint is damaged, or does not match the plan."""


def event_times(times: pa.Table | None = None) -> StateTable:
    """Return the largest event times of subtables; without `times` those of none."""
    return StateTable.of(MAX_EVENT_TIMES.empty_table() if times is None else times, [SERIES_KEY])


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on storage: a complete file, and files with the changes of the following micro-batches.

    `files` has their names and checksums, in that order; the sizes are those of the complete file, and of all others.
    """

    files: tuple[tuple[str, int], ...]
    complete_bytes: int
    change_bytes: int = 0

    @property
    def name(self) -> tuple[str, int]:
        """The name and checksum of its last file, which no other checkpoint has."""
        return self.files[-1]


@dataclass(frozen=True)
class StreamState:
    """The state of a stream after a micro-batch.

    Attributes:
        position: The micro-batch and the offsets after it.
        windows: Windows in state, looked up by group: key columns `p*`, `_wstart`, `_wend` (ticks, inclusive), the plan's partial
            aggregates, and `_emitted`, an `EmitState`. None before the first window.
        max_event_time_by_subtable: Columns as in `MAX_EVENT_TIMES`. Counts only rows that pass WHERE.
        max_event_time: The largest of them; None before the first row. The watermark is this minus the watermark delay.
        evicted_through: Windows up to this start (INTERVAL) or end (others) may have been evicted: if they are not in state, they
            may have stored rows. Later windows that are not in state have none. None if nothing has been evicted.
        counters: Totals since the stream was created, without pending rows.
        deferred: Rows whose windows are recalculated at `wake_at`: the columns that the query reads. None if there are none.
        rows_before: The last rows of each group before `computed_before`, for functions that look for the row before a window.
        last_results: The last result of each group before `computed_before`, with instants in ticks, for FILL.
        computed_before: With FORCE_WINDOW_CLOSE, the start of the first window that is not computed yet, in ticks.
        tags_version: The version of the source's tags by which rows have their groups; None if the query reads no tags.
        earlier_tags: Tags of rows that were counted before they changed, as `EarlierTags` has them; None if there are none.
        due_offsets: The newest versions of the sources when a window fell due that waits until the stream has handled them.
        wake_at: When the job needs its next micro-batch even if nothing changes, in epoch ms of the connection's clock.
        handled_at: When the micro-batch was handled, by the same clock.
        messages: The micro-batch's messages. A driver that finds them uncommitted commits them.
        checkpoint: The checkpoint from which the state was restored, or as which it was last written; None if there is none.
    """

    position: Position
    windows: StateTable | None = None
    max_event_time_by_subtable: StateTable = field(default_factory=event_times)
    max_event_time: int | None = None
    evicted_through: int | None = None
    counters: JobCounters = field(default_factory=JobCounters)
    deferred: pa.Table | None = None
    rows_before: pa.Table | None = None
    last_results: pa.Table | None = None
    computed_before: int | None = None
    tags_version: int | None = None
    earlier_tags: pa.Table | None = None
    due_offsets: Offsets | None = None
    wake_at: int | None = None
    handled_at: int = 0
    messages: tuple[bytes, ...] = ()
    checkpoint: Checkpoint | None = field(default=None, compare=False)

    def watermark(self, delay: int) -> int | None:
        """Return the watermark in ticks; windows that end before it are closed. None before the first row."""
        return None if self.max_event_time is None else self.max_event_time - delay

    def closed_until(self, delay: int) -> int | None:
        """Return the instant, in ticks, up to which windows are closed: by the watermark, or the clock. None if none is."""
        return self.watermark(delay) if self.computed_before is None else self.computed_before
