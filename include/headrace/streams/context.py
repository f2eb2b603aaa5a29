"""What every part of a stream needs to reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.catalog import Catalog
    from headrace.model.clock import Clock
    from headrace.settings import Settings
    from headrace.storage import Tables


@dataclass(frozen=True, slots=True)
class Context:
    """The surroundings of a driver's streams.

    `open_tables` gives the tables and `spark` the session, the same ever after, and makes them on first use; `epoch` is that
    of the lease under which this driver may commit (0 in the embedded mode, where a lock keeps others out).
    """

    catalog: Catalog
    open_tables: Callable[[], Tables]
    spark: Callable[[], SparkSession]
    clock: Clock
    settings: Settings
    epoch: int = 0

    @property
    def tables(self) -> Tables:
        """The Delta tables."""
        return self.open_tables()

    @property
    def state_uri(self) -> str:
        """Folder of the streams' state, one folder a stream below it."""
        return f"{self.settings.tables_uri}/.streams"
