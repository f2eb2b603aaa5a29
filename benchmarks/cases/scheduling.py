"""Scheduling of many streams by a real Airflow: the start of a stream's run, and that of a driver after the last one has ended.

The snode is one without Spark, so that only Airflow is measured. The tasks before supervision are marked as done, except those of
the streams that are measured, since workers would need many minutes for all of them.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import psutil

from benchmarks.bench import Bench
from benchmarks.cases.dags import build_definition, fill_catalog
from benchmarks.measure import Timings
from benchmarks.results import Limit, Measurement
from headrace.catalog import Catalog
from headrace.errors import OperationalError
from headrace.model.jobs import JobProgress, JobState
from headrace.model.positions import Position
from headrace.runtime import embedded_airflow
from headrace.runtime.airflow import PATIENT_TIMEOUT, AirflowClient
from headrace.runtime.dag_ids import definition_dag_id
from headrace.runtime.processes import find_free_port, find_marked
from headrace.settings import Settings, load

SAMPLES: Final = 3
MAX_WAIT_S: Final = 3600.0
REST_S: Final = 60.0
SETTLING_S: Final = 10.0
LIMIT_S: Final = 15.0
SUBMIT: Final = '#!/bin/sh\nexec {python} {script} "$@"\n'
MARK_DONE: Final = """
UPDATE task_instance SET state = 'success' WHERE task_id IN ('plan_history', 'fill_history', 'activate')
AND dag_id LIKE 'headrace_stream__power__s%' AND (state IS NULL OR state = 'scheduled')
"""


class System:
    """A running Airflow whose snode has no Spark, with access to both."""

    def __init__(self, settings: Settings, client: AirflowClient, catalog: Catalog, bench: Bench) -> None:
        self.settings = settings
        self.client = client
        self.catalog = catalog
        self.bench = bench
        self.streams = 0

    def add(self, number: int, prefix: str = "s") -> str:
        """Add a live stream without announcing it; return the id of its DAG."""
        definition = build_definition(number, prefix, created=self.catalog.now())
        progress = JobProgress(Position(0, dict.fromkeys(definition.source_ids, 0)))
        self.catalog.jobs.create(definition, state=JobState.RUNNING, progress=progress)
        return definition_dag_id(definition)

    def grow(self, streams: int) -> float:
        """Add streams up to a number; return the seconds until all are supervised."""
        start = time.monotonic()
        for number in range(self.streams, streams):
            self.add(number)
        self.streams = streams
        self.client.announce()
        while (supervised := self.count_supervised()) < streams:
            self.bench.log(f"{supervised} of {streams} streams are supervised")
            self._mark_done()
            assert time.monotonic() - start < MAX_WAIT_S, f"only {supervised} streams are supervised"
            time.sleep(5)
        return time.monotonic() - start

    def count_supervised(self) -> int:
        """Return the number of streams that a triggerer supervises."""
        try:
            return sum(self.client.find_supervised().values())
        except OperationalError:
            return 0  # Airflow is busy

    def _mark_done(self) -> None:
        with closing(sqlite3.connect(self.settings.home_path / "airflow" / "airflow.db", timeout=60)) as database, database:
            database.execute(MARK_DONE)

    def start_run(self, number: int) -> float:
        """Return the seconds from the creation of a stream until its supervision has started, after two tasks in workers."""
        start = time.monotonic()
        dag_id = self.add(number, "probe")
        self.client.announce()
        wait_for(lambda: self.client.find_supervised().get(dag_id, False))
        return time.monotonic() - start

    def replace_driver(self, *, kill: bool) -> float:
        """Return the seconds from the end of a driver until the next one has its lease."""
        lease = self.catalog.leases.get(self.settings.snode)
        assert lease is not None
        process = psutil.Process(int(lease.holder.split(":")[1]))
        start = time.monotonic()
        if kill:
            process.kill()
        else:
            process.terminate()
        wait_for(lambda: (new := self.catalog.leases.get(self.settings.snode)) is not None and new.epoch > lease.epoch)
        return time.monotonic() - start

    def busy_seconds(self) -> float:
        """Return the CPU seconds that all processes of the system have used."""
        times = (process.cpu_times() for process in find_marked(self.settings.home_path))
        return sum(used.user + used.system for used in times)

    def rest(self) -> float:
        """Return the CPU seconds of a second in which nothing happens, after all streams have reported the end of their driver."""
        wait_for(lambda: self.count_supervised() >= self.streams)
        time.sleep(SETTLING_S)
        before, start = self.busy_seconds(), time.monotonic()
        time.sleep(REST_S)
        return (self.busy_seconds() - before) / (time.monotonic() - start)


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure with a few streams, and then with many."""
    with running_system(bench) as system:
        for streams in bench.sizes.scheduled:
            bench.log(f"{system.grow(streams):.0f} s until {streams} streams were supervised")
            yield from measure(system, streams)


def measure(system: System, streams: int) -> Iterator[Measurement]:
    """Measure with a number of streams."""
    starts = [system.start_run(streams + sample) for sample in range(SAMPLES)]
    yield Measurement(f"start of a stream's run, beside {streams}", Timings(tuple(starts)), limit=Limit(seconds=LIMIT_S))
    system.bench.log(f"starts: {starts}")
    exits = [system.replace_driver(kill=False) for _ in range(SAMPLES)]
    yield Measurement(
        f"next driver after a clean exit, beside {streams} streams", Timings(tuple(exits)), limit=Limit(seconds=LIMIT_S)
    )
    system.bench.log(f"exits: {exits}")
    kills = [system.replace_driver(kill=True)]
    yield Measurement(f"next driver after a kill, beside {streams} streams", Timings(tuple(kills)), limit=Limit(seconds=LIMIT_S))
    system.bench.log(f"kills: {kills}")
    rest = system.rest()
    yield Measurement(f"CPU time of Airflow at rest, each second, beside {streams} streams", Timings((rest,)))
    system.bench.log(f"rest: {rest}")


def wait_for(is_met: Callable[[], bool]) -> None:
    """Wait until a condition is met."""
    deadline = time.monotonic() + MAX_WAIT_S
    while not is_met():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@contextmanager
def running_system(bench: Bench) -> Iterator[System]:
    """Start a system whose spark-submit runs `idle_snode.py`, and stop it at the end."""
    home = bench.home / "scheduling"
    submit = home / "spark" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True, exist_ok=True)
    submit.write_text(SUBMIT.format(python=sys.executable, script=Path(__file__).parents[1] / "idle_snode.py"))
    submit.chmod(0o755)
    settings = load(home=home / "headrace", airflow_port=find_free_port(), streams_per_database=10_000)
    fill_catalog(settings, 0)
    before = os.environ.get("SPARK_HOME")
    os.environ["SPARK_HOME"] = str(submit.parents[1])
    bench.log("starting Airflow")
    try:
        started = embedded_airflow.start(settings)
        assert not started.obstacles, started.obstacles
        client = AirflowClient.find(settings, PATIENT_TIMEOUT)
        assert client is not None
        with client, Catalog.open(settings.catalog) as catalog:
            yield System(settings, client, catalog, bench)
    finally:
        embedded_airflow.stop(settings)
        os.environ.pop("SPARK_HOME")
        os.environ |= {} if before is None else {"SPARK_HOME": before}
