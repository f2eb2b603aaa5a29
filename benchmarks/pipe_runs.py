"""Pipes of the benchmarks: trees that they read, and when they have recorded how far they have come."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.data import START_MS, STEP_MS
from benchmarks.measure import MAX_WAIT_SECONDS
from headrace.catalog.jobs import Jobs
from headrace.model.jobs import JobProgress, JobRecord, JobState
from headrace.model.pipes import NEXT_CHUNK
from headrace.model.positions import source_id
from headrace.model.tables import Table
from headrace.model.time import Precision
from headrace.model.trees import TREE_TABLE
from headrace.model.types import DOUBLE
from headrace.pipes.events import DEVICE, TIME, DeviceRows, Measurement
from headrace.pipes.kind import PIPE
from headrace.pipes.sinks.write_back import EventPoints
from headrace.trees.points import write_points

MEASUREMENT: Final = "v"
MAX_COMMIT_ROWS: Final = 1_000_000
GROUP_SIZE: Final = 100
CHECK_SECONDS: Final = 0.5

Condition = Callable[[JobProgress], bool]


class PipeTree:
    """A tree of devices with one DOUBLE each, whose rows continue where the last ones end."""

    def __init__(self, bench: Bench, name: str, devices: int) -> None:
        """Create the database, in place of one of an earlier run."""
        self.bench, self.name = bench, name
        self.context = bench.tree.session.context
        drop_database(bench, name)
        bench.tree.execute(f"CREATE DATABASE {name}")
        self.devices = [f"{name}.g{number // GROUP_SIZE}.d{number:04d}" for number in range(devices)]
        self._next = 0

    @property
    def table(self) -> Table:
        """The table of the tree."""
        return self.context.catalog.tables.get(self.name, TREE_TABLE)

    def write(self, rows: int) -> int:
        """Commit rows of all devices in turn, a million at a time; return the last version."""
        while rows > 0:
            count = min(rows, MAX_COMMIT_ROWS)
            write_points(self.context, [EventPoints.of(self.context, self._rows(count))])
            rows -= count
        return self.context.tables.version(self.table)

    def _rows(self, count: int) -> DeviceRows:
        numbers = np.arange(self._next, self._next + count)
        self._next += count
        devices = pa.DictionaryArray.from_arrays((numbers % len(self.devices)).astype(np.int32), self.devices)
        times = START_MS + numbers // len(self.devices) * STEP_MS
        values = (numbers * 31 % 1000) / 10
        table = pa.table({TIME: times, DEVICE: devices, MEASUREMENT: values})
        return DeviceRows(table, {MEASUREMENT: Measurement(MEASUREMENT, DOUBLE)}, Precision.MILLISECOND, self.name)


def drop_database(bench: Bench, name: str) -> None:
    """Drop a database of the home if there is one."""
    if name in bench.tree.session.context.catalog.trees.databases():
        bench.tree.execute(f"DELETE DATABASE {name}")


def create_pipe(bench: Bench, name: str, source: str, sink: str) -> JobRecord:
    """Create a pipe in place of one of an earlier run; return its record."""
    drop_pipe(bench, name)
    bench.tree.execute(f"CREATE PIPE {name} WITH SOURCE ({source}) WITH SINK ({sink})")
    return bench.tree.session.context.catalog.jobs.get("", name, PIPE)


def drop_pipe(bench: Bench, name: str) -> None:
    """Drop a pipe if there is one."""
    bench.tree.execute(f"DROP PIPE IF EXISTS {name}")


class RecordedProgress:
    """Sees when pipes record their progress in the catalog of this process."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._changed = threading.Condition()
        self._newest: dict[str, tuple[float, JobProgress]] = {}

    @contextmanager
    def observe(self) -> Iterator[None]:
        """See what is recorded while the block runs."""
        original = Jobs.set_progress

        def set_progress(jobs: Jobs, id: str, progress: JobProgress, epoch: int | None = None) -> None:
            original(jobs, id, progress, epoch)
            with self._changed:
                self._newest[id] = (time.time(), progress)
                self._changed.notify_all()

        Jobs.set_progress = set_progress  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            Jobs.set_progress = original  # type: ignore[method-assign]

    def wait(self, ids: Collection[str], is_reached: Condition) -> float:
        """Wait until the progress of all of these pipes fulfills a condition; return when the last recorded it, in epoch seconds.

        Raises:
            TimeoutError: That takes too long.
            RuntimeError: A pipe has failed.
        """
        deadline = time.monotonic() + MAX_WAIT_SECONDS
        with self._changed:
            while not all(id in self._newest and is_reached(self._newest[id][1]) for id in ids):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"waited {MAX_WAIT_SECONDS:.0f} s for pipes")
                if not self._changed.wait(CHECK_SECONDS):
                    self._check(ids)
            return max(self._newest[id][0] for id in ids)

    def _check(self, ids: Collection[str]) -> None:
        for record in map(self._bench.tree.session.context.catalog.jobs.by_id, ids):
            if record.state is JobState.STOPPED:
                raise RuntimeError(f"pipe {record.definition.name} has failed: {record.reason}")


def has_read(table: Table, version: int) -> Condition:
    """Return whether a pipe has transferred a version of a table, and what was before it."""
    key = source_id(table.database, table.name)

    def is_reached(progress: JobProgress) -> bool:
        offsets = {} if progress.position is None else progress.position.offsets
        return NEXT_CHUNK not in offsets and offsets.get(key, -1) >= version

    return is_reached


def has_sent(rows: int) -> Condition:
    """Return whether a pipe has transferred a number of rows."""
    return lambda progress: progress.counters.rows_out >= rows
