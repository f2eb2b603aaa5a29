"""Measurements of streams and pipes at regular intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class StreamSample:
    """What was measured of one stream or pipe at one moment. Durations and rates are of the time since the sample before.

    Attributes:
        time: Epoch milliseconds.
        rows_behind: Rows of the sources that the stream has not handled.
        lag_ms: The age of the oldest commit that it has not handled; 0 if there is none.
        event_lag_ms: How far the clock is ahead of the largest timestamp that it has handled; None before the first row.
        batch_ms: The mean duration of a micro-batch; None without any. The durations of its parts follow.
        read_ms: Reading the changes of the sources.
        compute_ms: Computing the windows.
        checkpoint_ms: Writing the checkpoint.
        write_ms: Committing the results.
        record_ms: Recording the progress in the catalog.
        state_bytes: The size of the state in memory.
        bytes_out_s: Bytes that a pipe has delivered per second.
        rows_used: Rows with this outcome since the stream was created, as in `JobCounters`; so are the other totals. None in
            samples of earlier releases.
    """

    job_id: str
    time: int
    rows_behind: int
    lag_ms: int
    event_lag_ms: int | None
    batches: int
    batch_ms: float | None
    read_ms: float | None
    compute_ms: float | None
    checkpoint_ms: float | None
    write_ms: float | None
    record_ms: float | None
    rows_in_s: float
    rows_out_s: float
    state_windows: int
    state_bytes: int
    quarantined: int
    bytes_out_s: float = 0.0
    rows_used: int | None = None
    rows_updated: int | None = None
    rows_filtered: int | None = None
    rows_expired: int | None = None
    rows_quarantined: int | None = None
    rows_dropped: int | None = None
    rows_out: int | None = None
    windows_recalculated: int | None = None


class Rate(NamedTuple):
    """Rows read and written, and bytes delivered, per second, as a sample has them."""

    time: int
    rows_in: float
    rows_out: float
    bytes_out: float = 0.0
