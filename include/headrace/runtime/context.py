"""What the functions of this room work with; made once a process by whoever is above."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from headrace.model.clock import Clock, SystemClock
from headrace.streams.context import Context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.catalog import Catalog
    from headrace.settings import Settings
    from headrace.storage import Tables

T = TypeVar("T")
__all__ = ["Context", "OnDemand", "open_context"]


class OnDemand(Generic[T]):
    """What takes long to make: made by whoever asks first, the others wait for it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: T | None = None

    @property
    def started(self) -> bool:
        """Whether somebody has asked already."""
        return self._made is not None

    def __call__(self) -> T:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


def open_context(settings: Settings, clock: Clock | None = None) -> Context:
    """Open the catalog of the settings. Tables and Spark wait until they are needed. `close` both after use."""
    from headrace.catalog import Catalog

    clock = clock or SystemClock()
    # The catalog's own time is the same for all machines; only a clock that is not the machine's replaces it.
    catalog = Catalog.open(settings.catalog, clock=None if isinstance(clock, SystemClock) else clock.now)
    return Context(
        catalog=catalog,
        open_tables=OnDemand(partial(tables_of, settings, catalog)),
        spark=OnDemand(partial(session_of, settings)),
        clock=clock,
        settings=settings,
    )


def tables_of(settings: Settings, catalog: Catalog) -> Tables:
    from headrace.storage import Tables

    return Tables(settings.tables_uri, catalog.lock, settings.small_write_rows)


def session_of(settings: Settings) -> SparkSession:
    from headrace.storage.spark.session import start_session

    return start_session(settings)
