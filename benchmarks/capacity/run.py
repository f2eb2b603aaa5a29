"""Calibrates the costs with all servers that there are."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.bench import Bench
from benchmarks.capacity.calibration import (
    Effort,
    calibrate_batches,
    calibrate_doors,
    calibrate_jobs,
    calibrate_memory,
    calibrate_source,
    calibrate_start,
    calibrate_store,
    measure_catalog,
)
from benchmarks.capacity.servers import Database, running_database, running_store
from headrace.cli.sizing.costs import CatalogKind, Costs, measured_costs

if TYPE_CHECKING:
    from tests.support.object_store import Server as ObjectStore


@dataclass(frozen=True, slots=True)
class Calibration:
    """Costs, and the servers that they were measured with; `request_s` is that of a request to this object store."""

    costs: Costs
    effort: Effort
    database: Database | None
    store: ObjectStore | None
    request_s: float


@contextmanager
def calibrated(bench: Bench, effort: Effort | None = None, *, starts: bool = True) -> Iterator[Calibration]:
    """Measure all costs; those for which there is no server, and the start of streams by Airflow, stay as they are.

    `starts` says whether drivers are started, each with a Spark of its own.
    """
    effort = effort or Effort()
    with running_database() as database, running_store() as store:
        costs, request_s = calibrate(bench, effort, database, store)
        yield Calibration(calibrate_start(bench, costs) if starts else costs, effort, database, store, request_s)


def calibrate(bench: Bench, effort: Effort, database: Database | None, store: ObjectStore | None) -> tuple[Costs, float]:
    """Return the costs, and the seconds of a request to the object store."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    costs, request_s = replace(measured_costs(), machine=machine), 0.0
    # First, while this process is small.
    costs = calibrate_memory(bench, costs, effort)
    catalog = {CatalogKind.SQLITE: measure_catalog(bench, effort)}
    if database is not None:
        bench.log("catalog in PostgreSQL")
        own = Bench(bench.home / "postgresql", bench.sizes, bench.log, catalog_url=database.url)
        try:
            catalog[CatalogKind.POSTGRESQL] = measure_catalog(own, effort, database)
        finally:
            own.close()
    costs = replace(costs, catalog={**costs.catalog, **catalog})
    for what, measure in (("commits", calibrate_source), ("micro-batches", calibrate_batches), ("clients", calibrate_doors)):
        bench.log(what)
        costs = measure(bench, costs, effort)
    if store is not None:
        bench.log("object store")
        costs, request_s = calibrate_store(bench, store, costs, effort)
    bench.log("DAGs")
    return calibrate_jobs(bench, costs, effort), request_s
