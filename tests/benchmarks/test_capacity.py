"""The model of a whole system agrees with the formulas of `headrace size`. What it predicts is measured; times are not checked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from benchmarks.bench import Bench, Sizes
from benchmarks.capacity.__main__ import format_costs
from benchmarks.capacity.calibration import (
    QUICK,
    calibrate_batches,
    calibrate_memory,
    calibrate_source,
    calibrate_store,
    measure_catalog,
)
from benchmarks.capacity.checks import Checks
from benchmarks.capacity.model import simulate, simulate_burst
from benchmarks.capacity.servers import running_database
from headrace.cli.sizing.costs import FILE, CatalogKind, Kind, costs_from, measured_costs
from headrace.cli.sizing.estimate import Part, estimate
from headrace.cli.sizing.workload import Operations, Storage, Trigger, Workload
from tests.support.object_store import Server

TOLERANCE: Final = 0.25
MAX_DRIVER_STREAMS: Final = 100
"""With more, a simulation takes seconds."""
GRID: Final = [
    Workload(devices, 1.0, streams, trigger=trigger, tables=tables, snodes=snodes, catalog=catalog, storage=storage)
    for devices in (10_000, 100_000, 1_000_000)
    for streams in (100, 1_000, 10_000)
    for snodes in (1, 10, 100)
    if streams / snodes <= MAX_DRIVER_STREAMS
    for catalog in CatalogKind
    for storage in Storage
    for trigger, tables in ((Trigger.WINDOW_CLOSE, 10), (Trigger.AT_ONCE, 1))
]


def describe(workload: Workload) -> str:
    parts = (workload.devices, workload.streams, workload.snodes, workload.catalog, workload.storage, workload.trigger)
    return "-".join(map(str, parts))


@pytest.mark.parametrize("workload", GRID, ids=describe)
def test_the_simulation_agrees_with_the_formulas(workload: Workload) -> None:
    costs = measured_costs()
    result = estimate(workload, costs)
    limit_s = 3 * workload.delay_s
    if result.loads[Part.COMMITS] > 1:
        return  # clients cannot commit as often as they should

    simulated_s = simulate(workload, costs, result.round_s, limit_s)

    if result.delay_s <= workload.delay_s:
        assert simulated_s == pytest.approx(result.delay_s, rel=TOLERANCE)
    else:  # rounds grow with what waits, so small differences become large ones
        assert simulated_s > workload.delay_s


@pytest.mark.parametrize("kind", Kind)
def test_a_burst_takes_the_sum_of_its_micro_batches(kind: Kind) -> None:
    workload, costs = Workload(10, 1.0, 4, kind), measured_costs()
    operations = Operations(workload, costs)
    expected = operations.read(500).total_s + 4 * (operations.batch(500).total_s + operations.statements_s)
    assert simulate_burst(workload, costs, 500) == pytest.approx(expected)


def test_the_costs_are_written_as_they_are_read() -> None:
    import tomllib

    costs = measured_costs()
    assert costs_from(tomllib.loads("\n".join(format_costs(costs)))) == costs
    assert costs_from(tomllib.loads(FILE.read_text())) == costs


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, Sizes(batch_rows=60), lambda _: None)
    yield bench
    bench.close()


@pytest.mark.drawn(2)
def test_costs_are_measured_and_points_are_checked(bench: Bench) -> None:
    costs = calibrate_batches(bench, calibrate_source(bench, calibrate_memory(bench, measured_costs(), QUICK), QUICK), QUICK)
    costs = replace(costs, catalog={**costs.catalog, CatalogKind.SQLITE: measure_catalog(bench, QUICK)})
    checks = Checks(bench, costs, QUICK)
    points = [checks.live("live", 2, 0.05), checks.writers("writers", 2, 100), checks.state("state", QUICK.windows)]

    assert all(point.predicted > 0 and math.isfinite(point.measured.median) for point in points)


@pytest.mark.drawn(2)
def test_costs_of_an_object_store_are_measured(bench: Bench, object_store: Server) -> None:
    costs, request_s = calibrate_store(bench, object_store, measured_costs(), QUICK)

    assert costs.object_store.source_trips > 0
    assert Checks(bench, costs, QUICK, store=object_store, request_s=request_s).with_store(object_store).predicted > 0


@pytest.mark.drawn(2)
@pytest.mark.postgres
def test_costs_of_a_catalog_in_postgresql_are_measured(bench: Bench, tmp_path: Path) -> None:
    with running_database() as database:
        if database is None:
            pytest.skip("there is no PostgreSQL")
        own = Bench(tmp_path / "own", bench.sizes, bench.log, catalog_url=database.url)
        costs = measure_catalog(own, QUICK, database)
        own.close()
        assert costs.read_s > 0
        assert Checks(bench, measured_costs(), QUICK, database).with_catalog(database).predicted > 0
