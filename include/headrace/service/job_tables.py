"""The system table of all jobs, of every kind."""

from __future__ import annotations

from headrace.context import Context
from headrace.jobs.registry import is_known, kind_of
from headrace.model.jobs import DesiredState, JobRecord
from headrace.runtime.activity import current_lag_ms, reported_activity
from headrace.runtime.supervision import read_snapshot, stale_after_ms
from headrace.service.results import BIGINT, INSTANT, STRING, CatalogRows


def jobs(context: Context) -> CatalogRows:
    """Return a row for each job, by kind and name."""
    state, histories = read_snapshot(context.catalog, context.catalog.now()), context.catalog.executions.histories()
    activity = reported_activity(state, stale_after_ms(context.settings))
    rows = [
        (
            job.name,
            job.database or None,
            job.kind,
            job.owner,
            state_word(record),
            None if record.reason is None else str(record.reason),
            job.snode,
            current_lag_ms(record, activity.get(job.id), histories.get(job.id), state.now),
            record.progress.counters.rows_out,
            job.created,
            job.id,
        )
        for record in sorted(state.jobs.values(), key=lambda record: (record.definition.kind, str(record.definition)))
        for job in (record.definition,)
        if record.desired is not DesiredState.DROPPED
    ]
    types = {"job_name": STRING, "db_name": STRING, "kind": STRING, "owner": STRING, "status": STRING, "message": STRING}
    types |= {"snode": STRING, "lag_ms": BIGINT, "rows_out": BIGINT, "create_time": INSTANT, "job_id": STRING}
    return CatalogRows(types, rows)


def state_word(record: JobRecord) -> str:
    kind = record.definition.kind
    return kind_of(kind).state_word(record.state) if is_known(kind) else record.state.value
