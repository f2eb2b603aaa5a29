"""Measures the costs of single operations on this machine."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil

from benchmarks.bench import Bench
from benchmarks.capacity.bursts import Burst, Source, measure_burst, running
from benchmarks.capacity.servers import Database, at_distance
from benchmarks.capacity.state import measure_state
from benchmarks.cases.dags import Parser, fill_catalog
from benchmarks.cases.ingest import BASIC, LINES, Clients, open_doors
from benchmarks.measure import wait_until
from benchmarks.probe import Probe, TimedFunction
from headrace.cli.sizing.costs import BatchCosts, CatalogCosts, CatalogKind, Costs, Kind, ResultCosts, SourceCosts, StoreCosts
from headrace.cli.sizing.workload import Trigger
from headrace.model.jobs import JobProgress
from headrace.model.positions import Position
from headrace.runtime.snode_client import endpoint_file
from headrace.runtime.table_maintenance import maintain_table
from headrace.settings import load
from headrace.storage.delta.group_commit import FULL_GROUP_ROWS
from headrace.streams.kind import STREAM

if TYPE_CHECKING:
    from tests.support.object_store import Server as ObjectStore

GROUPS: Final = 10
FEW, MANY, WIDE = 1_000, 21_000, 4_000
"""Rows of a micro-batch: few, many of few groups, and as many as groups."""
SIZES: Final = ((FEW, GROUPS), (MANY, GROUPS), (WIDE, WIDE))
DISTANCE_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    samples: int = 9
    streams: int = 9
    statements: int = 500
    commits: int = 40
    windows: int = 100_000
    aged_commits: int = 1_000
    dags: int = 100
    requests: int = 20


QUICK: Final = Effort(samples=1, streams=2, statements=3, commits=3, windows=300, aged_commits=5, dags=3, requests=2)
"""So little that the figures mean nothing."""


@dataclass(frozen=True, slots=True)
class Slope:
    """What each stream of a burst takes, and what all share."""

    each_s: float
    shared_s: float


def measure_slope(bench: Bench, burst: Burst, effort: Effort) -> Slope:
    """Measure a burst with one and with several streams."""
    one = measure_burst(bench, replace(burst, streams=1), effort.samples)
    several = measure_burst(bench, replace(burst, streams=effort.streams), effort.samples)
    each_s = (several - one) / (effort.streams - 1)
    return Slope(each_s, one - each_s)


def calibrate_batches(bench: Bench, costs: Costs, effort: Effort) -> Costs:
    """Return the costs with those of micro-batches and reading, beside statements of SQLite's."""
    sqlite = costs.catalog[CatalogKind.SQLITE]
    statements_s = sqlite.read_s + sqlite.write_s
    few, many, wide = (measure_slope(bench, Burst(1, rows, groups), effort) for rows, groups in SIZES)
    row_s = at_least((many.each_s - few.each_s) / (MANY - FEW))
    window_s = at_least((wide.each_s - few.each_s - row_s * (WIDE - FEW)) / (WIDE - GROUPS))
    fixed_s = at_least(few.each_s - row_s * FEW - window_s * GROUPS - statements_s)
    once, wide_once = (measure_slope(bench, Burst(1, rows, groups, trigger=Trigger.AT_ONCE), effort) for rows, groups in SIZES[::2])
    written_few, written_wide = once.each_s - few.each_s, wide_once.each_s - wide.each_s
    commit_row_s = at_least((written_wide - written_few) / (WIDE - GROUPS))
    read_row_s = at_least((many.shared_s - few.shared_s) / (MANY - FEW))
    batch = {Kind.INTERVAL: BatchCosts(fixed_s, row_s)}
    for kind in (Kind.SESSION, Kind.STATE, Kind.EVENT, Kind.COUNT):
        small, large = (measure_slope(bench, Burst(1, rows, GROUPS, kind), effort).each_s for rows in (FEW, MANY))
        own_s = at_least((large - small) / (MANY - FEW))
        batch[kind] = BatchCosts(at_least(small - own_s * FEW - window_s * GROUPS - statements_s), own_s)
    return replace(
        costs,
        source=replace(costs.source, read_s=at_least(few.shared_s - read_row_s * FEW), read_row_s=read_row_s),
        batch=batch,
        results=ResultCosts(window_s, at_least(written_few - commit_row_s * GROUPS), commit_row_s),
    )


def at_least(seconds: float, least: float = 1e-9) -> float:
    """Return a cost that is not negative: what is too small to be measured may seem to be."""
    return max(least, seconds)


def timed(work: Callable[[], object], count: int) -> float:
    """Return the median seconds of a call."""
    samples = []
    for _ in range(count):
        start = time.perf_counter()
        work()
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def calibrate_source(bench: Bench, costs: Costs, effort: Effort) -> Costs:
    """Return the costs with those of commits and polls."""
    source, cpu = Source(bench, GROUPS), list[float]()

    def commit(rows: int) -> Callable[[], None]:
        def work() -> None:
            start = time.thread_time()
            source.write(rows)
            cpu.append(time.thread_time() - start)

        return work

    timed(commit(FEW), 5)
    cpu.clear()
    few_s = timed(commit(FEW), effort.commits)
    few_cpu_s = statistics.median(cpu)
    row_s = at_least((timed(commit(MANY), effort.commits) - few_s) / (MANY - FEW))
    commit_s = at_least(few_s - row_s * FEW)
    poll_s = timed(lambda: bench.context.tables.version(source.table), effort.statements)
    maintenance_s = calibrate_maintenance(bench, effort)
    cpu_s = min(commit_s, at_least(few_cpu_s - row_s * FEW))
    source_costs = SourceCosts(
        commit_s, cpu_s, row_s, poll_s, costs.source.read_s, costs.source.read_row_s, costs.source.door_row_s
    )
    return replace(costs, source=source_costs, maintenance=replace(costs.maintenance, commit_s=maintenance_s))


def calibrate_maintenance(bench: Bench, effort: Effort) -> float:
    """Return the seconds in which maintenance removes what a commit has left."""
    source = Source(bench, GROUPS)
    for _ in range(effort.aged_commits):
        source.write(GROUPS)
    start = time.perf_counter()
    maintain_table(bench.context, source.table, retention_hours=0)
    return (time.perf_counter() - start) / effort.aged_commits


def calibrate_doors(bench: Bench, costs: Costs, effort: Effort) -> Costs:
    """Return the costs with that of a row that comes in by the line protocol, of which a full group commit has a part."""
    with open_doors(bench) as (tdengine, _):
        clients = Clients(replace(LINES, requests=effort.requests), tdengine.address, BASIC)
        clients.write(0)
        seconds = statistics.median(clients.write(0)[0] for _ in range(3))
    source = costs.source
    row_s = seconds / clients.load.total - source.commit_cpu_s / FULL_GROUP_ROWS - source.commit_row_s
    return replace(costs, source=replace(source, door_row_s=at_least(row_s)))


def measure_catalog(bench: Bench, effort: Effort, database: Database | None = None) -> CatalogCosts:
    """Measure both statements of a micro-batch, of a stream whose driver has its lease."""
    with running(bench, Burst(1, FEW, GROUPS)) as run:
        run.sample()
        catalog = bench.context.catalog
        record = catalog.jobs.get(bench.database.name, run.streams[0], STREAM)
        lease = catalog.leases.get(record.definition.snode)
        progress = JobProgress(Position(1, dict.fromkeys(record.definition.source_ids, 1)))
        id, epoch = record.definition.id, None if lease is None else lease.epoch
        busy = 0.0 if database is None else database.cpu_s()
        read_s = timed(lambda: catalog.jobs.by_id(id), effort.statements)
        write_s = timed(lambda: catalog.jobs.set_progress(id, progress, epoch), effort.statements)
        catalog.jobs.set_progress(id, record.progress, epoch)
        if database is not None:
            return CatalogCosts(read_s, write_s, at_least((database.cpu_s() - busy) / effort.statements))
    return CatalogCosts(read_s, write_s, write_s)


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """What one stream on an object store takes for a burst, and what the burst's commit does."""

    seconds: float
    cpu_s: float
    read_s: float
    commit_s: float
    commit_cpu_s: float


def measure_stored(bench: Bench, trigger: Trigger, effort: Effort) -> StoredBatch:
    """Measure one stream, with the CPU time of this process."""
    from headrace.streams.sources.reader import ChangeReader

    probe, process = Probe([TimedFunction("read", ChangeReader, "read_after")]), psutil.Process()
    figures = list[tuple[float, float, float, float]]()
    with running(bench, Burst(1, FEW, GROUPS, trigger=trigger)) as run, probe.activate():
        for _ in range(effort.samples + 2):
            before, start = cpu_s(process), time.perf_counter()
            run.sources[0].write(FEW)
            middle, between = time.perf_counter(), cpu_s(process)
            bench.connection.settle()
            figures.append((time.perf_counter() - middle, cpu_s(process) - between, middle - start, between - before))
    seconds, busy, commit, commit_busy = (statistics.median(column) for column in zip(*figures[2:], strict=True))
    reads = probe.timings()["read"].samples
    return StoredBatch(seconds, busy, max(reads[-3:]), commit, commit_busy)


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU seconds of a process."""
    used = process.cpu_times()
    return float(used.user + used.system)


def calibrate_store(bench: Bench, store: ObjectStore, costs: Costs, effort: Effort) -> tuple[Costs, float]:
    """Return the costs with those of an object store, and the seconds of a request to this one, without any distance."""

    def measure(delay_s: float) -> tuple[StoredBatch, StoredBatch]:
        with at_distance(store, delay_s) as options:
            own = Bench(bench.home / f"store_{delay_s}", bench.sizes, bench.log, **options)
            try:
                return measure_stored(own, Trigger.WINDOW_CLOSE, effort), measure_stored(own, Trigger.AT_ONCE, effort)
            finally:
                own.close()

    disk = measure_stored(bench, Trigger.WINDOW_CLOSE, effort), measure_stored(bench, Trigger.AT_ONCE, effort)
    near, far = measure(0.0), measure(DISTANCE_S)
    trips = [at_least((far[index].seconds - near[index].seconds) / DISTANCE_S) for index in (0, 1)]
    read_trips = min(trips[0], at_least((far[0].read_s - near[0].read_s) / DISTANCE_S))
    source_trips = at_least((far[0].commit_s - near[0].commit_s) / DISTANCE_S)
    batch_s = near[0].cpu_s - disk[0].cpu_s
    extra_s = near[0].seconds - disk[0].seconds - batch_s
    commit_cpu_s = near[0].commit_cpu_s - disk[0].commit_cpu_s
    measured = StoreCosts(
        source_s=commit_cpu_s,
        source_trips=source_trips,
        batch_s=batch_s,
        batch_trips=trips[0] - read_trips,
        commit_s=near[1].cpu_s - disk[1].cpu_s - batch_s,
        commit_trips=at_least(trips[1] - trips[0]),
        read_trips=read_trips,
    )
    return replace(costs, object_store=measured), at_least(extra_s / trips[0])


def calibrate_memory(bench: Bench, costs: Costs, effort: Effort) -> Costs:
    """Return the costs with those of a window in state, and of the caches beside it."""
    few, many = effort.windows, 2 * effort.windows
    small, large = (measure_state(bench.home / f"state_{windows}", windows) for windows in (few, many))
    window_bytes = at_least((large - small) / (many - few))
    cache_bytes = at_least(small - window_bytes * few)
    return replace(costs, driver=replace(costs.driver, window_bytes=window_bytes, cache_bytes=cache_bytes))


def calibrate_jobs(bench: Bench, costs: Costs, effort: Effort) -> Costs:
    """Return the costs with those of a job at a look at the catalog, and of a DAG."""
    from headrace.catalog import Catalog

    settings = load(home=bench.home / "capacity_dags")
    fill_catalog(settings, effort.dags)
    with Catalog.open(settings.catalog) as catalog:
        looks_s = timed(lambda: catalog.jobs.all("default"), 20)
    dags_s = statistics.median(Parser(settings, effort.dags)()[0] for _ in range(2))
    driver = replace(costs.driver, job_s=looks_s / effort.dags)
    return replace(costs, driver=driver, airflow=replace(costs.airflow, dag_s=dags_s / (effort.dags + 1)))


def calibrate_start(bench: Bench, costs: Costs) -> Costs:
    """Return the costs with the start of a driver, until its endpoint is open, and the memory of its Python process."""
    settings = load(home=bench.home / "capacity_start", streams_per_database=2000)
    settings.create_home()
    file = Path(endpoint_file(settings.home_path, settings.snode))
    command = [sys.executable, str(settings.project / "spark_jobs/snode.py")]
    samples, sizes = [], []
    for _ in range(3):
        start = time.perf_counter()
        with subprocess.Popen(command, env=environment(settings.home_path), stderr=subprocess.DEVNULL) as process:
            wait_until(file.exists, "the driver to start")
            samples.append(time.perf_counter() - start)
            time.sleep(2)
            sizes.append(psutil.Process(process.pid).memory_info().rss)
            process.terminate()
        file.unlink(missing_ok=True)
    driver = replace(costs.driver, start_s=statistics.median(samples), base_bytes=float(statistics.median(sizes)))
    return replace(costs, driver=driver)


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a process that works on a home."""
    return os.environ | {"HEADRACE_HOME": str(home)}
