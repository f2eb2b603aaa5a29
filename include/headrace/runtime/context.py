"""The context of a process: catalog, tables and Spark, opened once and passed to everything below."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from headrace import durable
from headrace.context import Context, egress_policy
from headrace.model.clock import Clock, SystemClock
from headrace.model.spark_options import Role

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.catalog import Catalog
    from headrace.code.triggers import FireResult, TabletRows
    from headrace.model.triggers import RegisteredTrigger
    from headrace.settings import Settings
    from headrace.storage import Tables

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that is created on first use. Thread-safe."""

    def __init__(self, create: Callable[[], T]) -> None:
        self._create = create
        self._lock = threading.Lock()
        self._value: T | None = None

    @property
    def started(self) -> bool:
        return self._value is not None

    def __call__(self) -> T:
        with self._lock:
            if self._value is None:
                self._value = self._create()
            return self._value


def open_context(settings: Settings, clock: Clock | None = None, role: Role = Role.EMBEDDED) -> Context:
    """Open the catalog of the settings. Tables and Spark are opened on first use. The caller closes catalog and tables.

    `role` is what the process is for.
    """
    from headrace.catalog import Catalog

    if settings.is_on_object_store:
        from headrace.storage.object_store import register

        register(settings.tables_uri, settings)
    for root in (settings.home_path, settings.tables_uri):
        durable.relax(root, relaxed=not settings.sync_commits)
    clock = clock or SystemClock()
    # All machines share the catalog's own time, so replace it only by a clock that is not the machine's.
    catalog = Catalog.open(settings.catalog, clock=None if isinstance(clock, SystemClock) else clock.now)
    return Context(
        catalog=catalog,
        open_tables=Lazy(partial(open_tables, settings, catalog)),
        spark=Lazy(partial(open_session, settings, role)),
        clock=clock,
        settings=settings,
        call_in_snode=None if role is Role.SNODE else call_in_snode,
        drop_in_snode=None if role is Role.SNODE else drop_in_snode,
    )


def call_in_snode(context: Context, trigger: RegisteredTrigger, rows: TabletRows) -> FireResult | None:
    """Have an snode call a stateful trigger. What this imports is only needed then."""
    from headrace.runtime import trigger_calls

    return trigger_calls.call_in_snode(context, trigger, rows)


def drop_in_snode(context: Context, trigger: RegisteredTrigger) -> bool:
    """Have snodes call `on_drop` of a stateful trigger's instance."""
    from headrace.runtime import trigger_calls

    return trigger_calls.drop_in_snode(context, trigger)


def open_tables(settings: Settings, catalog: Catalog) -> Tables:
    from headrace.storage import Tables

    if not settings.warehouse:
        settings.create_home()
    return Tables(settings.tables_uri, catalog.lock, settings.small_write_rows, egress_policy(settings, catalog).location)


def open_session(settings: Settings, role: Role) -> SparkSession:
    from headrace.storage.spark.session import start_session

    return start_session(settings, role=role)


def is_under_spark_submit() -> bool:
    """Return True if spark-submit's JVM is the parent of this process; otherwise the JVM is its child."""
    return "PYSPARK_GATEWAY_PORT" in os.environ
