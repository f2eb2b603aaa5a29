"""Backfills of streams, with concurrent writes and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from headrace.context import Context
from headrace.errors import InvalidStreamError, OperationalError
from headrace.history import backfill
from headrace.jobs.hosts import Driving
from headrace.model import failpoints
from headrace.model.failpoints import FailpointError
from headrace.model.jobs import JobState
from headrace.model.ledger import ChunkState
from headrace.model.tables import Database
from headrace.model.time import Duration, Precision
from headrace.runtime.job_host import JobHost
from headrace.settings import Settings, load
from tests.runtime.meters import METERS, START, Meters, readings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(home=tmp_path / "home", chunk_rows=100)


@pytest.fixture
def context(settings: Settings, spark: SparkSession) -> Iterator[Context]:
    from headrace.catalog import Catalog
    from headrace.model.clock import SystemClock
    from headrace.storage import Tables

    with Catalog.open(settings.catalog) as catalog:
        tables = Tables(settings.tables_uri, catalog.lock, settings.small_write_rows)
        yield Context(catalog=catalog, open_tables=lambda: tables, spark=lambda: spark, clock=SystemClock(), settings=settings)


@pytest.fixture
def meters(context: Context) -> Meters:
    return Meters.create(context)


def through_spark(meters: Meters) -> None:
    """Have results of more than a few rows stay with Spark."""
    settings = meters.context.settings.replace({"driver_rows": 20, "chunk_rows": 1_000})
    meters.context = replace(meters.context, settings=settings)


def by_kernels(meters: Meters) -> None:
    """Have all windows computed by kernels."""
    through_spark(meters)
    settings = meters.context.settings.replace({"kernels": "always"})
    meters.context = replace(meters.context, settings=settings)


large = pytest.mark.parametrize("prepare", [lambda _: None, through_spark, by_kernels], ids=["small", "large", "kernels"])
Prepare = Callable[[Meters], None]


def settle(context: Context) -> None:
    """Have the live streams handle all that was written."""
    feeds = JobHost(Driving(context))
    feeds.reconcile(context.catalog.jobs.all())
    while feeds.poll():
        feeds.reconcile(context.catalog.jobs.all())
    feeds.close()


def target_version(context: Context) -> int:
    return context.tables.version(context.catalog.tables.get("db", "out"))


def test_chunks_are_planned_without_spark_and_planned_once(meters: Meters) -> None:
    meters.write(readings(500))
    stream = meters.create_stream()
    chunks = backfill.plan_chunks(meters.context, stream)
    assert len(chunks) == 5
    assert sum(chunk.rows for chunk in chunks) == 500
    meters.write(readings(300, seed=1, start=START + 10_000_000))
    assert backfill.plan_chunks(meters.context, stream, duration=Duration(1, "h")) == chunks


def test_a_backfill_in_chunks_equals_the_query_despite_concurrent_writes(meters: Meters) -> None:
    meters.write(readings(150))
    meters.write(readings(100, seed=1, start=START + 300_000))
    stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1 IGNORE EXPIRED 0 IGNORE UPDATE 0")
    chunks = backfill.plan_chunks(meters.context, stream)
    assert len(chunks) == 2
    late, new = readings(30, seed=2, start=START + 5), readings(50, seed=3, start=START + 1_049_000)
    for chunk in chunks:
        meters.write([row for row in late + new if row[1] % len(chunks) == chunk.number])
        assert backfill.fill_chunk(meters.context, stream, chunk.run, chunk.number).state is ChunkState.DONE
    meters.delete("m2", START, START + 200_000)
    backfill.activate(meters.context, stream)
    backfill.go_live(meters.context, stream)
    settle(meters.context)
    assert meters.results() == meters.expected()


def test_a_chunk_that_is_done_is_not_computed_again(meters: Meters) -> None:
    meters.write(readings(200))
    stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1")
    backfill.fill_history(meters.context, stream)
    version, results = target_version(meters.context), meters.results()
    assert results == meters.expected()
    for chunk in backfill.plan_chunks(meters.context, stream):
        backfill.fill_chunk(meters.context, stream, chunk.run, chunk.number)
    assert (target_version(meters.context), meters.results()) == (version, results)


@large
def test_a_chunk_that_failed_anywhere_is_filled_by_the_next_attempt(meters: Meters, prepare: Prepare) -> None:
    prepare(meters)
    meters.write(readings(90))
    stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1")
    (chunk,) = backfill.plan_chunks(meters.context, stream)
    for point in ("history.evaluate", "history.commit", "storage.commit", "history.committed"):
        with failpoints.armed(f"{point}:1:raise"), pytest.raises(FailpointError):
            backfill.fill_chunk(meters.context, stream, chunk.run, chunk.number)
        (failed,) = meters.context.catalog.ledger.chunks(stream)
        assert failed.state is ChunkState.FAILED
        assert point in str(failed.message)
        with pytest.raises(OperationalError, match="not filled"):
            backfill.activate(meters.context, stream)
    backfill.fill_history(meters.context, stream)
    assert meters.results() == meters.expected()


def test_open_windows_of_the_history_are_written_and_change_when_they_close(meters: Meters) -> None:
    meters.write(readings(300))
    stream = meters.create_stream("TRIGGER WINDOW_CLOSE WATERMARK 90s FILL_HISTORY 1")
    backfill.fill_history(meters.context, stream)
    filled = meters.expected()
    assert meters.results() == filled
    newest = max(time for _, time in meters.stored)
    meters.write([("m1", newest + 1, 7)])
    settle(meters.context)
    assert meters.results() == filled
    meters.write([("m2", newest + 400_000, 1)])
    settle(meters.context)
    assert meters.results() == meters.expected(closed_before=newest + 400_000 - 90_000)


def test_a_history_has_the_rows_that_pass_where_and_their_tags(meters: Meters) -> None:
    meters.write(readings(200))
    meters.write([("m1", START + 10_000_000, -1)])
    stream = meters.create_stream("TRIGGER WINDOW_CLOSE FILL_HISTORY 1", "WHERE v >= 0 AND area < 2 PARTITION BY tbname")
    backfill.fill_history(meters.context, stream)
    assert meters.results() == meters.expected(where="v >= 0 AND tbname <> 'm3'")


def test_a_stream_over_an_empty_source_goes_live(meters: Meters) -> None:
    stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1")
    backfill.fill_history(meters.context, stream)
    meters.write(readings(50))
    settle(meters.context)
    assert meters.results() == meters.expected()
    assert meters.context.catalog.jobs.by_id(stream).state is JobState.RUNNING


def test_a_backfill_stops_on_request_and_continues_later(meters: Meters) -> None:
    meters.write(readings(300))
    stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1")
    asked = iter([False, True])
    assert not backfill.fill_history(meters.context, stream, stopped=lambda: next(asked))
    states = [chunk.state for chunk in meters.context.catalog.ledger.chunks(stream)]
    assert states == [ChunkState.DONE, ChunkState.PENDING, ChunkState.PENDING]
    told: list[tuple[int, int]] = []
    assert backfill.fill_history(meters.context, stream, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, 300)
    assert told[-1] == (300, 300)
    assert meters.results() == meters.expected()


def live_stream(meters: Meters, options: str = "TRIGGER AT_ONCE FILL_HISTORY 1") -> str:
    """A live stream over some readings, one result of which is wrong, one gone, one too many, and one of another's."""
    meters.write(readings(100))
    stream = meters.create_stream(options)
    backfill.fill_history(meters.context, stream)
    settle(meters.context)
    return stream


def spoil(meters: Meters) -> None:
    """Make results wrong in ways that the live stream cannot know of."""
    target = meters.context.catalog.tables.get("db", "out")
    database = meters.context.catalog.databases.get("db")
    rows = meters.context.tables.scan(target)
    wrong = rows.slice(0, 5).set_column(rows.column_names.index("n"), "n", [[99] * 5])
    meters.context.tables.writer.write(target, database, wrong)
    start = rows["_wstart"][10].cast("int64").as_py() // 1000
    meters.context.tables.writer.delete(target, database, ranges=[(start, start)])


@large
def test_only_the_given_range_is_recomputed(meters: Meters, prepare: Prepare) -> None:
    stream = live_stream(meters)
    prepare(meters)
    spoil(meters)
    assert meters.results() != meters.expected()
    backfill.recompute(meters.context, stream, "manual-1", None, None)
    assert meters.results() == meters.expected()
    spoil(meters)
    spoiled = meters.results()
    backfill.recompute(meters.context, stream, "manual-2", START + 10**9, None)
    assert meters.results() == spoiled


@large
def test_a_recomputation_retracts_windows_without_rows_of_its_own_groups_only(meters: Meters, prepare: Prepare) -> None:
    stream = live_stream(meters)
    prepare(meters)
    context = meters.context
    target, database = context.catalog.tables.get("db", "out"), context.catalog.databases.get("db")
    rows = context.tables.scan(target)
    own, times = rows["tbname"][0].as_py(), rows["_wstart"]
    shifted = times.cast("int64")[0].as_py() + 17_000_000
    stray = rows.slice(0, 2).set_column(rows.column_names.index("_wstart"), "_wstart", [[shifted, shifted]])
    stray = stray.cast(rows.schema)
    context.catalog.subtables.add("db", "out", ["others"])
    stray = stray.set_column(rows.column_names.index("tbname"), "tbname", [[own, "others"]])
    context.tables.writer.write(target, database, stray)
    backfill.recompute(context, stream, "manual", None, None)
    kept = context.tables.scan(target, tbnames=["others"])
    assert kept.num_rows == 1
    assert len(meters.results()) == len(meters.expected()) + 1


def test_a_recomputation_never_replaces_newer_results_by_older_ones(meters: Meters) -> None:
    stream = live_stream(meters, "TRIGGER AT_ONCE FILL_HISTORY 1 IGNORE EXPIRED 0 IGNORE UPDATE 0")
    spoil(meters)
    changes = iter(range(100))

    def interfere() -> None:
        """A late row that the live stream handles between the evaluation of a chunk and its commit."""
        meters.write([("m1", START + 30_000 + next(changes), 50)])
        settle(meters.context)

    with failpoints.calling("history.commit", interfere):
        backfill.recompute(meters.context, stream, "manual", None, None, rows=10_000)
    assert next(changes) == 1
    assert meters.results() == meters.expected()


def test_a_range_of_a_stream_that_is_not_live_cannot_be_recomputed(meters: Meters) -> None:
    meters.write(readings(50))
    stream = meters.create_stream()
    with pytest.raises(InvalidStreamError, match="no results yet"):
        backfill.plan_chunks(meters.context, stream, "manual")


def test_the_boundary_is_the_version_at_which_the_stream_was_created(meters: Meters) -> None:
    meters.write(readings(50))
    stream = meters.create_stream()
    boundary = meters.context.tables.version(METERS)
    meters.write(readings(50, seed=1))
    assert meters.context.catalog.jobs.by_id(stream).boundary_version == boundary


def test_a_stream_whose_history_was_filled_handles_rows_written_and_deleted_in_one_batch(meters: Meters) -> None:
    live_stream(meters, "TRIGGER AT_ONCE FILL_HISTORY 1 IGNORE EXPIRED 0 IGNORE UPDATE 0")
    meters.write(readings(50, seed=2, start=START + 4_600_000))
    meters.delete("m1", START + 4_600_000, START + 4_700_000)
    settle(meters.context)
    assert meters.results() == meters.expected()


@large
def test_a_history_may_go_to_a_database_of_another_precision(meters: Meters, prepare: Prepare) -> None:
    prepare(meters)
    meters.write(readings(90))
    meters.context.catalog.databases.create(Database("other", Precision.NANOSECOND))
    stream = meters.create_stream("TRIGGER AT_ONCE FILL_HISTORY 1", target="other.out")
    backfill.fill_history(meters.context, stream)
    assert meters.results("other") == meters.expected()
