"""Pipes for tests, recorded like those of the service."""

from __future__ import annotations

from headrace.catalog import Catalog
from headrace.model.jobs import JobDefinition, JobProgress, JobState, StopReason
from headrace.model.pipes import Pipe
from headrace.model.tree_statements import CreatePipe
from headrace.pipes.kind import PIPE
from headrace.sql import to_sql

CREATED = 1_700_000_000_000
ENCRYPTED = "encrypted:gAAAAABlU"
STAGES = Pipe(
    {"source": "iotdb-source", "source.path": "root.plant.**"},
    {},
    {"sink": "iotdb-thrift-sink", "sink.ip": "db.example", "sink.password": ENCRYPTED},
    CREATED + 1_000,
)


def pipe(name: str = "out", stages: Pipe = STAGES) -> JobDefinition:
    """Return a pipe whose password is encrypted."""
    source, processor, sink = (tuple(stage.items()) for stage in (stages.source, stages.processor, stages.sink))
    hidden = tuple((key, "******" if value == ENCRYPTED else value) for key, value in sink)
    return JobDefinition(
        id=f"pipe-{name}",
        kind=PIPE,
        database="",
        name=name,
        sql=to_sql(CreatePipe(name, source, processor, hidden), "iotdb"),
        dialect="iotdb",
        sources=(),
        target=None,
        created=CREATED,
        pipe=stages,
    )


def add_pipe(
    catalog: Catalog,
    name: str = "out",
    state: JobState = JobState.RUNNING,
    reason: StopReason | None = None,
    progress: JobProgress | None = None,
) -> str:
    """Record a pipe in a state, and return its id."""
    job = pipe(name)
    catalog.jobs.create(job)
    catalog.jobs.set_state(job.id, state, reason)
    if progress is not None:
        catalog.jobs.set_progress(job.id, progress)
    return job.id
