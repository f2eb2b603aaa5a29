"""An snode's driver in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from benchmarks.bench import Bench
from benchmarks.measure import MAX_WAIT_SECONDS
from headrace.runtime.driver import Driver
from headrace.runtime.metrics import Histogram


@contextmanager
def running_driver(bench: Bench, *, fills: bool = False) -> Iterator[None]:
    """Run the jobs of the home until the `with` block ends, as an snode does. `fills` says whether it also does large histories."""
    leases, settings = bench.context.catalog.leases, bench.settings
    bench.connection.session.close()  # it has the lease if a benchmark has called `settle`
    lease = leases.acquire(settings.snode, "benchmarks", settings.lease_ms)
    assert lease is not None, "an snode is using the home"
    context = replace(bench.context, epoch=lease.epoch)
    driver = Driver(context, settings.snode, fills=fills, batches=Histogram(), ended=lambda: None)
    driver.start()
    try:
        yield
    finally:
        has_stopped = driver.stop(MAX_WAIT_SECONDS)
        leases.release(lease)
    assert has_stopped
    if driver.failure is not None:
        raise driver.failure
