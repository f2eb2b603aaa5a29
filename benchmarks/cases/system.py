"""The whole system, with Airflow beside the snode: from the commit of 1000 rows to that of their result."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from benchmarks.bench import DATABASE, Bench
from benchmarks.cases.latency import CREATE, Source, Task
from benchmarks.deltalog import DeltaLogReader, commit_time, has_transaction
from benchmarks.measure import MAX_WAIT_SECONDS, Timings, wait_until
from benchmarks.results import Limit, Measurement
from headrace.model.jobs import JobState
from headrace.runtime import embedded_airflow
from headrace.runtime.processes import find_free_port
from headrace.settings import Settings
from headrace.storage.delta.commits import offset_app
from headrace.streams.kind import STREAM

FIRST_SECONDS: Final = 60.0
PAUSE_SECONDS: Final = 1.0
TASK: Final = Task("AT_ONCE", 1)
LIMITS: Final = {"in its first minute": 0.2, "later": 0.1}


class SystemSource(Source):
    """A source whose stream the snode of the system runs."""

    PREFIX: ClassVar[str] = "system"


class RunningStream:
    """A stream of the running system, with the log of its target."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.source = SystemSource(bench, SystemSource.PREFIX)
        self.name = f"{SystemSource.PREFIX}_stream"
        bench.execute(CREATE.format(name=self.name, trigger=TASK.trigger, source=self.source.table.name, window=TASK.window))
        definition = bench.context.catalog.jobs.get(DATABASE, self.name, STREAM).definition
        self.app = offset_app(definition.id, definition.source_ids[0])
        self.log = DeltaLogReader(bench.location(f"{self.name}_result"))

    def wait_until_running(self) -> None:
        """Wait until the snode runs the stream."""
        jobs = self.bench.context.catalog.jobs
        wait_until(lambda: jobs.get(DATABASE, self.name, STREAM).state is JobState.RUNNING, "the stream to run")

    def measure(self) -> float:
        """Return the seconds from the commit of the next rows to that of their result."""
        time.sleep(random.uniform(0, PAUSE_SECONDS))
        version = self.source.write()
        return self.log.wait(has_transaction(self.app, version), MAX_WAIT_SECONDS) - commit_time(self.source.location, version)

    def measure_for(self, seconds: float) -> Timings:
        """Measure for a while, at least once."""
        samples, deadline = [self.measure()], time.monotonic() + seconds
        while time.monotonic() < deadline:
            samples.append(self.measure())
        return Timings(tuple(samples))


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure a new stream of a system that has started."""
    with running_system(bench) as system:
        yield from measure(system, FIRST_SECONDS)


@contextmanager
def running_system(bench: Bench) -> Iterator[Bench]:
    """Start a system in a home of its own; yield a benchmark that uses it, and stop both at the end."""
    system = Bench(bench.home / "system", bench.sizes, bench.log, lease_ms=Settings.fields["lease_ms"].default)
    settings = system.settings.replace({"airflow_port": find_free_port()})
    bench.log("starting Airflow")
    try:
        started = embedded_airflow.start(settings)
        assert not started.obstacles, started.obstacles
        yield system
    finally:
        system.close()
        embedded_airflow.stop(settings)


def measure(system: Bench, seconds: float) -> Iterator[Measurement]:
    """Measure a new stream of a running system for a while, and then for as long again."""
    stream = RunningStream(system)
    stream.wait_until_running()
    for phase, limit in LIMITS.items():
        timings = stream.measure_for(seconds)
        yield Measurement(
            f"system with Airflow: {stream.source.rows} rows, AT_ONCE, {phase}",
            timings,
            limit=Limit(seconds=limit),
            note=f"{len(timings.samples)} commits",
        )
    system.execute(f"DROP STREAM {stream.name}")
