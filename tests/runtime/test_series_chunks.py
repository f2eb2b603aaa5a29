"""Histories of windows without a fixed length: their chunks are ranges of series."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.context import Context
from headrace.errors import Error
from headrace.history import backfill
from headrace.jobs.hosts import Driving
from headrace.model import failpoints
from headrace.model.failpoints import FailpointError
from headrace.model.ledger import ChunkState
from headrace.runtime.job_host import JobHost
from headrace.settings import load
from headrace.sql import parse
from headrace.streams import lifecycle
from headrace.streams.definition.define import define
from tests.runtime.meters import START, Meters, readings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = tuple(f"m{number}" for number in range(1, 7))
WINDOWS = {
    "session": "session(ts, 8s)",
    "state": "state_window(v)",
    "event": "event_window start with v > 50 end with v < 20",
    "count": "count_window(4)",
}


@pytest.fixture
def meters(tmp_path: Path, spark: SparkSession) -> Iterator[Meters]:
    from headrace.catalog import Catalog
    from headrace.model.clock import SystemClock
    from headrace.storage import Tables

    settings = load(home=tmp_path / "home", chunk_rows=60)
    with Catalog.open(settings.catalog) as catalog:
        tables = Tables(settings.tables_uri, catalog.lock, settings.small_write_rows)
        context = Context(catalog=catalog, open_tables=lambda: tables, spark=lambda: spark, clock=SystemClock(), settings=settings)
        meters = Meters.create(context, NAMES)
        meters.write(readings(300, names=NAMES, step=3000))
        yield meters


def create(meters: Meters, window: str, target: str) -> str:
    statement: Any = parse(
        f"create stream {target} trigger at_once watermark 1d fill_history 1 into {target} as "
        f"select _wstart, count(*) n, sum(v) total from meters partition by tbname {window}"
    )
    plan = define(statement, meters.context.catalog, "db")
    lifecycle.create(meters.context, plan, plan.definition(created=meters.context.clock.now()))
    return plan.id


def results(meters: Meters, target: str) -> list[tuple[Any, ...]]:
    """Return the windows of a target. Names of its subtables do not depend on the stream."""
    table = meters.context.catalog.tables.get("db", target)
    return sorted(tuple(row.values())[:3] for row in meters.context.tables.scan(table).to_pylist())


@pytest.mark.parametrize(
    ("window", "kernels"), [("session", "always"), ("state", "never"), ("event", "always"), ("count", "never")]
)
def test_a_history_in_ranges_of_series_equals_one_that_is_not_divided(meters: Meters, window: str, kernels: str) -> None:
    settings = meters.context.settings.replace({"kernels": kernels})
    meters.context = replace(meters.context, settings=settings)
    divided, whole = create(meters, WINDOWS[window], "divided"), create(meters, WINDOWS[window], "whole")
    chunks = backfill.plan_chunks(meters.context, divided)
    assert len(chunks) > 2
    assert (chunks[0].first_series, chunks[-1].end_series) == (None, None)
    assert [chunk.end_series for chunk in chunks[:-1]] == [chunk.first_series for chunk in chunks[1:]]
    assert sum(chunk.rows for chunk in chunks) == 300
    assert len(backfill.plan_chunks(meters.context, whole, rows=1000)) == 1
    meters.write(readings(60, seed=3, start=START + 1_000_000, names=NAMES, step=3000))  # after the boundary
    for stream in (divided, whole):
        assert backfill.fill_history(meters.context, stream)
    pollers = JobHost(Driving(meters.context))
    pollers.reconcile(meters.context.catalog.jobs.all())
    while pollers.poll():
        pass
    pollers.close()
    assert results(meters, "divided") == results(meters, "whole")
    assert sum(row[1] for row in results(meters, "divided")) > 100


@pytest.mark.parametrize("point", ["history.commit", "history.committed"])
def test_a_chunk_of_a_killed_process_is_done_by_the_next_one(meters: Meters, point: str) -> None:
    stream, whole = create(meters, WINDOWS["session"], "divided"), create(meters, WINDOWS["session"], "whole")
    chunks = backfill.plan_chunks(meters.context, stream)
    with failpoints.armed(f"{point}:2:raise"), pytest.raises((FailpointError, Error)):
        backfill.fill_history(meters.context, stream)
    states = [chunk.state for chunk in meters.context.catalog.ledger.chunks(stream, backfill.HISTORY)]
    assert (states[0], states[-1]) == (ChunkState.DONE, ChunkState.PENDING)
    assert backfill.fill_history(meters.context, stream)
    assert backfill.plan_chunks(meters.context, whole, rows=1000)
    assert backfill.fill_history(meters.context, whole)
    assert results(meters, "divided") == results(meters, "whole")
    assert len(meters.context.catalog.ledger.chunks(stream)) == len(chunks)
