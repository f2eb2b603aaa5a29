"""The histories of the demonstration's three streams over real readings, against PySpark jobs that write Delta tables."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import functions as F

from benchmarks.bench import Bench
from benchmarks.measure import Memory, interleave, time_call
from benchmarks.results import Limit, Measurement
from headrace.cli.demo.readings import load_glucose, load_sea
from headrace.cli.demo.streams import STREAMS, DemoStream, compare_with_query
from headrace.storage.delta.handles import rows_uri

DATABASE = "demo"
WINDOWS = {"glucose_by_hour": ("1 hour", None), "sea_by_day": ("1 day", None), "glucose_last_6h": ("6 hours", "1 hour")}


def create_tables(bench: Bench) -> int:
    """Create the tables with all readings, and return how many there are."""
    bench.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    bench.execute(f"CREATE DATABASE {DATABASE}")
    rows = 0
    for source in (load_glucose(), load_sea()):
        bench.execute(source.create_statement)
        bench.execute(f"CREATE TABLE {DATABASE}.{source.subtable} USING {DATABASE}.{source.table} TAGS ({source.tags})")
        path = source.write_history(bench.scratch(f"demo_{source.table}"))
        rows += bench.connection.load([path], f"{DATABASE}.{source.subtable}")
    return rows


def by_hand(bench: Bench, stream: DemoStream) -> None:
    """Compute a stream's windows with PySpark, and write them to a Delta table."""
    uri = rows_uri(bench.settings.tables_uri, bench.context.catalog.tables.get(DATABASE, stream.source))
    rows = bench.spark.read.format("delta").load(uri)
    length, slide = WINDOWS[stream.name]
    items = [item.split() for item in stream.select.split(", ")[1:]]
    texts = {name: f"max{call[6:]} - min{call[6:]}" if call.startswith("spread") else call for call, name in items}
    groups = rows.groupBy("tbname", F.window("ts", length, slide).alias("window"))
    windows = groups.agg(*(F.expr(text).alias(name) for name, text in texts.items()))
    target = str(bench.home / "handwritten" / f"demo_{stream.name}")
    windows.select("window.start", "tbname", *texts).write.format("delta").mode("overwrite").save(target)


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure from the first CREATE STREAM until all streams are live."""
    rows = create_tables(bench)

    def drop() -> None:
        for stream in STREAMS:
            bench.execute(f"DROP STREAM IF EXISTS {DATABASE}.{stream.name}")
            bench.execute(f"DROP STABLE IF EXISTS {DATABASE}.{stream.target}")

    def ours() -> None:
        for stream in STREAMS:
            bench.execute(stream.create_statement)
        bench.connection.settle()

    def theirs() -> None:
        for stream in STREAMS:
            by_hand(bench, stream)

    memory = Memory(bench.spark)
    timed = time_call(ours)

    def fresh() -> list[float]:
        drop()
        return list(timed())

    sides = {"headrace": memory.watch("headrace", fresh), "hand-written": memory.watch("hand-written", time_call(theirs))}
    timings = interleave(sides, bench.sizes.rounds, bench.log)
    comparisons = [compare_with_query(bench.connection.session, stream) for stream in STREAMS]
    assert all(comparison.first_difference is None for comparison in comparisons), comparisons
    drop()
    yield Measurement(
        f"histories of the demonstration: {rows:,} readings, {len(STREAMS)} streams, "
        f"{sum(comparison.windows for comparison in comparisons):,} windows",
        timings["headrace"],
        timings["hand-written"],
        Limit(ratio=1.0),
        peaks=memory.peaks,
    )
