"""What the functions of this room work with; made once a process by whoever is above."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.model.clock import Clock, SystemClock
from headrace.settings import Settings
from headrace.streams import Context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Context", "Progress", "SparkOnDemand", "open_context", "silent"]

Progress = Callable[[int, int], None]
"""Called with what is done and what there is in all, in rows."""


def silent(done: int, total: int) -> None:
    """A `Progress` that nobody watches."""


class SparkOnDemand:
    """The session of this process, started by whoever asks first; the others wait for it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._session: SparkSession | None = None

    @property
    def started(self) -> bool:
        """Whether this process has its session already."""
        return self._session is not None

    def __call__(self) -> SparkSession:
        from headrace.storage.session import start_session

        with self._lock:
            if self._session is None:
                self._session = start_session(self._settings)
            return self._session


def open_context(settings: Settings, clock: Clock | None = None) -> Context:
    """Open the catalog and tables of the settings; nothing of Spark starts before it is needed. `close` both after use."""
    from headrace.catalog import Catalog
    from headrace.storage import Tables

    clock = clock or SystemClock()
    catalog = Catalog.open(settings.catalog, clock=clock.now)
    tables = Tables(settings.tables_uri, catalog.lock, settings.small_write_rows)
    return Context(catalog=catalog, tables=tables, spark=SparkOnDemand(settings), clock=clock, settings=settings)
