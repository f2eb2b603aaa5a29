"""Points at other sizes and combinations than those of the calibration, each predicted by the simulation and measured."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from benchmarks.bench import DATABASE, Bench
from benchmarks.capacity.bursts import WARM_UP, Burst, Source, create_streams, measure_burst
from benchmarks.capacity.calibration import DISTANCE_S, Effort
from benchmarks.capacity.model import simulate, simulate_burst
from benchmarks.capacity.servers import Database, at_distance
from benchmarks.capacity.state import measure_state
from benchmarks.cases.dags import Parser, fill_catalog
from benchmarks.deltalog import commit_time, read_entries
from benchmarks.driver import running_driver
from benchmarks.measure import Timings
from headrace.cli.sizing.costs import CatalogKind, Costs, Kind
from headrace.cli.sizing.workload import Operations, Storage, Trigger, Workload
from headrace.settings import load
from headrace.storage.delta.commits import offset_app
from headrace.streams.kind import STREAM

if TYPE_CHECKING:
    from tests.support.object_store import Server as ObjectStore

TOLERANCE: Final = 0.25
MB: Final = 1e6
LIVE_ROWS: Final = 1_000
LIVE_GROUPS: Final = 10


@dataclass(frozen=True, slots=True)
class Point:
    """A point: its name, and samples of both sides, in seconds or bytes."""

    name: str
    predicted: float
    measured: Timings

    @property
    def error(self) -> float:
        """How much the prediction differs from what was measured, as a share of it."""
        return self.predicted / self.measured.median - 1

    @property
    def is_met(self) -> bool:
        """Whether it is within the tolerance."""
        return abs(self.error) <= TOLERANCE


@dataclass(frozen=True, slots=True)
class Checks:
    """The points."""

    bench: Bench
    costs: Costs
    effort: Effort
    database: Database | None = None
    store: ObjectStore | None = None
    request_s: float = 0.0

    def run(self) -> Iterator[Point]:
        """Measure each."""
        once = Trigger.AT_ONCE
        yield self.burst("50 streams on one table, AT_ONCE, 1,000 rows", Burst(50, 1_000, 10, trigger=once))
        yield self.burst("20 streams, AT_ONCE, 5,000 rows of 500 devices", Burst(20, 5_000, 500, trigger=once))
        yield self.burst("5 streams, a commit of 60,000 rows of 6,000 devices", Burst(5, 60_000, 6_000))
        yield self.burst("20 streams over 5 tables, 2,000 rows each", Burst(20, 2_000, 20, tables=5))
        yield self.burst("15 streams of sessions, 8,000 rows", Burst(15, 8_000, 50, Kind.SESSION))
        yield self.writers("3 writers, 2,000 rows each", 3, 2_000)
        yield self.live("12 live streams, a commit of 1,000 rows each 60 ms", 12, 0.06)
        yield self.state("memory of four times as many windows, in MB", 4 * self.effort.windows)
        yield self.dags(3 * self.effort.dags)
        if self.database is not None:
            yield self.with_catalog(self.database)
        if self.store is not None:
            yield self.with_store(self.store)

    def workload(self, burst: Burst) -> Workload:
        """Return the workload of a burst."""
        return Workload(
            burst.groups * burst.tables, 1.0, burst.streams, burst.kind, burst.trigger, window_s=86_400, tables=burst.tables
        )

    def burst(self, name: str, burst: Burst, bench: Bench | None = None, workload: Workload | None = None) -> Point:
        """Check a burst."""
        burst = replace(burst, streams=max(burst.tables, burst.streams * self.effort.streams // 9))
        predicted = simulate_burst(workload or self.workload(burst), self.costs, burst.rows)
        samples = measure_burst(bench or self.bench, burst, self.effort.samples)
        return Point(name, predicted, Timings((samples,)))

    def writers(self, name: str, count: int, rows: int) -> Point:
        """Check writers that commit to one table at once: each waits for the lock."""
        source = Source(self.bench, 10)
        lock = threading.Lock()

        def write(_: int) -> None:
            with lock:  # numbers of rows, not the commit
                second = source.second
                source.second += rows // 10
            source.write_at(second, rows)

        samples = []
        with ThreadPoolExecutor(count) as threads:
            for _ in range(WARM_UP + self.effort.samples):
                start = time.perf_counter()
                list(threads.map(write, range(count)))
                samples.append(time.perf_counter() - start)
        work = Operations(Workload(10, 1.0, 1), self.costs).commit(rows)
        return Point(name, count * work.total_s, Timings(tuple(samples[WARM_UP:])))

    def live(self, name: str, streams: int, every_s: float) -> Point:
        """Check streams that a driver runs while another thread of its process commits at a fixed cadence."""
        bench, source = self.bench, Source(self.bench, LIVE_GROUPS)
        names = create_streams(bench, Burst(streams, LIVE_ROWS, LIVE_GROUPS, trigger=Trigger.AT_ONCE), [source])
        versions = []
        with running_driver(bench):
            due = time.monotonic()
            for _ in range(20 * self.effort.samples):  # of which the first half is behind while the driver starts
                versions.append(source.write(LIVE_ROWS))
                due += every_s
                time.sleep(max(0.0, due - time.monotonic()))
            time.sleep(1.0)
        delays = result_delays(bench, source, names, versions[len(versions) // 2 :])
        for stream in names:
            bench.execute(f"DROP STREAM {stream}")
        workload = Workload(
            LIVE_GROUPS, LIVE_ROWS / every_s / LIVE_GROUPS, streams, Kind.INTERVAL, Trigger.AT_ONCE, 86_400, commits=1 / every_s
        )
        own_clients = replace(self.costs, source=replace(self.costs.source, door_row_s=0.0))
        return Point(name, simulate(workload, own_clients, every_s, 60.0), Timings(tuple(delays)))

    def state(self, name: str, windows: int) -> Point:
        """Check the memory of a larger state."""
        driver = self.costs.driver
        predicted = driver.cache_bytes + windows * driver.window_bytes
        return Point(name, predicted / MB, Timings((measure_state(self.bench.home / "checked_state", windows) / MB,)))

    def dags(self, streams: int) -> Point:
        """Check the parse of more DAGs."""
        settings = load(home=self.bench.home / "capacity_more_dags")
        fill_catalog(settings, streams)
        parser = Parser(settings, streams)
        seconds = tuple(parser()[0] for _ in range(2))
        return Point(f"parse of the DAGs of {streams} streams", self.costs.airflow.dag_s * (streams + 1), Timings(seconds))

    def with_catalog(self, database: Database) -> Point:
        """Check streams whose catalog is in PostgreSQL."""
        burst = Burst(10, 1_000, 10)
        workload = replace(self.workload(burst), catalog=CatalogKind.POSTGRESQL)
        bench = Bench(self.bench.home / "postgresql", self.bench.sizes, self.bench.log, catalog_url=database.url)
        try:
            return self.burst("10 streams, 1,000 rows, catalog in PostgreSQL", burst, bench, workload)
        finally:
            bench.close()

    def with_store(self, store: ObjectStore) -> Point:
        """Check streams whose tables are in an object store at half of the distance of the calibration."""
        delay_s, burst = DISTANCE_S / 2, Burst(4, 1_000, 10, trigger=Trigger.AT_ONCE)
        workload = replace(self.workload(burst), storage=Storage.S3, request_s=delay_s + self.request_s)
        with at_distance(store, delay_s) as options:
            bench = Bench(self.bench.home / "checked_store", self.bench.sizes, self.bench.log, **options)
            try:
                return self.burst("4 streams, 1,000 rows, tables in an object store", burst, bench, workload)
            finally:
                bench.close()


def result_delays(bench: Bench, source: Source, streams: list[str], versions: list[int]) -> list[float]:
    """Return for each version of a source the seconds until the last stream has committed its result."""
    location = bench.location(source.table.name)
    delays = dict.fromkeys(versions, 0.0)
    for stream in streams:
        definition = bench.context.catalog.jobs.get(DATABASE, stream, STREAM).definition
        app, target = offset_app(definition.id, definition.source_ids[0]), bench.location(f"{stream}_result")
        handled = [
            (action["txn"]["version"], commit_time(target, version))
            for version, actions in read_entries(target).items()
            for action in actions
            if action.get("txn", {}).get("appId") == app
        ]
        for version in versions:
            index = bisect_left(handled, (version, 0.0))
            end = handled[index][1] if index < len(handled) else float("inf")
            delays[version] = max(delays[version], end - commit_time(location, version))
    return list(delays.values())


def describe(point: Point) -> str:
    """Return both figures and their difference."""
    return f"predicted {point.predicted:.3g}, measured {point.measured.median:.3g}: {point.error:+.0%}"
