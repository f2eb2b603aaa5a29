"""A kind of jobs that exists only in tests: a tally counts the rows that a table receives, and refuses negative values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import pyarrow.compute as pc

from headrace.context import Context
from headrace.errors import DataError
from headrace.jobs.actions import DROP, PAUSE, JobAction
from headrace.jobs.kinds import JobKind, imported
from headrace.jobs.registry import register, unregister
from headrace.jobs.runners import Advance, Runner
from headrace.model.jobs import JobCounters, JobDefinition, JobProgress, JobRecord, JobState
from headrace.model.needs import Needs
from headrace.model.positions import Offsets, Position
from headrace.model.tables import TableId
from headrace.runtime.dag_ids import definition_dag_id
from headrace.streams.runner import Reader

SQL: Final = "CREATE TALLY t OF db.meters"
OWNER: Final = "ada"


class TallyRunner(Runner):
    """Counts the rows of the changes of one table. Its state is what the catalog has of its progress."""

    def __init__(self, context: Context, record: JobRecord, reader: Reader) -> None:
        self._context, self._id, self._reader = context, record.definition.id, reader
        self.progress = record.progress

    @property
    def position(self) -> Position:
        assert self.progress.position is not None
        return self.progress.position

    @property
    def offsets(self) -> Offsets:
        return self.position.offsets

    def reset(self) -> None:
        self.progress = self._context.catalog.jobs.by_id(self._id).progress

    def advance(self) -> Advance:
        changes = self._reader.read_after(self.offsets, ())
        if changes is None:
            return Advance.IDLE
        if pc.min(changes.rows["v"]).as_py() < 0:
            raise DataError("a value is negative")
        counters = self.progress.counters.plus(JobCounters(rows_in=changes.count, rows_used=changes.count, batches=1))
        position = self.position.next(changes.offsets)
        self.progress = replace(self.progress, position=position, counters=counters, updated=self._context.clock.now())
        self._context.catalog.jobs.set_progress(self._id, self.progress, self._context.epoch or None)
        return Advance.HANDLED


class TallyPage:
    """What the page shows of a tally."""

    layout = "job"

    def fields(self, record: JobRecord, overview: Any) -> dict[str, Any]:  # noqa: ARG002
        return {"source": str(record.definition.source), "target": "–"}

    def detail(self, catalog: Any, record: JobRecord, now: int) -> dict[str, Any]:  # noqa: ARG002
        return {"tally": record.progress.counters.rows_in}

    def plan(self, context: Any, definition: JobDefinition) -> list[str]:  # noqa: ARG002
        return [f"count the rows of {definition.source}"]


def tally_dag(definition: JobDefinition, _: Any) -> Any:
    """Build the DAG that supervises a tally."""
    from airflow.sdk import DAG

    from headrace_supervision import SuperviseJob
    from headrace_timetable import OncePerJob

    with DAG(definition_dag_id(definition), schedule=OncePerJob(definition.created), catchup=False) as dag:
        SuperviseJob(task_id="supervise", job_id=definition.id)
    return dag


def drop(context: Context, definition: JobDefinition) -> None:
    """Remove a tally, which has nothing but its record."""
    context.catalog.jobs.drop(definition.id)


TALLY: Final = JobKind(
    name="tally",
    plural="tallies",
    dag_prefix="headrace_tally__",
    address="tally",
    runner=lambda: TallyRunner,
    sources=imported("headrace.streams.sources.poller:SourcePollers"),
    history=imported("headrace.runtime.backfill_queue:BackfillQueue"),
    drop=lambda: drop,
    dag=lambda: tally_dag,
    page=TallyPage,
    needs=lambda: lambda _, job: Needs(reads=job.sources),
    lag_ms=lambda record, _activity, _history, now: record.progress.lag_ms(now),
    resume="START",
    states={JobState.RUNNING: "COUNTING"},
    descriptions={JobState.RUNNING: "counting rows"},
    actions={
        PAUSE: JobAction(lambda job: f"STOP TALLY {job.name}", lambda _: "New rows are counted when the tally is started."),
        DROP: JobAction(lambda job: f"DROP TALLY {job.name}", lambda _: "Removes the tally."),
    },
)


@contextmanager
def registered() -> Iterator[JobKind]:
    """Register the kind during a test."""
    register(TALLY)
    try:
        yield TALLY
    finally:
        unregister(TALLY.name)


def create_tally(context: Context, offsets: Offsets) -> JobRecord:
    """Record a tally that begins after some offsets of its source."""
    definition = JobDefinition(
        id="tally-1",
        kind=TALLY.name,
        database="db",
        name="t",
        sql=SQL,
        dialect="tdengine",
        sources=(TableId("db", "meters"),),
        target=None,
        created=context.clock.now(),
        owner=context.catalog.access.trust(OWNER),
    )
    context.catalog.jobs.create(definition, progress=JobProgress(Position(0, offsets)))
    return context.catalog.jobs.by_id(definition.id)
