"""What the functions of this room work with; made once a process by whoever is above."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.model.clock import Clock, SystemClock
from headrace.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.catalog import Catalog
    from headrace.storage import Tables

Progress = Callable[[int, int], None]
"""Called with what is done and what there is in all, in rows."""


def silent(done: int, total: int) -> None:
    """A `Progress` that nobody watches."""


@dataclass(frozen=True, slots=True)
class Context:
    """One process's catalog, tables and clock; `spark` starts the session when it is first called for."""

    settings: Settings
    catalog: Catalog
    tables: Tables
    spark: Callable[[], SparkSession]
    clock: Clock = field(default_factory=SystemClock)


def open_context(settings: Settings, clock: Clock | None = None) -> Context:
    """Open the catalog and tables of the settings; nothing of Spark starts before it is needed. `close` the catalog after use."""
    raise NotImplementedError
