"""How long the parts of a stream's micro-batches take, and the size of its state."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum

from headrace.model.window_notes import WindowNote
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.state.encoding import STATE_TABLES, TABLES


class Phase(StrEnum):
    """A part of a micro-batch."""

    READ = "read"
    COMPUTE = "compute"
    CHECKPOINT = "checkpoint"
    WRITE = "write"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Meter:
    """Totals since a stream's runner was created: micro-batches, and the seconds of their parts.

    `created` differs between the runners of a stream.
    """

    created: float = 0.0
    batches: int = 0
    seconds: dict[Phase, float] = field(default_factory=lambda: dict.fromkeys(Phase, 0.0))

    def since(self, earlier: Meter) -> Meter:
        """Return what was added since then; all of it if this is the meter of another runner."""
        if earlier.created != self.created:
            return self
        seconds = {phase: self.seconds[phase] - earlier.seconds[phase] for phase in Phase}
        return Meter(self.created, self.batches - earlier.batches, seconds)

    def mean_ms(self, phase: Phase) -> float | None:
        """Return the mean milliseconds of a part of a micro-batch; None without micro-batches."""
        return round(self.seconds[phase] * 1000 / self.batches, 3) if self.batches else None


class Stopwatch:
    """Adds up the durations of one runner, whose micro-batches run one after the other. `meter` can be read at any time."""

    def __init__(self) -> None:
        self.meter = Meter(time.perf_counter())
        self._read = 0.0

    @contextmanager
    def measure(self, phase: Phase) -> Iterator[None]:
        """Add the duration of the block. Reads count once their micro-batch has been computed, since most polls find nothing."""
        start = time.perf_counter()
        yield
        elapsed = time.perf_counter() - start
        if phase is Phase.READ:
            self._read = elapsed
            return
        seconds = self.meter.seconds | {phase: self.meter.seconds[phase] + elapsed}
        if phase is Phase.COMPUTE:
            seconds[Phase.READ] += self._read
            self._read = 0.0
        self.meter = replace(self.meter, seconds=seconds)

    def count(self) -> None:
        self.meter = replace(self.meter, batches=self.meter.batches + 1)


@dataclass(frozen=True, slots=True)
class RunnerSample:
    """What a runner reports of its stream: its meter, the size of the state, and the largest event time in epoch ms.

    `rows_pending` counts the rows of the sources that it has not handled, as far as it knows. `notes` are those that it keeps.
    """

    meter: Meter
    rows_pending: int
    state_windows: int
    state_bytes: int
    max_event_time_ms: int | None
    notes: tuple[WindowNote, ...] = ()


def sample_state(
    meter: Meter, state: StreamState, rows_pending: int, ticks_per_second: int, notes: tuple[WindowNote, ...] = ()
) -> RunnerSample:
    """Return what a runner reports, from its meter and its state."""
    tables = [table for name in (*STATE_TABLES, *TABLES) if (table := getattr(state, name)) is not None]
    newest = None if state.max_event_time is None else state.max_event_time * 1000 // ticks_per_second
    windows = 0 if state.windows is None else state.windows.num_rows
    return RunnerSample(meter, rows_pending, windows, sum(table.nbytes for table in tables), newest, notes)
