"""JSON values that the page shows of continuous queries, built from the catalog. Instants are epoch milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from headrace.catalog.executions import RECENT
from headrace.model.continuous_queries import Execution, ExecutionState
from headrace.model.execution_history import ExecutionHistory, absent_executions, next_execution
from headrace.model.jobs import DesiredState, JobDefinition, JobRecord, JobState
from headrace.model.tree_statements import TimeoutPolicy

if TYPE_CHECKING:
    from headrace.catalog import Catalog

Json = dict[str, Any]
LISTED_INTERVALS: Final = RECENT
"""The intervals whose states the list shows of each query."""
MAX_INTERVALS: Final = 60
MAX_EXECUTIONS: Final = 200


def query_fields(record: JobRecord, history: ExecutionHistory, now: int, *, is_resident: bool) -> Json:
    """Return what the list shows of a continuous query beside what it shows of all jobs.

    Args:
        record: The continuous query.
        history: Its newest `LISTED_INTERVALS` executions.
        now: The present.
        is_resident: Whether its snode executes it, rather than Airflow.
    """
    definition = record.definition
    details = definition.continuous_query
    assert details is not None
    last = history.last
    return {
        "source": ", ".join(details.sources),
        "target": ", ".join(details.targets),
        "schedule": schedule_fields(record, now) | {"timezone": details.timezone},
        "executor": f"a timer of snode {definition.snode}" if is_resident else "Airflow, in a run of its DAG for each interval",
        "last": None if last is None else execution_row(last),
        "waiting": waiting_executions(definition, history, now),
        "intervals": intervals(definition, history.newest, LISTED_INTERVALS, now),
    }


def schedule_fields(record: JobRecord, now: int) -> Json:
    """Return the schedule of a query and its next execution; that is None unless the query is to be executed."""
    schedule = record.definition.schedule
    is_active = record.desired is DesiredState.RUNNING and record.state is JobState.RUNNING
    return {
        "every_ms": schedule.every,
        "boundary": schedule.boundary,
        "start_offset_ms": schedule.start_offset,
        "end_offset_ms": schedule.end_offset,
        "policy": schedule.policy.value,
        "first": schedule.first,
        "next": next_execution(schedule, now) if is_active else None,
    }


def waiting_executions(definition: JobDefinition, history: ExecutionHistory, now: int) -> int:
    """Return the number of executions that are due and will be started: all of them, or with DISCARD the latest."""
    schedule = definition.schedule
    following = schedule.next_after(history.last_scheduled(schedule))
    due = max(0, (now - following) // schedule.every + 1)
    return min(due, 1) if schedule.policy is TimeoutPolicy.DISCARD else due + history.left_out(schedule)[0]


def intervals(definition: JobDefinition, newest: Sequence[Execution], limit: int, now: int) -> list[Json]:
    """Return the executions of the last instants, oldest first, with those that are due or were missed.

    Args:
        definition: The continuous query.
        newest: Its newest executions. If there are `limit` of them, there may be older ones.
        limit: The number of instants.
        now: The present.
    """
    return [execution_row(execution) for execution in reversed(merge_absent(definition, newest, limit, now))]


def merge_absent(definition: JobDefinition, newest: Sequence[Execution], limit: int, now: int) -> list[Execution]:
    """Return the executions of the last instants, newest first, with those that are not recorded."""
    schedule = definition.schedule
    since = newest[-1].scheduled if len(newest) >= limit else schedule.first
    absent = islice(absent_executions(definition.id, schedule, newest, since, now), limit)
    return sorted((*newest, *absent), key=lambda execution: -execution.scheduled)[:limit]


def query_detail(catalog: Catalog, record: JobRecord, now: int) -> Json:
    """Return what the list does not show of a continuous query: its executions."""
    definition = record.definition
    newest = catalog.executions.all(definition.id, MAX_EXECUTIONS)
    shown = merge_absent(definition, newest, MAX_EXECUTIONS, now)
    present = {execution.scheduled for execution in shown}
    older = [
        execution for execution in reversed(catalog.executions.unfinished(definition.id)) if execution.scheduled not in present
    ]
    return {
        "intervals": [execution_row(execution) for execution in reversed(shown[:MAX_INTERVALS])],
        "executions": [execution_row(execution) for execution in (*shown, *older[:MAX_EXECUTIONS])],
        "has_older": len(shown) == MAX_EXECUTIONS,
    }


def execution_row(execution: Execution) -> Json:
    """Return an execution's instant, range, state and outcome."""
    is_recorded = execution.state not in (ExecutionState.PENDING, ExecutionState.MISSED)
    return {
        "scheduled": execution.scheduled,
        "start": execution.start,
        "end": execution.end,
        "state": execution.state.value,
        "attempt": execution.attempt if is_recorded else None,
        "rows": execution.rows,
        "started": execution.started,
        "finished": execution.finished,
        "duration_ms": execution.duration_ms,
        "message": execution.message,
    }
