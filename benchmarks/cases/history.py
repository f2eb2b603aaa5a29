"""Filling the history of a stream: every window of every subtable, up to the target with its subtables and tags."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pyarrow as pa

from benchmarks.bench import DATABASE, Bench
from benchmarks.compare import check_same
from benchmarks.data import filled_meters
from benchmarks.handwritten import batch
from benchmarks.measure import Memory, Timings, interleave, timed
from benchmarks.results import Line, Wanted
from headrace.history import backfill
from headrace.model.ledger import ChunkState

NAME = "history_fill"
TARGET = "history_result"
CREATE = """
    CREATE STREAM {name} TRIGGER AT_ONCE FILL_HISTORY 1 INTO {target} TAGS (device VARCHAR(64))
    AS SELECT _wstart AS ts, COUNT(*) AS cnt, AVG(voltage) AS av FROM {source} PARTITION BY tbname device INTERVAL(1m)
"""


class Ours:
    """One fill after another, each of a new stream into a new target."""

    def __init__(self, bench: Bench, source: str) -> None:
        self.bench = bench
        self.source = source
        self.parts: dict[str, list[float]] = {}

    def fill(self) -> Sequence[float]:
        """Plan and fill all chunks; making the stream before and going live after are not in it."""
        context = self.bench.context
        self._create()
        stream = context.catalog.jobs.get(DATABASE, NAME).definition.id
        self.parts.clear()
        began = time.perf_counter()
        chunks = backfill.plan_chunks(context, stream)
        self._note("plan", began)
        for chunk in chunks:
            at = time.perf_counter()
            done = backfill.fill_chunk(context, stream, chunk.run, chunk.number)
            assert done.state is ChunkState.DONE
            self._note(f"chunk of about {chunk.rows} rows", at)
        taken = time.perf_counter() - began
        at = time.perf_counter()
        backfill.activate(context, stream)
        backfill.go_live(context, stream)
        self._note("go live (not in the time)", at)
        return [taken]

    def result(self) -> pa.Table:
        context, table = self.bench.context, self.bench.table(TARGET)
        rows = context.tables.scan(table, self.bench.database)
        return rows.join(context.tables.read_tags(table), "tbname").select(["device", "ts", "cnt", "av"])

    def _create(self) -> None:
        self.bench.execute(f"DROP STREAM IF EXISTS {NAME}")
        self.bench.execute(f"DROP STABLE IF EXISTS {TARGET}")
        self.bench.execute(CREATE.format(name=NAME, target=TARGET, source=self.source))

    def _note(self, part: str, began: float) -> None:
        self.parts.setdefault(part, []).append(time.perf_counter() - began)


def run(bench: Bench) -> Iterator[Line]:
    """One line."""
    sizes = bench.sizes
    table = filled_meters(bench, sizes.rows, sizes.subtables)
    source, target = bench.location(table.name), str(bench.scratch("history"))
    ours, memory = Ours(bench, table.name), Memory(bench.spark)

    def by_hand() -> None:
        batch.write(batch.intervals(batch.read(bench.spark, source), "1 minute"), target)

    sides = {"headrace": memory.watch("headrace", ours.fill), "hand-written": memory.watch("hand-written", timed(by_hand))}
    found = interleave(sides, sizes.rounds, bench.log)
    theirs = batch.read(bench.spark, target).withColumnRenamed("tbname", "device").toArrow()
    check_same(ours.result(), theirs, ("device", "ts"))
    yield Line(
        f"history: {sizes.rows:,} rows × {sizes.subtables} subtables, INTERVAL(1m), {theirs.num_rows:,} windows",
        found["headrace"],
        found["hand-written"],
        Wanted(ratio=1.0),
        parts={f"{name} (last round)": Timings(tuple(taken)) for name, taken in ours.parts.items()},
        peaks=memory.peaks,
    )
