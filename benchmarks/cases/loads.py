"""Loading of Parquet files, against a PySpark job that writes the same rows to a Delta table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.bench import DATABASE, Bench
from benchmarks.data import create_meters, generate_rows
from benchmarks.handwritten import batch
from benchmarks.measure import Memory, interleave, time_call
from benchmarks.results import Measurement

NAME: Final = "load_meters"
BY_HAND: Final = "The hand-written job neither checks keys nor sorts"
TDENGINE: Final = (
    "TDengine 3.3.6 inserts 0.82 M rows/s by one connection with 50 rows × 100 tables in a statement, on another machine, idle"
)


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure a load into an empty supertable with all its subtables."""
    rows, subtables = bench.sizes.load_rows, bench.sizes.subtables
    folder, target = bench.scratch("load_files"), str(bench.scratch("load_target"))
    generate_rows(bench.spark, NAME, rows, subtables).write.parquet(str(folder))
    files = sorted(folder.glob("*.parquet"))
    memory = Memory(bench.spark)

    def ours() -> None:
        create_meters(bench, NAME, subtables)
        assert bench.connection.load(files, f"{DATABASE}.{NAME}") == rows

    def theirs() -> None:
        batch.write(bench.spark.read.parquet(str(folder)), target)

    sides = {
        "headrace": memory.watch("headrace", time_call(ours)),
        "hand-written": memory.watch("hand-written", time_call(theirs)),
    }
    timings = interleave(sides, bench.sizes.rounds, bench.log)
    assert bench.context.tables.rows(bench.table(NAME)) == batch.read(bench.spark, target).count() == rows
    yield Measurement(
        f"load of {rows:,} rows × {subtables} subtables from {len(files)} Parquet files",
        timings["headrace"],
        timings["hand-written"],
        peaks=memory.peaks,
        note=f"{rows / timings['headrace'].median / 1e6:.2f} M rows/s. {BY_HAND}. {TDENGINE}",
    )
