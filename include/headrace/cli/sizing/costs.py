"""The measured costs of single operations."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("costs.toml")


class Kind(StrEnum):
    """Windows of the streams."""

    INTERVAL = "interval"
    SESSION = "session"
    STATE = "state"
    EVENT = "event"
    COUNT = "count"


class CatalogKind(StrEnum):
    """Database of the catalog."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


@dataclass(frozen=True, slots=True)
class SourceCosts:
    """A table that clients write to.

    Attributes:
        commit_s: A commit without its rows, of which `commit_cpu_s` under the interpreter's lock.
        commit_row_s: A row of a commit.
        poll_s: A look for new commits.
        read_s: Reading what is new, once for all streams of a driver, without its rows.
        read_row_s: A row of it.
        door_row_s: A row that comes in by a protocol, without its commit.
    """

    commit_s: float
    commit_cpu_s: float
    commit_row_s: float
    poll_s: float
    read_s: float
    read_row_s: float
    door_row_s: float


@dataclass(frozen=True, slots=True)
class BatchCosts:
    """A micro-batch without its statements in the catalog. For other windows than INTERVAL, with results: one for 30 rows."""

    fixed_s: float
    row_s: float


@dataclass(frozen=True, slots=True)
class ResultCosts:
    """A window that a micro-batch changes, a commit of results, and a window in it."""

    window_s: float
    commit_s: float
    commit_row_s: float


@dataclass(frozen=True, slots=True)
class CatalogCosts:
    """The two statements of a micro-batch, and the seconds for which they keep SQLite locked, or a core of PostgreSQL busy."""

    read_s: float
    write_s: float
    server_s: float


@dataclass(frozen=True, slots=True)
class StoreCosts:
    """What an object store adds: seconds, and requests one after the other of a commit of rows, a micro-batch, and its results."""

    source_s: float
    source_trips: float
    batch_s: float
    batch_trips: float
    commit_s: float
    commit_trips: float
    read_trips: float


@dataclass(frozen=True, slots=True)
class DriverCosts:
    """A driver: its start, its Python process, its caches, a window in state, and a job at each look at the catalog."""

    start_s: float
    base_bytes: float
    cache_bytes: float
    window_bytes: float
    job_s: float


@dataclass(frozen=True, slots=True)
class AirflowCosts:
    """A DAG to parse; the start of a stream, which takes longer for each stream beside it."""

    dag_s: float
    start_s: float
    start_job_s: float


@dataclass(frozen=True, slots=True)
class MaintenanceCosts:
    """A commit whose files and log entry maintenance removes."""

    commit_s: float


@dataclass(frozen=True, slots=True)
class Costs:
    """All costs, and the machine that they were measured on."""

    machine: str
    source: SourceCosts
    batch: Mapping[Kind, BatchCosts]
    results: ResultCosts
    catalog: Mapping[CatalogKind, CatalogCosts]
    object_store: StoreCosts
    driver: DriverCosts
    airflow: AirflowCosts
    maintenance: MaintenanceCosts


def costs_from(values: Mapping[str, Any]) -> Costs:
    """Return costs as `costs.toml` has them."""
    return Costs(
        values["machine"],
        SourceCosts(**values["source"]),
        {Kind(name): BatchCosts(**one) for name, one in values["batch"].items()},
        ResultCosts(**values["results"]),
        {CatalogKind(name): CatalogCosts(**one) for name, one in values["catalog"].items()},
        StoreCosts(**values["object_store"]),
        DriverCosts(**values["driver"]),
        AirflowCosts(**values["airflow"]),
        MaintenanceCosts(**values["maintenance"]),
    )


@cache
def measured_costs() -> Costs:
    """Return the costs that come with the package."""
    return costs_from(tomllib.loads(FILE.read_text()))
