"""SHOW PIPES: what the catalog has of pipes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from headrace import secrets
from headrace.context import Context
from headrace.errors import ConfigurationError, PermissionDeniedError
from headrace.jobs.registry import kind_of
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.model.pipes import PipeStage
from headrace.model.tree_statements import TreeShow
from headrace.pipes.kind import PIPE
from headrace.pipes.lookup import secret_keys, shown_attributes
from headrace.service.results import STRING, CatalogRows, ColumnOf, read_columns
from headrace.service.visible_rows import as_seen

UNKNOWN: Final = "Unknown"
RATE_WINDOW_MS: Final = 60_000
"""The rate of a pipe is that of its samples of this time."""


class ShownPipe(NamedTuple):
    """A pipe, and what SHOW PIPES says of it beside its record.

    `stages` are the attributes of the stages as text, `rate` is in rows per second, None if unknown.
    """

    record: JobRecord
    stages: Mapping[PipeStage, str]
    rate: float | None
    zone: ZoneInfo


COLUMNS: Final[dict[str, ColumnOf[ShownPipe]]] = {
    "ID": (STRING, lambda one: one.record.definition.name),
    "CreationTime": (STRING, lambda one: iso_time(one.record.definition.stages.started, one.zone)),
    "State": (STRING, lambda one: shown_state(one.record)),
    "PipeSource": (STRING, lambda one: one.stages[PipeStage.SOURCE]),
    "PipeProcessor": (STRING, lambda one: one.stages[PipeStage.PROCESSOR]),
    "PipeSink": (STRING, lambda one: one.stages[PipeStage.SINK]),
    "ExceptionMessage": (STRING, lambda one: exception_message(one)),
    "RemainingEventCount": (STRING, lambda one: remaining_events(one.record)),
    "EstimatedRemainingSeconds": (STRING, lambda one: remaining_seconds(one)),
}


def show_pipe(statement: TreeShow, context: Context) -> CatalogRows:
    """Return the pipe of a name; no row if there is none."""
    record = context.catalog.jobs.find("", statement.name or "", PIPE)
    return pipe_rows([] if record is None else [record], context)


def show_pipes(statement: TreeShow, context: Context) -> CatalogRows:
    """Return all pipes by name, or those whose sink has the attributes of that of one pipe."""
    records = sorted(context.catalog.jobs.all(kind=PIPE), key=lambda record: record.definition.name)
    if statement.where is not None:
        name = statement.where[3]
        used = [sink_of(record, context) for record in records if record.definition.name == name]
        records = [record for record in records if sink_of(record, context) in used]
    return pipe_rows(records, context)


def pipe_rows(records: list[JobRecord], context: Context) -> CatalogRows:
    rates = read_rates(context) if records else {}
    zone = ZoneInfo(context.settings.timezone)
    permissions = context.permissions()
    records = [as_seen(permissions, record, context.catalog) for record in records]
    shown = [ShownPipe(record, shown_stages(record, context), rates.get(record.definition.id), zone) for record in records]
    return read_columns(COLUMNS, shown)


def sink_of(record: JobRecord, context: Context) -> dict[str, str]:
    """Return the attributes of a pipe's sink, with passwords in clear if they are known here: encrypted, equal ones differ."""
    sink = record.definition.stages.sink
    try:
        return secrets.resolve(sink, secret_keys(PipeStage.SINK, sink, context), context.settings, context.permissions())
    except (ConfigurationError, PermissionDeniedError):
        return dict(sink)


def shown_stages(record: JobRecord, context: Context) -> dict[PipeStage, str]:
    """Return the attributes of each stage as text, without passwords."""
    texts: dict[PipeStage, str] = {}
    for stage in PipeStage:
        attributes = record.definition.stages.stage(stage)
        texts[stage] = braced(shown_attributes(stage, attributes, context))
    return texts


def braced(attributes: Mapping[str, str]) -> str:
    """Return attributes as IoTDB prints them, in the order of their keys."""
    return "{" + ", ".join(f"{key}={value}" for key, value in sorted(attributes.items())) + "}"


def shown_state(record: JobRecord) -> str:
    """Return RUNNING or STOPPED. What the user has asked for counts, unless the pipe has failed."""
    is_stopped = record.desired is not DesiredState.RUNNING or record.state is JobState.STOPPED
    return kind_of(record.definition).state_word(JobState.STOPPED if is_stopped else JobState.RUNNING)


def exception_message(one: ShownPipe) -> str:
    """Return why a pipe has stopped, as IoTDB prints it; empty if it has not failed."""
    reason = one.record.reason
    return "" if reason is None else f"nodeIds: [1], {iso_time(reason.since, one.zone)}, {reason}"


def remaining_events(record: JobRecord) -> str:
    """Return the number of rows that are not transferred yet, if anything is known about it."""
    return UNKNOWN if record.progress.updated is None else str(record.progress.counters.rows_pending)


def remaining_seconds(one: ShownPipe) -> str:
    """Return how long the pipe will take for what it knows to remain, by its recent rate."""
    progress = one.record.progress
    if progress.updated is None:
        return UNKNOWN
    pending = progress.counters.rows_pending
    if not pending:
        return "0.00"
    return f"{pending / one.rate:.2f}" if one.rate else UNKNOWN


def read_rates(context: Context) -> dict[str, float]:
    """Return the rows per second that jobs have written of late, by id."""
    rates = context.catalog.stream_metrics.rates(since=context.clock.now() - RATE_WINDOW_MS)
    return {job_id: sum(rate.rows_out for rate in samples) / len(samples) for job_id, samples in rates.items()}


def iso_time(ms: int, zone: ZoneInfo) -> str:
    """Return an instant in epoch milliseconds as IoTDB prints it, such as `2024-05-01T12:00:00.000Z`."""
    return datetime.fromtimestamp(ms / 1000, zone).isoformat(timespec="milliseconds").replace("+00:00", "Z")
