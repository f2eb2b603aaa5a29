"""Points of a whole system beside what the model of `benchmarks/capacity` predicts, calibrated on this machine first."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.capacity.checks import Checks, describe
from benchmarks.capacity.run import calibrated
from benchmarks.measure import Timings
from benchmarks.results import Measurement


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure the costs, then each point."""
    with calibrated(bench) as calibration:
        checks = Checks(
            bench, calibration.costs, calibration.effort, calibration.database, calibration.store, calibration.request_s
        )
        for point in checks.run():
            bench.log(f"{point.name}: {describe(point)}")
            yield Measurement(point.name, point.measured, others={"predicted": Timings((point.predicted,))}, note=describe(point))
