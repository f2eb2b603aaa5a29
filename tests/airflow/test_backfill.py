"""What the tasks before supervision do: histories and ranges cut into chunks, failures told, clearing understood."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.errors import DataError, TransientError
from headrace.model.clock import ManualClock
from headrace.model.jobs import DesiredState, JobProgress, JobState
from headrace.model.ledger import Chunk, ChunkState
from headrace.model.positions import Position
from headrace.model.time import Duration, Precision
from headrace.runtime import airflow_tasks
from headrace.runtime.airflow_tasks import Range, ticks
from headrace.runtime.context import Context
from headrace.settings import Settings
from tests.airflow.samples import SOURCE, add_stream, prepare, table, without_spark, write_rows


@pytest.fixture
def context(home: Settings, catalog: Catalog, clock: ManualClock) -> Context:
    return without_spark(home, catalog, clock)


def new_stream(catalog: Catalog, **options: Any) -> str:
    """A stream without history as CREATE STREAM records it."""
    return add_stream(catalog, state=JobState.CREATED, **options)


def stream_with_history(context: Context, catalog: Catalog) -> str:
    """A stream as CREATE STREAM records it, of a source of ten minutes."""
    prepare(catalog)
    write_rows(context, 600)
    boundary = {SOURCE: context.tables.version(table())}
    return add_stream(catalog, state=JobState.FILLING, progress=JobProgress(boundary=boundary))


def failed_stream(catalog: Catalog, context: Context, *numbers: int) -> str:
    """A stream of two chunks, of which those given have failed."""
    stream = add_stream(catalog, state=JobState.FILLING, progress=JobProgress(boundary={SOURCE: 1}))
    catalog.ledger.plan(stream, "history", [Chunk(stream, "history", number, 0, 1, 1) for number in range(2)])
    for number in numbers:
        airflow_tasks.failed(context, stream, "no memory", number)
    return stream


def test_a_form_left_empty_means_everything() -> None:
    assert Range.of_form({"from": None, "to": None, "chunk_rows": None, "chunk_minutes": None}) == Range()


def test_a_form_filled_in_is_taken_as_written() -> None:
    form = {"from": "2026-01-01T00:00:00+01:00", "to": "2026-01-02T00:00:00Z", "chunk_minutes": 90, "chunk_rows": 5}
    wanted = Range.of_form(form)
    assert wanted.start == datetime(2025, 12, 31, 23, tzinfo=UTC)
    assert (wanted.rows, wanted.duration) == (5, Duration(90, "m"))


def test_an_instant_without_a_zone_is_one_of_the_zone_of_the_settings() -> None:
    wanted = Range.of_form({"from": "2026-07-01 12:00"}, timezone="Europe/Berlin")
    assert wanted.start == datetime(2026, 7, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"from": "yesterday"}, "from: 'yesterday' is not a date"),
        ({"from": "2026-01-02T00:00Z", "to": "2026-01-02T00:00Z"}, "is empty"),
    ],
)
def test_a_form_that_makes_no_sense_is_refused(form: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Range.of_form(form)


@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        (Precision.MILLISECOND, 1_767_225_600_123),
        (Precision.MICROSECOND, 1_767_225_600_123_456),
        (Precision.NANOSECOND, 1_767_225_600_123_456_000),
    ],
)
def test_an_instant_in_ticks_is_exact(precision: Precision, expected: int) -> None:
    assert ticks(datetime(2026, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC), precision) == expected
    assert ticks(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), Precision.MILLISECOND) == -1_000


def test_a_new_stream_gets_its_chunks_without_spark(context: Context, catalog: Catalog) -> None:
    stream = stream_with_history(context, catalog)
    chunks = airflow_tasks.plan_history(context, stream)
    assert sum(chunk.rows for chunk in chunks) == 600


def test_planning_again_leaves_out_what_is_done(context: Context, catalog: Catalog) -> None:
    stream = stream_with_history(context, catalog)
    (chunk,) = airflow_tasks.plan_history(context, stream)
    catalog.ledger.claim(stream, chunk.run, chunk.number)
    catalog.ledger.finish(stream, chunk.run, chunk.number)
    assert airflow_tasks.plan_history(context, stream) == []


def test_a_stream_without_history_has_nothing_to_fill_or_to_activate(context: Context, catalog: Catalog) -> None:
    stream = new_stream(catalog, options="")
    assert airflow_tasks.plan_history(context, stream) == []
    airflow_tasks.activate(context, stream)
    assert catalog.jobs.by_id(stream).state is JobState.CREATED


def test_a_live_stream_is_left_alone_by_a_second_run(context: Context, catalog: Catalog) -> None:
    stream = add_stream(catalog)
    assert airflow_tasks.plan_history(context, stream) == []
    airflow_tasks.activate(context, stream)
    assert catalog.jobs.by_id(stream).state is JobState.RUNNING


def test_activation_refuses_while_chunks_are_missing(context: Context, catalog: Catalog) -> None:
    with pytest.raises(TransientError, match="0 "):
        airflow_tasks.activate(context, failed_stream(catalog, context))


def test_a_range_is_cut_by_the_length_asked_for(context: Context, catalog: Catalog) -> None:
    stream = live_stream(context, catalog)
    wanted = Range.of_form({"from": "1970-01-01T00:02:00Z", "to": "1970-01-01T00:08:00Z", "chunk_minutes": 2})
    chunks = airflow_tasks.plan_range(context, stream, "manual__1", wanted)
    assert [(chunk.start, chunk.end) for chunk in chunks] == [(120_000, 240_000), (240_000, 360_000), (360_000, 480_000)]
    assert {chunk.run for chunk in chunks} == {"airflow/manual__1"}


def live_stream(context: Context, catalog: Catalog) -> str:
    """A stream that has come as far as its source, of ten minutes."""
    stream = stream_with_history(context, catalog)
    boundary = catalog.jobs.by_id(stream).progress.boundary
    assert boundary is not None
    catalog.jobs.set_progress(stream, JobProgress(Position(0, boundary), boundary))
    catalog.jobs.set_state(stream, JobState.RUNNING)
    return stream


def finish(catalog: Catalog, chunks: list[Chunk]) -> None:
    for chunk in chunks:
        catalog.ledger.claim(chunk.job_id, chunk.run, chunk.number)
        catalog.ledger.finish(chunk.job_id, chunk.run, chunk.number)


def test_a_finished_range_that_is_cleared_is_planned_anew(context: Context, catalog: Catalog) -> None:
    stream = live_stream(context, catalog)
    by_length = Range(duration=Duration(5, "m"))
    for run in ("airflow/r", "airflow/r/2", "airflow/r/3"):
        chunks = airflow_tasks.plan_range(context, stream, "r", by_length)
        assert [(chunk.run, chunk.number) for chunk in chunks] == [(run, 0), (run, 1)]
        finish(catalog, chunks)


def test_a_range_that_is_not_finished_goes_on_where_it_was(context: Context, catalog: Catalog) -> None:
    stream = live_stream(context, catalog)
    chunks = airflow_tasks.plan_range(context, stream, "r", Range(duration=Duration(5, "m")))
    finish(catalog, chunks[:1])
    assert airflow_tasks.plan_range(context, stream, "r", Range(duration=Duration(5, "m"))) == chunks[1:]


def test_a_finished_chunk_that_is_cleared_is_computed_again(context: Context, catalog: Catalog) -> None:
    stream = live_stream(context, catalog)
    chunks = airflow_tasks.plan_range(context, stream, "r", Range(duration=Duration(5, "m")))
    assert airflow_tasks.run_to_fill(context, stream, "airflow/r", 1) == "airflow/r"
    finish(catalog, chunks)
    for run in ("airflow/r/chunk-1/2", "airflow/r/chunk-1/3"):
        assert airflow_tasks.run_to_fill(context, stream, "airflow/r", 1) == run
        assert airflow_tasks.run_to_fill(context, stream, "airflow/r", 1) == run, "a try that failed goes on with it"
        (again,) = catalog.ledger.chunks(stream, run)
        assert (again.number, again.start, again.end) == (1, chunks[1].start, chunks[1].end)
        finish(catalog, [again])


def test_a_chunk_of_the_history_that_is_done_stays_done(context: Context, catalog: Catalog) -> None:
    stream = stream_with_history(context, catalog)
    finish(catalog, airflow_tasks.plan_history(context, stream))
    assert airflow_tasks.run_to_fill(context, stream, "history", 0) == "history"


def test_a_run_may_be_called_history(context: Context, catalog: Catalog) -> None:
    stream = live_stream(context, catalog)
    finish(catalog, catalog.ledger.plan(stream, "history", [Chunk(stream, "history", 0, 0, 1, 1)]))
    chunks = airflow_tasks.plan_range(context, stream, "history", Range())
    assert {chunk.run for chunk in chunks} == {"airflow/history"}


def test_a_chunk_that_failed_stops_the_stream_and_says_which_and_why(context: Context, catalog: Catalog) -> None:
    stream = failed_stream(catalog, context, 1)
    record = catalog.jobs.by_id(stream)
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    assert (record.reason.code, record.reason.transient) == ("BACKFILL", False)
    assert "chunk 1 of the history could not be filled: no memory" in str(record.reason)
    assert catalog.ledger.chunks(stream, "history")[1].state is ChunkState.FAILED


def test_a_failure_after_the_user_has_paused_or_dropped_the_stream_changes_nothing(context: Context, catalog: Catalog) -> None:
    stream = failed_stream(catalog, context)
    catalog.jobs.set_desired(stream, DesiredState.PAUSED)
    assert airflow_tasks.failed(context, stream, "no memory", 0) is None
    assert catalog.jobs.by_id(stream).state is JobState.FILLING
    catalog.jobs.drop(stream)
    assert airflow_tasks.failed(context, stream, "no memory", 0) is None


def test_clearing_the_one_chunk_that_failed_lets_the_stream_go_on(context: Context, catalog: Catalog) -> None:
    stream = failed_stream(catalog, context, 1)
    assert airflow_tasks.go_on(context, stream, 1).state is JobState.FILLING


def test_another_chunk_does_not_hide_the_failure_of_the_first(context: Context, catalog: Catalog) -> None:
    stream = failed_stream(catalog, context, 1)
    assert airflow_tasks.go_on(context, stream, 0).state is JobState.STOPPED


def test_the_cause_is_what_the_job_has_recorded(context: Context, catalog: Catalog) -> None:
    stream = failed_stream(catalog, context, 1)
    assert airflow_tasks.cause(context, stream, "history", 1, "exit code 1") == "no memory"
    assert airflow_tasks.cause(context, stream, "history", 0, "exit code 1") == "exit code 1"


@pytest.mark.airflow
@pytest.mark.parametrize(("run_type", "expected"), [("scheduled", True), ("manual", False)])
def test_the_scheduled_run_supervises_and_a_triggered_one_recomputes(run_type: str, expected: bool) -> None:
    from airflow.utils.types import DagRunType

    from headrace_operators import supervises

    assert supervises({"dag_run": SimpleNamespace(run_type=run_type)}) is expected
    assert supervises({"dag_run": SimpleNamespace(run_type=DagRunType(run_type))}) is expected


@pytest.mark.airflow
def test_a_mapped_task_knows_its_chunk_from_its_arguments() -> None:
    from headrace_operators import FillChunk

    task = FillChunk(
        task_id="fill", job_id="s", application="x.py", application_args=["--stream", "s", "--run", "r", "--chunk", "12"]
    )
    assert task.chunk == ("r", 12)


@pytest.mark.airflow
def test_the_failure_of_a_supervising_runs_task_stops_the_stream(catalog: Catalog) -> None:
    from headrace_operators import PlanHistory, history_failed

    stream = new_stream(catalog)
    task = PlanHistory(task_id="plan_history", job_id=stream)
    failure: dict[str, Any] = {"task": task, "exception": ValueError("boom")}
    history_failed({**failure, "dag_run": SimpleNamespace(run_type="manual")})
    assert catalog.jobs.by_id(stream).state is JobState.CREATED
    history_failed({**failure, "dag_run": SimpleNamespace(run_type="scheduled")})
    assert "boom" in str(catalog.jobs.by_id(stream).reason)
