"""Backfill of a stream's history: all windows of all subtables, including the target's subtables and tags."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from benchmarks.bench import DATABASE, Bench
from benchmarks.compare import check_equal
from benchmarks.data import prepare_meters
from benchmarks.handwritten import batch
from benchmarks.measure import Memory, Timings, interleave, time_call
from benchmarks.results import Limit, Measurement
from headrace.history import backfill
from headrace.model.ledger import ChunkState
from headrace.streams.kind import STREAM

NAME = "history_fill"
TARGET = "history_result"
CREATE = """
    CREATE STREAM {name} TRIGGER AT_ONCE FILL_HISTORY 1 INTO {target} TAGS (device VARCHAR(64))
    AS SELECT _wstart AS ts, COUNT(*) AS cnt, AVG(voltage) AS av FROM {source} PARTITION BY tbname device INTERVAL(1m)
"""


class Backfill:
    """Backfills a history per round, each of a new stream into a new target."""

    def __init__(self, bench: Bench, source: str) -> None:
        self.bench = bench
        self.source = source
        self.parts: dict[str, list[float]] = {}

    def run(self) -> Sequence[float]:
        """Plan and compute all chunks. Creating the stream and going live are not measured."""
        context = self.bench.context
        self._create()
        stream = context.catalog.jobs.get(DATABASE, NAME, STREAM).definition.id
        self.parts.clear()
        start = time.perf_counter()
        chunks = backfill.plan_chunks(context, stream)
        self._record("plan", start)
        for chunk in chunks:
            chunk_start = time.perf_counter()
            result = backfill.fill_chunk(context, stream, chunk.run, chunk.number)
            assert result.state is ChunkState.DONE
            self._record(f"chunk of about {chunk.rows} rows", chunk_start)
        seconds = time.perf_counter() - start
        activation_start = time.perf_counter()
        backfill.activate(context, stream)
        backfill.go_live(context, stream)
        self._record("go live (not measured)", activation_start)
        return [seconds]

    def result(self) -> pa.Table:
        context, table = self.bench.context, self.bench.table(TARGET)
        rows = context.tables.scan(table)
        return rows.join(context.tables.tags.read(table), "tbname").select(["device", "ts", "cnt", "av"])

    def _create(self) -> None:
        self.bench.execute(f"DROP STREAM IF EXISTS {NAME}")
        self.bench.execute(f"DROP STABLE IF EXISTS {TARGET}")
        self.bench.execute(CREATE.format(name=NAME, target=TARGET, source=self.source))

    def _record(self, part: str, start: float) -> None:
        self.parts.setdefault(part, []).append(time.perf_counter() - start)


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure the backfill against a batch job that writes one Delta table."""
    sizes = bench.sizes
    table = prepare_meters(bench, sizes.rows, sizes.subtables)
    source, target = bench.location(table.name), str(bench.scratch("history"))
    ours, memory = Backfill(bench, table.name), Memory(bench.spark)

    def by_hand() -> None:
        batch.write(batch.intervals(batch.read(bench.spark, source), "1 minute"), target)

    sides = {"headrace": memory.watch("headrace", ours.run), "hand-written": memory.watch("hand-written", time_call(by_hand))}
    timings = interleave(sides, sizes.rounds, bench.log)
    theirs = batch.read(bench.spark, target).withColumnRenamed("tbname", "device").toArrow()
    check_equal(ours.result(), theirs, ("device", "ts"))
    yield Measurement(
        f"history: {sizes.rows:,} rows × {sizes.subtables} subtables, INTERVAL(1m), {theirs.num_rows:,} windows",
        timings["headrace"],
        timings["hand-written"],
        Limit(ratio=1.0),
        parts={f"{name} (last round)": Timings(tuple(seconds)) for name, seconds in ours.parts.items()},
        peaks=memory.peaks,
    )
