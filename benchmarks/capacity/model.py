"""The simulation: see the package."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final

import simpy

from headrace.cli.sizing.costs import CatalogKind, Costs
from headrace.cli.sizing.estimate import BEATS_S, DATABASE_CORES, LOCAL_POLL_S, OBJECT_STORE_POLL_S, THREADS
from headrace.cli.sizing.workload import Operations, Storage, Trigger, Workload

Process = Generator[simpy.Event, Any, None]

SLICE_S: Final = 0.005
MAX_DRIVERS: Final = 4
PROBES: Final = 5
"""Commits whose delay is looked at."""


@dataclass(slots=True)
class Table:
    """A source: when it was committed to, the rows up to each commit, and the event of the next one."""

    lock: simpy.Resource
    news: simpy.Event
    committed_at: list[float] = field(default_factory=lambda: [0.0])
    rows: list[float] = field(default_factory=lambda: [0.0])

    @property
    def version(self) -> int:
        """The number of commits."""
        return len(self.rows) - 1


@dataclass(slots=True)
class Driver:
    """A driver: its interpreter's lock, turns of micro-batches, and the last version of what was read after each version."""

    gil: simpy.Resource
    turns: simpy.Resource
    reads: dict[tuple[int, int], int] = field(default_factory=dict)


@dataclass(slots=True)
class Progress:
    """What a stream has handled: up to which version, and when."""

    versions: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def handled_at(self, version: int) -> float:
        """Return when a version was handled; infinite if it was not."""
        index = bisect_left(self.versions, version)
        return self.times[index] if index < len(self.times) else math.inf


class Simulation:
    """A workload that runs."""

    def __init__(
        self, workload: Workload, costs: Costs, *, burst_rows: float = 0.0, backlog_s: float = 0.0, closes_at: float = math.inf
    ) -> None:
        """Set a workload up.

        Args:
            workload: The workload.
            costs: What single operations cost.
            burst_rows: Rows of the only commit to each table, if that is all.
            backlog_s: Seconds of rows that wait at the beginning.
            closes_at: The instant at which all windows close, with WINDOW_CLOSE.
        """
        drivers = min(workload.snodes, MAX_DRIVERS)
        self.workload, self.costs, self.burst_rows, self.closes_at = workload, costs, burst_rows, closes_at
        self.operations = Operations(workload, costs)
        self.scale = workload.snodes / drivers
        self.env = simpy.Environment()
        turns = THREADS if workload.storage is Storage.S3 else 1
        self.drivers = [Driver(simpy.Resource(self.env), simpy.Resource(self.env, turns)) for _ in range(drivers)]
        self.tables = [Table(simpy.Resource(self.env), self.env.event()) for _ in range(workload.tables)]
        self.catalog_cores = DATABASE_CORES if workload.catalog is CatalogKind.POSTGRESQL else 1
        self.catalog_free_at = 0.0
        self.streams: list[list[Progress]] = [[] for _ in self.tables]
        self.start(backlog_s)

    def start(self, backlog_s: float) -> None:
        """Start all processes."""
        for number in range(min(self.workload.streams, self.workload.driver_streams * len(self.drivers))):
            driver, source = self.drivers[number // self.workload.driver_streams], number % len(self.tables)
            progress = Progress()
            self.streams[source].append(progress)
            late_s = backlog_s * (number // self.workload.driver_streams) / len(self.drivers)
            self.env.process(self.stream(driver, source, progress, late_s))
        for number, table in enumerate(self.tables):
            if backlog_s:
                self.add(table, backlog_s * self.workload.table_rows_s)
            self.env.process(self.clients(table, number))
        if not self.burst_rows:
            for driver in self.drivers:
                self.env.process(self.look_at_catalog(driver))

    def use(self, driver: Driver, seconds: float) -> Process:
        """Hold the interpreter's lock of a driver, in slices."""
        while seconds > 0:
            with driver.gil.request() as request:
                yield request
                yield self.env.timeout(min(SLICE_S, seconds))
            seconds -= SLICE_S

    def clients(self, table: Table, number: int) -> Process:
        """Commit to a table at the workload's cadence, or one burst."""
        workload, operations = self.workload, self.operations
        if self.burst_rows:
            self.add(table, self.burst_rows)
            return
        between_s, doors = 1 / workload.commits, min(operations.doors, len(self.drivers))
        rows = workload.table_rows_s * between_s
        work = operations.commit(rows)
        # A door that is one of few simulated ones has as many rows as in the whole.
        share = doors / operations.doors
        yield self.env.timeout(between_s * number / len(self.tables))
        due, turn = self.env.now, 0
        while True:
            driver = self.drivers[(number + turn) % doors]
            with table.lock.request() as lock:
                yield lock
                yield from self.use(driver, share * (work.cpu_s + rows * self.costs.source.door_row_s))
                yield self.env.timeout(work.wait_s + (1 - share) * work.cpu_s)
                self.add(table, rows)
            due, turn = due + between_s, turn + 1
            if due > self.env.now:
                yield self.env.timeout(due - self.env.now)

    def add(self, table: Table, rows: float) -> None:
        """Have a table know a commit, and wake its streams."""
        table.committed_at.append(self.env.now)
        table.rows.append(table.rows[-1] + rows)
        news, table.news = table.news, self.env.event()
        news.succeed()

    def stream(self, driver: Driver, number: int, progress: Progress, late_s: float) -> Process:
        """Handle one micro-batch after the other, from a little later on than others: drivers do not move in step."""
        yield self.env.timeout(late_s)
        table, position = self.tables[number], 0
        poll_s = OBJECT_STORE_POLL_S if self.workload.storage is Storage.S3 else LOCAL_POLL_S if self.workload.snodes > 1 else 0
        while True:
            if table.version == position:
                yield table.news
                if not self.burst_rows and poll_s:
                    yield self.env.timeout(poll_s - self.env.now % poll_s)
            with driver.turns.request() as turn:
                yield turn
                last = driver.reads.get((number, position))
                if last is None:
                    last = driver.reads[number, position] = table.version
                    read = self.operations.read(table.rows[last] - table.rows[position])
                    yield from self.use(driver, read.cpu_s)
                    yield self.env.timeout(read.wait_s)
                closes = table.committed_at[position] < self.closes_at <= table.committed_at[last]
                yield from self.micro_batch(driver, table.rows[last] - table.rows[position], closes)
            position = last
            progress.versions.append(position)
            progress.times.append(self.env.now)

    def micro_batch(self, driver: Driver, rows: float, closes: bool) -> Process:
        """Do the work of a micro-batch."""
        work, catalog = self.operations.batch(rows, closes=closes), self.costs.catalog[self.workload.catalog]
        yield from self.use(driver, work.cpu_s)
        if work.wait_s:
            yield self.env.timeout(work.wait_s)
        own_s = max(0.0, self.operations.statements_s - catalog.server_s)
        yield self.env.timeout(self.served_in(catalog.server_s) + own_s)

    def served_in(self, seconds: float) -> float:
        """Return when the catalog has done its part of statements, for which all drivers queue, also those not simulated."""
        start = max(self.env.now, self.catalog_free_at)
        self.catalog_free_at = start + seconds * self.scale / self.catalog_cores
        return start - self.env.now + seconds

    def look_at_catalog(self, driver: Driver) -> Process:
        """Write heartbeats, and look at all jobs, once a second."""
        catalog = self.costs.catalog[self.workload.catalog]
        while True:
            yield self.env.timeout(1.0)
            yield from self.use(driver, self.workload.driver_streams * self.costs.driver.job_s)
            yield self.env.timeout(self.served_in(BEATS_S * catalog.server_s))

    def delay_s(self, table: int, instant: float) -> float:
        """Return the seconds from the first commit at or after an instant until the last stream of the table has handled it."""
        committed_at = self.tables[table].committed_at
        version = bisect_left(committed_at, instant, lo=1)
        if version >= len(committed_at):
            return math.inf
        return max(stream.handled_at(version) for stream in self.streams[table]) - committed_at[version]

    def run_until_handled(self, instants: list[float], end: float) -> list[float]:
        """Run until all streams have handled commits at some instants, or until the end; return their delays."""
        while True:
            self.env.run(until=min(end, max(self.env.now * 1.25, instants[-1] + 0.1)))
            delays = [max(self.delay_s(table, at) for table, own in enumerate(self.streams) if own) for at in instants]
            if self.env.now >= end or all(map(math.isfinite, delays)):
                return delays


def simulate_burst(workload: Workload, costs: Costs, rows: float) -> float:
    """Return the seconds from one commit of some rows to each table until all streams have their results."""
    simulation = Simulation(workload, costs, burst_rows=rows)
    simulation.env.run()
    return float(max(stream.times[-1] for streams in simulation.streams for stream in streams))


def simulate(workload: Workload, costs: Costs, round_s: float, limit_s: float) -> float:
    """Return the median seconds from a commit until all streams have their results; infinite if that takes longer than a limit.

    It is looked at after two rounds. `round_s` is the expected length of a round; the simulation begins with as many rows, since a
    short first round would take many rounds to become as long.
    """
    backlog_s = min(round_s, limit_s)
    warm_s = 2.3 * backlog_s + 5 / workload.commits
    instants = [warm_s + number * (0.37 * backlog_s + 1.07 / workload.commits) for number in range(PROBES)]
    if workload.trigger is Trigger.AT_ONCE or workload.writes_always:
        simulation = Simulation(workload, costs, backlog_s=backlog_s)
        return statistics.median(simulation.run_until_handled(instants, instants[-1] + limit_s))
    closings = [Simulation(workload, costs, backlog_s=backlog_s, closes_at=at) for at in instants[::2]]
    return statistics.median(one.run_until_handled([at], at + limit_s)[0] for one, at in zip(closings, instants[::2], strict=True))
