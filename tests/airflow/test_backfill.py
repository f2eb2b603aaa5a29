"""The tasks before supervision: planning histories and ranges in chunks, reporting failures, handling cleared tasks."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.catalog import Catalog
from headrace.context import Context
from headrace.errors import DataError, TransientError
from headrace.model.clock import ManualClock
from headrace.model.jobs import DesiredState, JobProgress, JobState
from headrace.model.ledger import Chunk, ChunkState
from headrace.model.positions import Position
from headrace.model.time import Duration, Precision
from headrace.runtime import airflow_tasks
from headrace.runtime.airflow_tasks import BackfillRange, to_ticks
from headrace.settings import Settings
from tests.airflow.samples import SOURCE, add_stream, prepare, table, without_spark, write_rows
from tests.airflow.stream_dags import stream_dag_id


@pytest.fixture
def context(home: Settings, catalog: Catalog, clock: ManualClock) -> Context:
    return without_spark(home, catalog, clock)


def new_stream(catalog: Catalog, **options: Any) -> str:
    """A stream without history as CREATE STREAM records it."""
    return add_stream(catalog, state=JobState.CREATED, **options)


def stream_with_history(context: Context, catalog: Catalog) -> str:
    """Create a stream like CREATE STREAM does, with a source of ten minutes."""
    prepare(catalog)
    write_rows(context, 600)
    boundary = {SOURCE: context.tables.version(table())}
    return add_stream(catalog, state=JobState.FILLING, progress=JobProgress(boundary=boundary))


def failed_stream(catalog: Catalog, context: Context, *numbers: int) -> str:
    """Create a stream with a history of two chunks, and let some of them fail."""
    stream = add_stream(catalog, state=JobState.FILLING, progress=JobProgress(boundary={SOURCE: 1}))
    catalog.ledger.plan(stream, "history", [Chunk(stream, "history", number, 0, 1, 1) for number in range(2)])
    for number in numbers:
        airflow_tasks.stop_failed_stream(context, stream, "no memory", number)
    return stream


def test_an_empty_form_is_the_whole_range() -> None:
    assert BackfillRange.of_form({"from": None, "to": None, "chunk_rows": None, "chunk_minutes": None}) == BackfillRange()


def test_a_form_is_parsed() -> None:
    form = {"from": "2026-01-01T00:00:00+01:00", "to": "2026-01-02T00:00:00Z", "chunk_minutes": 90, "chunk_rows": 5}
    parsed = BackfillRange.of_form(form)
    assert parsed.start == datetime(2025, 12, 31, 23, tzinfo=UTC)
    assert (parsed.rows, parsed.duration) == (5, Duration(90, "m"))


def test_an_instant_without_a_zone_is_in_the_configured_zone() -> None:
    parsed = BackfillRange.of_form({"from": "2026-07-01 12:00"}, timezone="Europe/Berlin")
    assert parsed.start == datetime(2026, 7, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"from": "yesterday"}, "from: 'yesterday' is not a date"),
        ({"from": "2026-01-02T00:00Z", "to": "2026-01-02T00:00Z"}, "is empty"),
    ],
)
def test_an_invalid_form_is_rejected(form: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        BackfillRange.of_form(form)


@pytest.mark.parametrize(
    ("precision", "expected"),
    [
        (Precision.MILLISECOND, 1_767_225_600_123),
        (Precision.MICROSECOND, 1_767_225_600_123_456),
        (Precision.NANOSECOND, 1_767_225_600_123_456_000),
    ],
)
def test_an_instant_in_ticks_is_exact(precision: Precision, expected: int) -> None:
    assert to_ticks(datetime(2026, 1, 1, 0, 0, 0, 123_456, tzinfo=UTC), precision) == expected
    assert to_ticks(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), Precision.MILLISECOND) == -1_000


def test_planning_a_history_needs_no_spark(context: Context, catalog: Catalog) -> None:
    stream = stream_with_history(context, catalog)
    chunks = airflow_tasks.plan_history(context, stream)
    assert sum(chunk.rows for chunk in chunks) == 600


def test_planning_again_skips_finished_chunks(context: Context, catalog: Catalog) -> None:
    stream = stream_with_history(context, catalog)
    (chunk,) = airflow_tasks.plan_history(context, stream)
    catalog.ledger.claim(stream, chunk.run, chunk.number)
    catalog.ledger.finish(stream, chunk.run, chunk.number)
    assert airflow_tasks.plan_history(context, stream) == []


def test_a_stream_without_history_needs_no_backfill_or_activation(context: Context, catalog: Catalog) -> None:
    stream = new_stream(catalog, options="")
    assert airflow_tasks.plan_history(context, stream) == []
    airflow_tasks.activate(context, stream)
    assert catalog.jobs.by_id(stream).state is JobState.CREATED


def test_a_second_run_does_not_change_a_live_stream(context: Context, catalog: Catalog) -> None:
    stream = add_stream(catalog)
    assert airflow_tasks.plan_history(context, stream) == []
    airflow_tasks.activate(context, stream)
    assert catalog.jobs.by_id(stream).state is JobState.RUNNING


def test_activation_fails_while_chunks_are_missing(context: Context, catalog: Catalog) -> None:
    with pytest.raises(TransientError, match="0 "):
        airflow_tasks.activate(context, failed_stream(catalog, context))


def test_a_range_is_split_into_chunks_of_the_given_length(context: Context, catalog: Catalog) -> None:
    stream = live_stream(context, catalog)
    parsed = BackfillRange.of_form({"from": "1970-01-01T00:02:00Z", "to": "1970-01-01T00:08:00Z", "chunk_minutes": 2})
    chunks = airflow_tasks.plan_range(context, stream, "manual__1", parsed)
    assert [(chunk.start, chunk.end) for chunk in chunks] == [(120_000, 240_000), (240_000, 360_000), (360_000, 480_000)]
    assert {chunk.run for chunk in chunks} == {"airflow/manual__1"}


def live_stream(context: Context, catalog: Catalog) -> str:
    """Create a stream that has processed its source of ten minutes."""
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


def test_a_finished_range_is_planned_again_when_cleared(context: Context, catalog: Catalog) -> None:
    stream = live_stream(context, catalog)
    by_length = BackfillRange(duration=Duration(5, "m"))
    for run in ("airflow/r", "airflow/r/2", "airflow/r/3"):
        chunks = airflow_tasks.plan_range(context, stream, "r", by_length)
        assert [(chunk.run, chunk.number) for chunk in chunks] == [(run, 0), (run, 1)]
        finish(catalog, chunks)


def test_an_unfinished_range_resumes(context: Context, catalog: Catalog) -> None:
    stream = live_stream(context, catalog)
    chunks = airflow_tasks.plan_range(context, stream, "r", BackfillRange(duration=Duration(5, "m")))
    finish(catalog, chunks[:1])
    assert airflow_tasks.plan_range(context, stream, "r", BackfillRange(duration=Duration(5, "m"))) == chunks[1:]


def test_a_finished_chunk_is_recomputed_when_cleared(context: Context, catalog: Catalog) -> None:
    stream = live_stream(context, catalog)
    chunks = airflow_tasks.plan_range(context, stream, "r", BackfillRange(duration=Duration(5, "m")))
    assert airflow_tasks.choose_run(context, stream, "airflow/r", 1) == "airflow/r"
    finish(catalog, chunks)
    for run in ("airflow/r/chunk-1/2", "airflow/r/chunk-1/3"):
        assert airflow_tasks.choose_run(context, stream, "airflow/r", 1) == run
        assert airflow_tasks.choose_run(context, stream, "airflow/r", 1) == run, "a retry uses the same run"
        (repeated,) = catalog.ledger.chunks(stream, run)
        assert (repeated.number, repeated.start, repeated.end) == (1, chunks[1].start, chunks[1].end)
        finish(catalog, [repeated])


def test_a_chunk_of_the_history_that_is_done_stays_done(context: Context, catalog: Catalog) -> None:
    stream = stream_with_history(context, catalog)
    finish(catalog, airflow_tasks.plan_history(context, stream))
    assert airflow_tasks.choose_run(context, stream, "history", 0) == "history"


def test_a_run_may_be_named_history(context: Context, catalog: Catalog) -> None:
    stream = live_stream(context, catalog)
    finish(catalog, catalog.ledger.plan(stream, "history", [Chunk(stream, "history", 0, 0, 1, 1)]))
    chunks = airflow_tasks.plan_range(context, stream, "history", BackfillRange())
    assert {chunk.run for chunk in chunks} == {"airflow/history"}


def test_a_failed_chunk_stops_the_stream_with_its_number_and_cause(context: Context, catalog: Catalog) -> None:
    stream = failed_stream(catalog, context, 1)
    record = catalog.jobs.by_id(stream)
    assert record.state is JobState.STOPPED
    assert record.reason is not None
    assert (record.reason.code, record.reason.transient) == ("BACKFILL", False)
    assert "chunk 1 of the history could not be filled: no memory" in str(record.reason)
    assert catalog.ledger.chunks(stream, "history")[1].state is ChunkState.FAILED


def test_a_failure_of_a_paused_or_dropped_stream_changes_nothing(context: Context, catalog: Catalog) -> None:
    stream = failed_stream(catalog, context)
    catalog.jobs.set_desired(stream, DesiredState.PAUSED)
    assert airflow_tasks.stop_failed_stream(context, stream, "no memory", 0) is None
    assert catalog.jobs.by_id(stream).state is JobState.FILLING
    catalog.jobs.drop(stream)
    assert airflow_tasks.stop_failed_stream(context, stream, "no memory", 0) is None


def test_clearing_the_failed_chunk_resumes_the_stream(context: Context, catalog: Catalog) -> None:
    stream = failed_stream(catalog, context, 1)
    assert airflow_tasks.resume_cleared_stream(context, stream, 1).state is JobState.FILLING


def test_another_chunk_does_not_hide_the_failure_of_the_first(context: Context, catalog: Catalog) -> None:
    stream = failed_stream(catalog, context, 1)
    assert airflow_tasks.resume_cleared_stream(context, stream, 0).state is JobState.STOPPED


def test_the_cause_is_read_from_the_ledger(context: Context, catalog: Catalog) -> None:
    stream = failed_stream(catalog, context, 1)
    assert airflow_tasks.failure_message(context, stream, "history", 1, "exit code 1") == "no memory"
    assert airflow_tasks.failure_message(context, stream, "history", 0, "exit code 1") == "exit code 1"


@pytest.mark.airflow
@pytest.mark.parametrize(("run_type", "expected"), [("scheduled", True), ("manual", False)])
def test_the_scheduled_run_supervises_and_a_triggered_one_recomputes(run_type: str, expected: bool) -> None:
    from airflow.utils.types import DagRunType

    from headrace_operators import is_supervising_run

    assert is_supervising_run({"dag_run": SimpleNamespace(run_type=run_type)}) is expected
    assert is_supervising_run({"dag_run": SimpleNamespace(run_type=DagRunType(run_type))}) is expected


@pytest.mark.airflow
def test_a_mapped_task_parses_its_chunk_from_its_arguments() -> None:
    from headrace_operators import FillChunk

    task = FillChunk(
        task_id="fill", job_id="s", application="x.py", application_args=["--stream", "s", "--run", "r", "--chunk", "12"]
    )
    assert task.chunk == ("r", 12)


@pytest.mark.airflow
def test_the_failure_of_a_task_in_a_supervising_run_stops_the_stream(catalog: Catalog) -> None:
    from headrace_operators import PlanHistory, stop_stream_on_failure

    stream = new_stream(catalog)
    task = PlanHistory(task_id="plan_history", job_id=stream)
    failure: dict[str, Any] = {"task": task, "exception": ValueError("boom")}
    stop_stream_on_failure({**failure, "dag_run": SimpleNamespace(run_type="manual")})
    assert catalog.jobs.by_id(stream).state is JobState.CREATED
    stop_stream_on_failure({**failure, "dag_run": SimpleNamespace(run_type="scheduled")})
    assert "boom" in str(catalog.jobs.by_id(stream).reason)


@pytest.mark.airflow
def test_a_chunk_whose_worker_was_lost_stops_the_stream(catalog: Catalog) -> None:
    """Airflow then calls the callback elsewhere, with the task as the DAG has it: it is not mapped there, and has no exception."""
    from headrace_generators import generate

    stream = new_stream(catalog)
    definition = catalog.jobs.by_id(stream).definition
    dag_id = stream_dag_id(definition.database, definition.name)
    task: Any = next(iter(generate(dag_id))).get_task("fill_history")
    (stop,) = task.on_failure_callback
    stop({"task": task, "dag_run": SimpleNamespace(run_type="scheduled")})
    record = catalog.jobs.by_id(stream)
    assert record.state is JobState.STOPPED
    assert "the task was ended" in str(record.reason)
