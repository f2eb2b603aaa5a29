"""How long results take, and which part of a system breaks first, by arithmetic.

A driver handles its streams one after the other, and then what has come in meanwhile: a *round*. A round takes as long as its rows
need, which are as many as come in during a round. So it is the smallest solution of `seconds = work(rows in seconds)`, and there is
none if rows come in faster than they are handled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from headrace.cli.sizing.costs import CatalogKind, Costs
from headrace.cli.sizing.workload import Operations, Storage, Trigger, Workload

MAX_SHARE: Final = 0.7
"""The share of the time for which something may be busy: beyond, waits grow fast."""
MAX_OTHERS_SHARE: Final = 0.95
"""With more, clients no longer commit as often as they should, and leave something to streams."""
THREADS: Final = 8
"""Micro-batches of a driver at a time on an object store. On a disk, it is one."""
DATABASE_CORES: Final = 4
MAX_ROUND_S: Final = 3600.0
DAY_S: Final = 86_400.0
MAINTENANCE_S: Final = 8 * 3600.0
"""How long the maintenance of a day may take."""
START_S: Final = 60.0
"""How long the start of a stream by Airflow may take."""
BEATS_S: Final = 2.0
"""Writes of each snode to the catalog in a second: its lease and its heartbeat."""
LOCAL_POLL_S: Final = 0.05
OBJECT_STORE_POLL_S: Final = 1.0
MAX_SNODES: Final = 1000


class Part(StrEnum):
    """A part of the system that may break."""

    COMMITS = "commits on one table"
    LOG = "logs of tables"
    CATALOG = "catalog"
    DRIVER = "driver"
    MEMORY = "memory of a driver"
    AIRFLOW = "Airflow"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is to be expected.

    Attributes:
        round_s: Seconds of a round of a driver that has results as rarely as its trigger says.
        delay_s: Seconds from a commit until the last stream has committed its result.
        python_bytes: Memory of the Python process of a driver.
        commits_s: Commits a second on all tables.
        maintenance_s: Seconds of the maintenance of a day.
        start_s: Seconds until Airflow has started a stream.
        loads: How much of what it can do each part has to do; above 1, it is too much.
    """

    round_s: float
    delay_s: float
    python_bytes: float
    commits_s: float
    maintenance_s: float
    start_s: float
    loads: dict[Part, float]

    @property
    def breaks_first(self) -> Part:
        """The part with the highest load."""
        return max(self.loads, key=self.loads.__getitem__)

    @property
    def is_enough(self) -> bool:
        """Whether no part has too much to do."""
        return max(self.loads.values()) <= 1


def estimate(workload: Workload, costs: Costs) -> Estimate:
    """Return what is to be expected of a workload."""
    return Estimator(workload, Operations(workload, costs), costs).estimate()


def recommend(workload: Workload, costs: Costs) -> tuple[Workload, Estimate]:
    """Return the workload with the fewest snodes that are enough for it, or with those after which more do not help.

    More than one needs PostgreSQL: SQLite is for one machine.
    """
    best = workload, estimate(workload, costs)
    for snodes in range(1, min(workload.streams, MAX_SNODES) + 1):
        catalog = CatalogKind.POSTGRESQL if snodes > 1 else workload.catalog
        tried = replace(workload, snodes=snodes, catalog=catalog)
        result = estimate(tried, costs)
        if max(result.loads[Part.DRIVER], result.loads[Part.MEMORY], result.loads[Part.CATALOG]) <= 1:
            return tried, result
        if snodes == 1 or max(result.loads.values()) < max(best[1].loads.values()):
            best = tried, result
    return best


@dataclass(frozen=True, slots=True)
class Estimator:
    """The arithmetic of one workload."""

    workload: Workload
    operations: Operations
    costs: Costs

    def estimate(self) -> Estimate:
        """Return all figures."""
        workload, catalog_s = self.workload, self.catalog_round_s()
        round_s = self.round_s(catalog_s)
        driver = self.costs.driver
        state_bytes = workload.driver_streams * workload.groups * driver.window_bytes
        python_bytes = driver.base_bytes + driver.cache_bytes + state_bytes
        commits_s = workload.tables * workload.commits + self.target_commits_s(round_s)
        maintenance_s = commits_s * DAY_S * self.costs.maintenance.commit_s
        start_s = self.costs.airflow.start_s + self.costs.airflow.start_job_s * workload.streams
        loads = {
            Part.COMMITS: max(self.table_share(), self.operations.door_share) / MAX_SHARE,
            Part.LOG: maintenance_s / MAINTENANCE_S,
            Part.CATALOG: 2 * catalog_s / workload.delay_s,
            Part.DRIVER: self.delay_s(0.0) / workload.delay_s,
            Part.MEMORY: python_bytes / workload.memory,
            Part.AIRFLOW: start_s / START_S,
        }
        return Estimate(round_s, self.delay_s(catalog_s), python_bytes, commits_s, maintenance_s, start_s, loads)

    def table_share(self) -> float:
        """Return the share of the time for which commits hold the lock of a table."""
        workload = self.workload
        return workload.commits * self.operations.commit(workload.table_rows_s / workload.commits).total_s

    def target_commits_s(self, round_s: float) -> float:
        """Return the commits of results in a second."""
        workload = self.workload
        each_s = max(round_s, 1 / workload.commits)
        return workload.streams / (each_s if workload.writes_always else max(each_s, workload.window_s))

    def work_s(self, seconds: float, *, closes: bool = False, is_door: bool = True) -> float:
        """Return the seconds that a driver, to which clients write if it is a door, needs for what comes in in some seconds."""
        workload, operations = self.workload, self.operations
        rows = workload.table_rows_s * seconds
        read, batch = operations.read(rows), operations.batch(rows, closes=closes)
        streams, statements_s = workload.driver_streams, operations.statements_s
        reads_s = workload.driver_tables * read.total_s
        if workload.storage is Storage.S3:
            lock_s = workload.driver_tables * read.cpu_s + streams * (batch.cpu_s + self.costs.catalog[workload.catalog].read_s)
            turns_s = (reads_s + streams * (batch.total_s + statements_s)) / min(THREADS, streams)
            return max(self.beside_others_s(lock_s, is_door), turns_s)
        return self.beside_others_s(reads_s + streams * (batch.total_s + statements_s), is_door)

    def beside_others_s(self, seconds: float, is_door: bool) -> float:
        """Return how long work takes in a driver beside clients that write, and looks at the catalog."""
        share = self.operations.door_share * is_door + self.workload.driver_streams * self.costs.driver.job_s
        return seconds / (1 - min(share, MAX_OTHERS_SHARE))

    def catalog_round_s(self) -> float:
        """Return the seconds in which the catalog can serve a micro-batch of every stream."""
        costs, workload = self.costs.catalog[self.workload.catalog], self.workload
        cores = DATABASE_CORES if workload.catalog is CatalogKind.POSTGRESQL else 1
        share = workload.snodes * BEATS_S * costs.server_s / cores
        return workload.streams * costs.server_s / cores / (1 - share) if share < 1 else math.inf

    def round_s(self, least_s: float, *, is_door: bool = True) -> float:
        """Return the seconds of a round, which takes at least some; infinite if there is no end to it."""
        seconds, between_s = 0.0, 1 / self.workload.commits
        while seconds < MAX_ROUND_S:
            needed = max(self.work_s(max(seconds, between_s), is_door=is_door), least_s)
            if needed <= seconds * 1.001:
                return needed
            seconds = needed
        return math.inf

    def delay_s(self, least_s: float) -> float:
        """Return the seconds from a commit until the last stream of any driver has committed its result.

        `least_s` is what a round takes at least.
        """
        doors = self.operations.doors
        others = self.workload.snodes - doors
        return max(self.last_s(least_s, doors, is_door=True), self.last_s(least_s, others, is_door=False) if others else 0.0)

    def last_s(self, least_s: float, drivers: int, *, is_door: bool) -> float:
        """Return the same for some drivers. The later they look, the more there are: each may have begun a round just before."""
        workload, between_s = self.workload, 1 / self.workload.commits
        round_s = self.round_s(least_s, is_door=is_door)
        if math.isinf(round_s):
            return math.inf
        closes = workload.trigger is Trigger.WINDOW_CLOSE
        own_s = max(self.work_s(max(round_s, between_s), closes=closes, is_door=is_door), round_s)
        if round_s >= between_s:
            # Streams that have begun with what was there before finish that first; a table with one stream has none that wait.
            begun = 1 - (workload.driver_tables - 1) / workload.driver_streams
            return own_s + round_s * begun * drivers / (drivers + 1)
        return own_s + (OBJECT_STORE_POLL_S if workload.storage is Storage.S3 else LOCAL_POLL_S if workload.snodes > 1 else 0.0)
