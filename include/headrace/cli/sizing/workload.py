"""What a system has to do and consists of, and what single operations take then."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.cli.sizing.costs import CatalogKind as CatalogKind
from headrace.cli.sizing.costs import Costs, Kind

GIB: Final = 1 << 30
DOOR_SHARE: Final = 0.3
"""The share of a driver's time that clients may take; with more rows, more snodes take them."""


class Trigger(StrEnum):
    """When results are written."""

    WINDOW_CLOSE = "window_close"
    AT_ONCE = "at_once"


class Storage(StrEnum):
    """Where the tables are."""

    DISK = "disk"
    S3 = "s3"


@dataclass(frozen=True, slots=True)
class Workload:
    """Devices that write, streams that read, and what runs them.

    Attributes:
        devices: Devices, each a subtable and a group of every stream on its table.
        rate: Rows that each of them writes in a second.
        streams: Streams, spread over the tables.
        kind: Their windows.
        trigger: Their trigger.
        window_s: The length of a window.
        tables: Tables over which devices are spread.
        commits: Commits a second on each table.
        snodes: Snodes, one driver each.
        catalog: The database of the catalog.
        storage: Where the tables are.
        request_s: Seconds of a request to the object store.
        delay_s: Seconds after which results should be there.
        memory: Bytes that the Python process of a driver may have.
    """

    devices: int
    rate: float
    streams: int
    kind: Kind = Kind.INTERVAL
    trigger: Trigger = Trigger.WINDOW_CLOSE
    window_s: float = 60.0
    tables: int = 1
    commits: float = 10.0
    snodes: int = 1
    catalog: CatalogKind = CatalogKind.SQLITE
    storage: Storage = Storage.DISK
    request_s: float = 0.02
    delay_s: float = 5.0
    memory: float = 16 * GIB

    @property
    def rows_s(self) -> float:
        """Rows a second."""
        return self.devices * self.rate

    @property
    def table_rows_s(self) -> float:
        """Rows a second of one table."""
        return self.rows_s / self.tables

    @property
    def groups(self) -> float:
        """Groups of one stream."""
        return self.devices / self.tables

    @property
    def driver_streams(self) -> int:
        """Streams of one driver."""
        return math.ceil(self.streams / self.snodes)

    @property
    def driver_tables(self) -> int:
        """Tables that one driver reads."""
        return min(self.driver_streams, self.tables)

    @property
    def writes_always(self) -> bool:
        """Whether each micro-batch has results."""
        return self.trigger is Trigger.AT_ONCE or self.kind is not Kind.INTERVAL


@dataclass(frozen=True, slots=True)
class Work:
    """Seconds of an operation: under the interpreter's lock of a driver, and waiting for an object store or a disk."""

    cpu_s: float
    wait_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Seconds in all."""
        return self.cpu_s + self.wait_s

    def plus(self, cpu_s: float, wait_s: float = 0.0) -> Work:
        """Return the work of both."""
        return Work(self.cpu_s + cpu_s, self.wait_s + wait_s)


@dataclass(frozen=True, slots=True)
class Operations:
    """What the operations of a workload take."""

    workload: Workload
    costs: Costs

    @property
    def request_s(self) -> float:
        """Seconds of a request to the storage: none to a disk, whose syncs are part of all costs."""
        return self.workload.request_s if self.workload.storage is Storage.S3 else 0.0

    @property
    def _on_store(self) -> bool:
        return self.workload.storage is Storage.S3

    def commit(self, rows: float) -> Work:
        """Return the work of a commit of a client's rows."""
        source, store = self.costs.source, self.costs.object_store
        cpu_s = source.commit_cpu_s + source.commit_row_s * rows
        work = Work(cpu_s, source.commit_s - source.commit_cpu_s)
        return work.plus(store.source_s, store.source_trips * self.request_s) if self._on_store else work

    def read(self, rows: float) -> Work:
        """Return the work of reading new rows, once for all streams of a driver on a table."""
        source = self.costs.source
        return Work(source.read_s + source.read_row_s * rows, self.costs.object_store.read_trips * self.request_s)

    def batch(self, rows: float, *, closes: bool = False) -> Work:
        """Return the work of a micro-batch of one stream, without its statements; `closes` says if it closes all windows."""
        workload, results, store = self.workload, self.costs.results, self.costs.object_store
        one, windows = self.costs.batch[workload.kind], min(rows, workload.groups)
        work = Work(one.fixed_s + one.row_s * rows + results.window_s * windows)
        if self._on_store:
            work = work.plus(store.batch_s, store.batch_trips * self.request_s)
        if not (closes or workload.writes_always):
            return work
        if workload.kind is Kind.INTERVAL:
            written = windows if workload.trigger is Trigger.AT_ONCE else workload.groups
            work = work.plus(results.commit_s + results.commit_row_s * written)
        return work.plus(store.commit_s, store.commit_trips * self.request_s) if self._on_store else work

    @property
    def statements_s(self) -> float:
        """Seconds of the statements of a micro-batch."""
        catalog = self.costs.catalog[self.workload.catalog]
        return catalog.read_s + catalog.write_s

    @property
    def doors(self) -> int:
        """Snodes that clients write to."""
        return max(1, min(self.workload.snodes, math.ceil(self._clients_share / DOOR_SHARE)))

    @property
    def door_share(self) -> float:
        """Share of its driver's time that a door takes."""
        return self._clients_share / self.doors

    @property
    def _clients_share(self) -> float:
        """Share of a driver's time that all clients together take."""
        workload = self.workload
        commit = self.commit(workload.table_rows_s / workload.commits)
        return workload.rows_s * self.costs.source.door_row_s + workload.tables * workload.commits * commit.cpu_s
