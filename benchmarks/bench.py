"""What the measurements share: sizes, a home of their own, one connection and one Spark session."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.model.tables import Database, Table
from headrace.settings import load
from headrace.storage.delta.handles import rows_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.runtime.context import Context
    from headrace.service.connection import Connection

DATABASE = "bench"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured.

    Attributes:
        rows, subtables: Of the table whose history is filled.
        window_rows: Of the table on which batch windows are measured.
        only: What the names of the measured ones contain.
        batch_rows: Rows of an insert.
        warm_up, batches: Inserts of each turn that are not counted, and that are, where latency is measured.
        fan_out: Streams on one source where there is more than one.
        dags: How many streams have their DAGs parsed.
        processes: How often the command line is started a round.
        rounds: Rounds after the first, which is dropped.
    """

    rows: int = 20_000_000
    subtables: int = 1000
    window_rows: int = 20_000_000
    only: str = ""
    batch_rows: int = 1000
    warm_up: int = 3
    batches: int = 12
    fan_out: int = 10
    dags: int = 500
    processes: int = 3
    rounds: int = 3


class Bench:
    """One run of the benchmarks, in one home; what is heavy starts when first asked for."""

    def __init__(self, home: Path, sizes: Sizes, log: Callable[[str], None], **settings: Any) -> None:
        self.home = home
        self.sizes = sizes
        self.log = log
        # Nobody renews the lease under which streams are measured.
        self.settings = load(**({"home": home / "headrace", "lease_ms": 24 * 3_600_000} | settings))

    @functools.cached_property
    def connection(self) -> Connection:
        from headrace.service.connection import connect

        connection = connect(settings=self.settings)
        connection.execute(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        connection.execute(f"USE {DATABASE}")
        return connection

    @property
    def context(self) -> Context:
        return self.connection.session.context

    @functools.cached_property
    def spark(self) -> SparkSession:
        return self.context.spark()

    @property
    def database(self) -> Database:
        return self.context.catalog.databases.get(DATABASE)

    def table(self, name: str) -> Table:
        return self.context.catalog.tables.get(DATABASE, name)

    def has_table(self, name: str) -> bool:
        return any(table.name == name for table in self.context.catalog.tables.all(DATABASE))

    def location(self, name: str) -> str:
        """Where a table's rows are."""
        return rows_uri(self.settings.tables_uri, self.table(name))

    def execute(self, sql: str) -> None:
        self.connection.execute(sql)

    def scratch(self, name: str) -> Path:
        """A folder for what a hand-written job writes, empty."""
        folder = self.home / "handwritten" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        return folder

    def close(self) -> None:
        """Close the connection, where one was opened; Spark's session stays."""
        if "connection" in self.__dict__:
            self.connection.close()
