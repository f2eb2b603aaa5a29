"""A job that works by the clock: it counts rows, and writes the count every ten seconds. Needs no Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.compute.plan import WSTART
from headrace.context import Context
from headrace.jobs.runners import RunnerFactory
from headrace.model.jobs import JobCounters, JobRecord
from headrace.streams.batches import BatchResult
from headrace.streams.definition.define import StreamPlan
from headrace.streams.runner import Reader, StreamRunner
from headrace.streams.sinks.sink import DeltaSink, Sink
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.state.tables import StateTable
from headrace.streams.windows.change_batch import Changes

EVERY_MS = 10_000
SQL = "create stream {name} trigger at_once into out_{name} as select _wstart, count(*) n from readings interval(10s)"


@dataclass
class Ticker:
    """Writes the number of rows at every multiple of ten seconds after the first row, one tick per micro-batch."""

    context: Context
    plan: StreamPlan
    before: Callable[[Changes], None] = lambda _: None
    every_ms: int = EVERY_MS

    def process_batch(self, state: StreamState, changes: Changes) -> BatchResult:
        self.before(changes)
        count = 0 if state.windows is None else state.windows.to_table()["count"][0].as_py()
        ticks = []
        wake_at = state.wake_at
        if wake_at is not None and wake_at <= changes.now:
            ticks.append(wake_at)
            wake_at += self.every_ms
        rows = changes.rows.num_rows
        count += rows
        counters = state.counters.plus(JobCounters(rows_in=rows, rows_used=rows, batches=1))
        if wake_at is None:
            wake_at = (changes.now // self.every_ms + 1) * self.every_ms
        upserts = pa.table(
            {
                WSTART: ticks,
                "o0": pa.array([tick * 1000 for tick in ticks], pa.timestamp("us", tz="UTC")),
                "o1": pa.array([count] * len(ticks), pa.int64()),
            }
        )
        return BatchResult(
            upserts,
            upserts.slice(0, 0),
            replace(state, windows=StateTable.of(pa.table({"count": [count]}), []), counters=counters),
            wake_at,
        )


def ticker_factory(
    before: Callable[[Changes], None] = lambda _: None,
    sink: Callable[[Context, StreamPlan], Sink] = DeltaSink,
    every_ms: int = EVERY_MS,
) -> RunnerFactory:
    """Return a factory of runners for tickers; `before` is called at the start of every micro-batch."""

    def runner(context: Context, record: JobRecord, reader: Reader) -> StreamRunner:
        return StreamRunner(
            context, record, reader, processor=lambda context, plan: Ticker(context, plan, before, every_ms), sink=sink
        )

    return runner
