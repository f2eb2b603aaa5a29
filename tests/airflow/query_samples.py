"""Continuous queries for the tests, recorded like those of the service."""

from __future__ import annotations

from dataclasses import replace

from headrace.catalog import Catalog
from headrace.model.continuous_queries import ContinuousQuery, Schedule
from headrace.model.jobs import JobDefinition, JobState, StopReason
from headrace.model.tree_statements import TimeoutPolicy
from headrace.queries.kind import CONTINUOUS_QUERY
from tests.airflow.conftest import NOW

EVERY = 10_000
FIRST = NOW - 30 * EVERY
SQL = "CREATE CQ {name} BEGIN SELECT count(s1) INTO root.agg.line1(c) FROM root.plant.line1 GROUP BY (10s) END"


BLOCKED = Schedule(EVERY, 0, EVERY, 0, TimeoutPolicy.BLOCKED, FIRST)
DISCARD = replace(BLOCKED, policy=TimeoutPolicy.DISCARD)


def add_query(
    catalog: Catalog,
    name: str = "tens",
    state: JobState = JobState.RUNNING,
    reason: StopReason | None = None,
    schedule: Schedule = BLOCKED,
) -> str:
    """Record a continuous query in a state, and return its id."""
    details = ContinuousQuery(schedule, "Europe/Berlin", ("root.plant.line1",), ("root.agg.line1",))
    job = JobDefinition(
        id=f"cq-{name}",
        kind=CONTINUOUS_QUERY,
        database="",
        name=name,
        sql=SQL.format(name=name),
        dialect="iotdb",
        sources=(),
        target=None,
        created=FIRST,
        continuous_query=details,
    )
    catalog.jobs.create(job)
    catalog.jobs.set_state(job.id, state, reason)
    return job.id


def done(catalog: Catalog, job_id: str, *instants: int, rows: int = 4) -> None:
    """Execute a query at instants of its schedule."""
    of_job = catalog.jobs.by_id(job_id).definition.schedule
    for instant in instants:
        catalog.executions.finish(catalog.executions.claim(job_id, of_job, instant, "test", again=True), rows)


def failed(catalog: Catalog, job_id: str, instant: int, message: str) -> None:
    """Let an execution fail, of another holder than those that are done."""
    of_job = catalog.jobs.by_id(job_id).definition.schedule
    catalog.executions.fail(catalog.executions.claim(job_id, of_job, instant, "failing", again=True), message)
