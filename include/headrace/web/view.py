"""JSON values that the page shows, built from the catalog. Instants are epoch milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.jobs.registry import is_known, kind_of, kinds, unknown_kind
from headrace.model.execution_history import ExecutionHistory
from headrace.model.jobs import JobDefinition, JobRecord, JobState, StopReason
from headrace.model.ledger import HISTORY, RunSummary
from headrace.model.masking import masked
from headrace.model.pipes import NEXT_CHUNK
from headrace.model.stream_metrics import Rate
from headrace.model.triggers import RegisteredTrigger, TriggerActivity
from headrace.runtime.activity import ReportedActivity, current_lag_ms, reported_activity
from headrace.runtime.dag_ids import record_dag_id, snode_dag_id
from headrace.runtime.supervision import Snapshot, stale_after_ms
from headrace.runtime.trigger_metrics import CountedTriggers
from headrace.service.visible_rows import HIDDEN_MESSAGE
from headrace.settings import Settings
from headrace.web.preview import result_previews

if TYPE_CHECKING:
    from headrace.catalog import Catalog

Json = dict[str, Any]
MAX_EVENTS: Final = 100
FRESH_SAMPLES: Final = 3
"""A sample older than this many intervals says nothing about the present."""


@dataclass(frozen=True, slots=True)
class Overview:
    """What the list is made of: the jobs and triggers that the user may read, the snodes, and the settings of the system.

    `hidden` are the ids of jobs whose errors may quote what the user may not read. By job there is what drivers do for it; by
    stream, the backfill of its history and its last samples; by continuous query, its newest executions.
    """

    state: Snapshot
    activity: Mapping[str, ReportedActivity]
    runs: Mapping[str, RunSummary]
    histories: Mapping[str, ExecutionHistory]
    rates: Mapping[str, Sequence[Rate]]
    settings: Settings
    triggers: CountedTriggers = ()
    hidden: frozenset[str] = frozenset()

    def lag_ms(self, record: JobRecord) -> int | None:
        """Return the lag of a job now."""
        job_id = record.definition.id
        return current_lag_ms(record, self.activity.get(job_id), self.histories.get(job_id), self.state.now)

    def rate(self, record: JobRecord) -> Rate | None:
        """Return the rate of a stream now; None if it has no recent sample."""
        last = next(reversed(self.rates.get(record.definition.id, ())), None)
        fresh_ms = FRESH_SAMPLES * self.settings.metrics_interval_s * 1000
        return last if last is not None and self.state.now - last.time <= fresh_ms else None

    @property
    def stale_ms(self) -> int:
        """Age in milliseconds from which a heartbeat is stale."""
        return stale_after_ms(self.settings)


def make_overview(
    catalog: Catalog,
    state: Snapshot,
    histories: Mapping[str, ExecutionHistory],
    rates: Mapping[str, Sequence[Rate]],
    settings: Settings,
    triggers: CountedTriggers = (),
    hidden: frozenset[str] = frozenset(),
) -> Overview:
    filling = [job_id for job_id, record in state.jobs.items() if is_filling(record)]
    runs = {job_id: catalog.ledger.summary(job_id, HISTORY) for job_id in filling}
    return Overview(state, reported_activity(state, stale_after_ms(settings)), runs, histories, rates, settings, triggers, hidden)


def is_filling(record: JobRecord) -> bool:
    """Return whether the history of a job is being computed or transferred."""
    return record.state is JobState.FILLING or NEXT_CHUNK in (record.offsets or {})


def list_jobs(overview: Overview) -> Json:
    return {
        "as_of": overview.state.now,
        "health": health_summary(overview),
        "snodes": snode_rows(overview.state, overview.stale_ms),
        "kinds": {kind.name: {"plural": kind.plural, "address": kind.address} for kind in kinds()},
        "jobs": [job_row(record, overview) for record in overview.state.jobs.values()],
        "triggers": trigger_rows(overview.triggers),
    }


def health_summary(overview: Overview) -> Json:
    """Return the number of jobs by state and kind, the worst lag, total rates in rows per second, and expired rows."""
    records = list(overview.state.jobs.values())
    lags = [(lag, record.definition) for record in records if (lag := overview.lag_ms(record)) is not None]
    worst = max(lags, key=lambda one: (one[0], str(one[1])), default=None)
    current = [rate for record in records if (rate := overview.rate(record)) is not None]
    return {
        "states": {state.value: sum(record.state is state for record in records) for state in JobState},
        "kinds": {kind.name: sum(record.definition.kind == kind.name for record in records) for kind in kinds()},
        "worst_lag": None if worst is None else {"ms": worst[0], "name": str(worst[1]), "address": job_address(worst[1])},
        "rows_in_s": sum(rate.rows_in for rate in current) if current else None,
        "rows_out_s": sum(rate.rows_out for rate in current) if current else None,
        "rows_expired": sum(record.progress.counters.rows_expired for record in records),
    }


def snode_rows(state: Snapshot, stale_ms: int) -> list[Json]:
    names = sorted({*state.beats, *state.leases, *(record.definition.snode for record in state.jobs.values())})
    drivers = [(name, state.leases.get(name), state.beats.get(name)) for name in names]
    return [
        {
            "name": name,
            "problem": state.driver_problem(name, stale_ms),
            "holder": lease.holder if lease else None,
            "epoch": lease.epoch if lease else None,
            "heartbeat": beat.at if beat else None,
            **{key: beat.detail.get(key) if beat else None for key in ("memory_bytes", "cores")},
            "dag_id": snode_dag_id(name),
        }
        for name, lease, beat in drivers
    ]


def job_row(record: JobRecord, overview: Overview) -> Json:
    definition, progress = record.definition, record.progress
    rate, fields = overview.rate(record), kind_fields(record, overview)
    return {
        "id": definition.id,
        "label": str(definition),
        "kind": definition.kind,
        "owner": definition.owner,
        "snode": definition.snode,
        "dag_id": record_dag_id(record),
        "created": definition.created,
        "state": record.state.value,
        "desired": record.desired.value,
        "reason": None if record.reason is None else asdict(record.reason),
        "lag_ms": overview.lag_ms(record),
        "updated": progress.updated,
        "counters": asdict(progress.counters),
        "rate": None if rate is None else rate._asdict(),
        "history": [round(activity_rate(record, rate), 2) for rate in overview.rates.get(definition.id, ())],
        **(without_messages(fields) if definition.id in overview.hidden else fields),
    }


def without_messages(value: Any) -> Any:
    """Return a JSON value in which messages say that they are for others."""
    match value:
        case dict():
            return {key: HIDDEN_MESSAGE if key == "message" and one else without_messages(one) for key, one in value.items()}
        case list() | tuple():
            return [without_messages(one) for one in value]
    return value


def activity_rate(record: JobRecord, rate: Rate) -> float:
    """Return the rows per second that show what a job does: those that it reads, if it counts them."""
    kind = record.definition.kind
    return rate.rows_in if not is_known(kind) or kind_of(kind).counts_rows_in else rate.rows_out


def kind_fields(record: JobRecord, overview: Overview) -> Json:
    """Return the fields of a job's row that depend on its kind. If that is unknown, the row shows the error as the reason."""
    definition = record.definition
    if not is_known(definition.kind):
        reason = asdict(unknown_reason(record))
        return {"layout": "job", "address": job_address(definition), "source": "", "target": "", "reason": reason}
    kind = kind_of(definition)
    return {
        "layout": kind.page().layout,
        "address": job_address(definition),
        "state_text": kind.descriptions.get(record.state, ""),
        "counts_rows_in": kind.counts_rows_in,
        **kind.page().fields(record, overview),
    }


def job_address(definition: JobDefinition) -> dict[str, str]:
    """Return the parameter of the address of a job's page."""
    return {kind_of(definition).address: str(definition)} if is_known(definition.kind) else {"job": definition.id}


def unknown_reason(record: JobRecord) -> StopReason:
    error = unknown_kind(record.definition.kind)
    return record.reason or StopReason(error.code, error.message, error.hint, record.definition.created)


def job_detail(catalog: Catalog, record: JobRecord, now: int) -> Json:
    """Return what the list does not show of a job: its statement and events, and what depends on its kind."""
    definition = record.definition
    events = catalog.events.all("job", definition.id, limit=MAX_EVENTS)
    return {
        "as_of": now,
        "sql": masked(definition.sql),
        "dialect": definition.dialect,
        "results": result_previews(definition),
        "events": [{"time": event.time, "kind": event.kind, "message": event.message} for event in events],
        **(kind_of(definition).page().detail(catalog, record, now) if is_known(definition.kind) else {}),
    }


def trigger_rows(triggers: CountedTriggers) -> list[dict[str, Any]]:
    """Return the triggers that are created, with what has been counted of their calls."""
    return [trigger_row(*one) for one in triggers if one[0].failure_strategy is not None]


def trigger_row(trigger: RegisteredTrigger, activity: TriggerActivity) -> dict[str, Any]:
    return {
        "name": trigger.name,
        "event": trigger.event.value,
        "type": trigger.type.value,
        "pattern": trigger.pattern,
        "class_name": trigger.class_name,
        "owner": trigger.owner,
        "state": trigger.state.value,
        "reason": trigger.reason,
        "calls": activity.calls,
        "failures": activity.failures,
        "duration_us": activity.duration_us,
        "last_error": activity.last_error,
        "last_error_at": activity.last_error_at,
    }
