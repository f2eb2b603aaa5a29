"""Environment that the benchmarks share: sizes, a home, a connection and a Spark session."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.model.snodes import MAX_LEASE_MS
from headrace.model.tables import Database, Table
from headrace.settings import Settings, load
from headrace.storage.delta.handles import rows_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.context import Context
    from headrace.service.connection import Connection

DATABASE = "bench"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of the benchmarks.

    Attributes:
        rows: Rows of the table whose history is computed.
        subtables: Subtables of this table and of the one for batch queries.
        window_rows: Rows of the table for batch queries.
        only: Text that the names of the batch queries, of the windows of `catch_up` and of the parts of `pipes` contain.
        batch_rows: Rows per insert.
        warm_up: Inserts per round of the latency benchmark that are not measured.
        batches: Inserts per round of the latency benchmark that are measured.
        open_windows: Numbers of windows in state with which micro-batches are measured, in ascending order.
        fan_out: Number of streams on one source, where several are measured.
        many: Numbers of different streams on one source.
        idle: Number of streams that have nothing to do.
        idle_seconds: For how long their CPU time is measured in a round.
        commit_rows: Rows of a large commit to the source of a live stream.
        commits: Number of large commits that a stream takes one after the other.
        load_rows: Rows of the files to load.
        dags: Number of streams, and of continuous queries, whose DAGs are parsed.
        scheduled: Numbers of streams beside which Airflow starts runs, in ascending order.
        followed: Requests of each client in a round beside which a stream is measured.
        processes: Processes per round of the command-line benchmark.
        rounds: Rounds after a first one, which is discarded.
        wide_devices: Devices of the tree with many measurements.
        wide_measurements: Measurements of each of them.
        pipe_rows: Rows of the history that a pipe transfers.
        pipe_devices: Devices of the trees of pipes.
        pipe_messages: Messages to and from Kafka.
        pipe_inserts: Inserts that are looked for at the receiver.
        pipes: Pipes over one table.
        iotdb: Host and port of an IoTDB server to compare with, and to which pipes send; empty for none.
        iotdb_source: Host and port of another one, whose own pipe sends the same history; empty for none.
    """

    rows: int = 20_000_000
    subtables: int = 1000
    window_rows: int = 20_000_000
    only: str = ""
    batch_rows: int = 1000
    warm_up: int = 3
    batches: int = 12
    open_windows: tuple[int, ...] = (1000, 100_000, 1_000_000)
    fan_out: int = 10
    many: tuple[int, ...] = (1, 10, 50, 100)
    idle: int = 1000
    idle_seconds: float = 10.0
    commit_rows: int = 5_000_000
    commits: int = 3
    load_rows: int = 20_000_000
    dags: int = 500
    scheduled: tuple[int, ...] = (10, 500)
    followed: int = 200
    processes: int = 3
    rounds: int = 3
    wide_devices: int = 10_000
    wide_measurements: int = 100
    pipe_rows: int = 4_000_000
    pipe_devices: int = 1000
    pipe_messages: int = 500_000
    pipe_inserts: int = 50
    pipes: int = 50
    iotdb: str = ""
    iotdb_source: str = ""


class Bench:
    """A run of the benchmarks in a home. The connection and Spark start on first use."""

    def __init__(self, home: Path, sizes: Sizes, log: Callable[[str], None], /, **settings: Any) -> None:
        self.home = home
        self.sizes = sizes
        self.log = log
        # The benchmarks do not renew the lease under which they run streams.
        self.settings = load(**({"home": home / "headrace", "lease_ms": MAX_LEASE_MS, "streams_per_database": 2000} | settings))

    @functools.cached_property
    def connection(self) -> Connection:
        """Connection to the home, with the benchmarks' database selected."""
        return self._connect(self.settings)

    @functools.cached_property
    def spark_sql(self) -> Connection:
        """Connection that evaluates windows by Spark SQL."""
        return self._connect(self.settings.replace({"kernels": "never"}))

    @functools.cached_property
    def kernels(self) -> Connection:
        """Connection that evaluates windows by kernels."""
        return self._connect(self.settings.replace({"kernels": "always"}))

    def _connect(self, settings: Settings) -> Connection:
        from headrace.service.connecting import connect

        connection = connect(settings=settings, dialect="tdengine")
        connection.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        connection.execute(f"USE {DATABASE}")
        return connection

    @functools.cached_property
    def tree(self) -> Connection:
        """Connection to the home in the IoTDB dialect."""
        from headrace.service.connecting import connect

        return connect(settings=self.settings, dialect="iotdb")

    @property
    def context(self) -> Context:
        """The connection's catalog and tables."""
        return self.connection.session.context

    @functools.cached_property
    def spark(self) -> SparkSession:
        """The connection's Spark session."""
        return self.context.spark()

    @property
    def database(self) -> Database:
        """The benchmarks' database."""
        return self.context.catalog.databases.get(DATABASE)

    def table(self, name: str) -> Table:
        """Return a table of the benchmarks' database."""
        return self.context.catalog.tables.get(DATABASE, name)

    def has_table(self, name: str) -> bool:
        """Return True if the benchmarks' database has the table."""
        return any(table.name == name for table in self.context.catalog.tables.all(DATABASE))

    def location(self, name: str) -> str:
        """Return the URI of a table's Delta table."""
        return rows_uri(self.settings.tables_uri, self.table(name))

    def execute(self, sql: str) -> None:
        """Run a statement."""
        self.connection.execute(sql)

    def scratch(self, name: str) -> Path:
        """Return a path for the output of a hand-written job; nothing exists there."""
        folder = self.home / "handwritten" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        return folder

    def close(self) -> None:
        """Close the connections that were opened. The Spark session stays."""
        for name in ("connection", "spark_sql", "kernels", "tree"):
            if name in self.__dict__:
                getattr(self, name).close()
