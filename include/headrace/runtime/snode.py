"""The snode: the resident application that computes the streams of its name, one driver at a time."""

from __future__ import annotations

from enum import IntEnum

from headrace.runtime.context import Context
from headrace.runtime.http import RunSql


class Exit(IntEnum):
    """How an snode ended. Airflow retries all but OK."""

    OK = 0
    FAILED = 1
    LEASE_HELD = 3
    """Another driver held the lease all the time it was waited for."""
    LEASE_LOST = 4
    """Another driver has taken over: this one stopped at once."""
    SPARK_DIED = 5
    """The JVM is gone."""


def run_snode(
    context: Context,
    name: str,
    run_sql: RunSql,
    *,
    fill_histories: bool = True,
    wait_s: float | None = None,
) -> Exit:
    """Run an snode in this thread until SIGTERM or SIGINT, the loss of its lease, or the end of its JVM.

    Args:
        run_sql: how `POST /sql` runs a statement.
        fill_histories: whether it fills the history of streams itself; where Airflow does, it waits for FILLING streams.
        wait_s: how long to wait for a lease that another holds; None: until it is free. 0: refuse at once.
    """
    raise NotImplementedError
