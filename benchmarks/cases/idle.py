"""The CPU time of a driver whose streams have nothing to do, against a Structured Streaming query that has nothing to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import psutil

from benchmarks.bench import Bench
from benchmarks.data import create_meters, generate_batch
from benchmarks.driver import running_driver
from benchmarks.handwritten import streaming
from benchmarks.measure import Side, interleave, wait_until
from benchmarks.results import Limit, Measurement
from headrace.model.tables import Table

STREAMS_PER_SOURCE: Final = 50
SUBTABLES: Final = 10
MAX_RATIO: Final = 1.0
CREATE: Final = """
    CREATE STREAM {name} TRIGGER AT_ONCE INTO {name}_result
    AS SELECT _wstart, count(*) n, avg(current) mean FROM {source} PARTITION BY tbname INTERVAL(1m)
"""


class IdleStreams:
    """Streams on several sources that have handled all rows."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.sources: list[Table] = []
        self.second = 0
        for number in range(bench.sizes.idle):
            if number % STREAMS_PER_SOURCE == 0:
                self.sources.append(create_meters(bench, f"idle_source_{len(self.sources)}", SUBTABLES))
            bench.execute(CREATE.format(name=f"idle_{number}", source=self.sources[-1].name))
        bench.log(f"{bench.sizes.idle} streams on {len(self.sources)} sources")

    def _write(self) -> None:
        """Commit a row for each subtable of the sources."""
        for table in self.sources:
            rows = generate_batch(table.name, SUBTABLES, SUBTABLES, self.second)
            self.bench.context.tables.writer.write(table, self.bench.database, rows)
        self.second += 1

    def _has_handled_all(self) -> bool:
        """Return True if every stream has recorded that it has handled the last commit to its source."""
        context = self.bench.context
        versions = {table.name: context.tables.version(table) for table in self.sources}
        return all(record.source_version == versions[record.definition.source.name] for record in context.catalog.jobs.all())

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the streams, from the moment that they have nothing more to do."""
        with running_driver(self.bench):
            self._write()
            wait_until(self._has_handled_all, "the streams to handle their rows")
            yield


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure the CPU seconds that pass in each second."""
    streams, folder = IdleStreams(bench), bench.scratch("idle")
    source = bench.location(streams.sources[0].name)
    job = streaming.Job(bench.spark, source, str(folder / "result"), folder / "checkpoint", "1 minute", closed=False)

    @contextmanager
    def running_query() -> Iterator[None]:
        query = job.start()
        try:
            query.processAllAvailable()
            yield
        finally:
            query.stop()

    seconds = bench.sizes.idle_seconds
    sides = {"headrace": cpu_share(streams.running, seconds), "handwritten": cpu_share(running_query, seconds)}
    timings = interleave(sides, bench.sizes.rounds, bench.log)
    yield Measurement(
        f"CPU time per second of {bench.sizes.idle} idle streams on {len(streams.sources)} sources",
        timings["headrace"],
        timings["handwritten"],
        limit=Limit(ratio=MAX_RATIO),
        note="by hand: one idle Structured Streaming query",
    )


def cpu_share(running: Callable[[], AbstractContextManager[None]], seconds: float) -> Side:
    """Return a side whose samples are the CPU seconds of this process and its children in a second, while something runs."""

    def measure_round() -> list[float]:
        with running():
            time.sleep(seconds / 5)  # what starts takes time of its own
            start, used = time.monotonic(), cpu_seconds()
            time.sleep(seconds)
            return [(cpu_seconds() - used) / (time.monotonic() - start)]

    return measure_round


def cpu_seconds() -> float:
    """Return the CPU time of this process and its children."""
    process = psutil.Process()
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)
