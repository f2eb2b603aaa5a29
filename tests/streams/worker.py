"""A driver in its own process, which a failpoint may kill or freeze."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.catalog import Catalog
from headrace.compute.plan import WSTART
from headrace.context import Context
from headrace.jobs.hosts import Driving
from headrace.jobs.runners import RunnerFactory
from headrace.model.clock import ManualClock
from headrace.runtime.job_host import JobHost
from headrace.settings import load
from headrace.storage import Tables
from headrace.streams.batches import BatchResult
from headrace.streams.definition.define import StreamPlan
from headrace.streams.runner import StreamRunner
from headrace.streams.sinks.outbox import MAX_BACKLOG_MESSAGES, OutboxSink
from headrace.streams.sources import poller
from tests.streams.receiver import sender
from tests.streams.ticking import ticker_factory
from tests.support.forking import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = 1_700_000_000_000


def encode(result: BatchResult) -> Iterator[bytes]:
    """Return a message for each tick."""
    for row in result.upserts.to_pylist():
        yield json.dumps({"tick": row[WSTART] - START, "n": row["o1"]}).encode()


def outbox_factory(port: int, max_backlog: int = MAX_BACKLOG_MESSAGES) -> RunnerFactory:
    """Return a factory of runners for tickers that send their ticks to a receiver."""

    def sink(context: Context, plan: StreamPlan) -> OutboxSink:
        return OutboxSink(context, plan.id, plan.source_ids, encode, sender(port), max_backlog=max_backlog)

    return ticker_factory(sink=sink)


def use_one_thread() -> None:
    """Compute micro-batches one after the other, so that a thread that freezes the process interrupts no other's transaction."""
    poller.BATCH_THREADS = 1  # type: ignore[misc]


def start_driver(
    home: Path, now: int, epoch: int, failpoints: str, *, port: int = 0, database: str | None = None
) -> ForkServerProcess:
    """Start a driver.

    Args:
        home: The home whose streams it runs, until everything is written and sent.
        now: The time, in ms after `START`.
        epoch: The epoch of its lease.
        failpoints: Where it dies or freezes.
        port: The port of a receiver to which it sends ticks instead of running the streams as they are defined.
        database: The database of the streams, if not all are to run.
    """
    return start(run_driver, home, now, epoch, port, database, ":stop" in failpoints, failpoints=failpoints)


def run_driver(home: Path, now: int, epoch: int, port: int, database: str | None, in_one_thread: bool) -> None:
    if in_one_thread:
        use_one_thread()
    settings = load(home=home, kernels="always")
    clock = ManualClock(START + now)
    with Catalog.open(settings.catalog, clock=clock.now) as catalog:
        tables = Tables(settings.tables_uri, catalog.lock, settings.small_write_rows)
        context = replace(Context(catalog, lambda: tables, no_spark, clock, settings), epoch=epoch)
        pollers = JobHost(Driving(context), outbox_factory(port) if port else StreamRunner)
        records = [record for record in catalog.jobs.all() if database in (None, record.definition.database)]
        pollers.reconcile(records)
        while pollers.poll():
            pass
        senders = [record for record in records if port or "NOTIFY" in record.definition.sql.upper()]
        while any(tables.outbox(record.definition.id).backlog() for record in senders):
            time.sleep(0.01)
        pollers.close()
        tables.close()


def no_spark() -> SparkSession:
    raise AssertionError("nothing here needs Spark")
