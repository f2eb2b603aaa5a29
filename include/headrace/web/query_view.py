"""JSON values that the page shows of continuous queries, built from the catalog. Instants are epoch milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from headrace.catalog.executions import RECENT
from headrace.model.continuous_queries import Execution, ExecutionState
from headrace.model.conversion import to_row
from headrace.model.execution_history import NO_HISTORY, ExecutionHistory, absent_executions, next_execution
from headrace.model.jobs import DesiredState, JobDefinition, JobRecord, JobState
from headrace.model.tree_statements import TimeoutPolicy
from headrace.queries.kind import is_resident

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.context import Context
    from headrace.web.view import Overview

Json = dict[str, Any]
LISTED_INTERVALS: Final = RECENT
"""The intervals whose states the list shows of each query."""
MAX_INTERVALS: Final = 60
MAX_EXECUTIONS: Final = 200


class QueryPage:
    """What the page shows of continuous queries."""

    layout = "query"

    def fields(self, record: JobRecord, overview: Overview) -> Json:
        """Return the fields of a row: the schedule, and the newest `LISTED_INTERVALS` executions."""
        definition, now = record.definition, overview.state.now
        history = overview.histories.get(definition.id, NO_HISTORY)
        details, last = definition.continuous_query, history.last
        assert details is not None
        timer = f"a timer of snode {definition.snode}"
        return {
            "source": ", ".join(details.sources),
            "target": ", ".join(details.targets),
            "schedule": schedule_fields(record, now) | {"timezone": details.timezone},
            "executor": timer if is_resident(definition, overview.settings) else "Airflow, in a run of its DAG for each interval",
            "last": None if last is None else execution_row(last),
            "waiting": waiting_executions(definition, history, now),
            "intervals": intervals(definition, history.newest, LISTED_INTERVALS, now),
        }

    def detail(self, catalog: Catalog, record: JobRecord, now: int) -> Json:
        """Return the executions."""
        definition = record.definition
        newest = catalog.executions.all(definition.id, MAX_EXECUTIONS)
        shown = merge_absent(definition, newest, MAX_EXECUTIONS, now)
        present = {execution.scheduled for execution in shown}
        unfinished = reversed(catalog.executions.unfinished(definition.id))
        older = [execution for execution in unfinished if execution.scheduled not in present]
        return {
            "intervals": [execution_row(execution) for execution in reversed(shown[:MAX_INTERVALS])],
            "executions": [execution_row(execution) for execution in (*shown, *older[:MAX_EXECUTIONS])],
            "has_older": len(shown) == MAX_EXECUTIONS,
        }

    def plan(self, context: Context, definition: JobDefinition) -> list[str]:
        """Return the plan of the next execution: the paths are resolved in each."""
        from headrace.compute import explain
        from headrace.queries.continuous_query import bind_body, recorded_query

        details, schedule = definition.continuous_query, definition.schedule
        scheduled = next_execution(schedule, context.clock.now())
        start, end = schedule.range_at(scheduled)
        query, timezone = recorded_query(definition.sql, definition.dialect), None if details is None else details.timezone
        body = bind_body(query, start, end, context, timezone, definition.functions)
        head = f"execution of {to_text(scheduled)} over [{to_text(start)}, {to_text(end)})"
        if body.plan is None:
            return [head, "no series match the paths of FROM: nothing is written"]
        return [head, *explain(body.plan.plan), *(f"write {target.source} to {target.path}" for target in body.targets)]


PAGE: Final = QueryPage()


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
    """Return the executions of the last `limit` instants, oldest first, with those that are due or were missed.

    If there are `limit` newest executions, there may be older ones.
    """
    return [execution_row(execution) for execution in reversed(merge_absent(definition, newest, limit, now))]


def merge_absent(definition: JobDefinition, newest: Sequence[Execution], limit: int, now: int) -> list[Execution]:
    """Return the executions of the last instants, newest first, with those that are not recorded."""
    schedule = definition.schedule
    since = newest[-1].scheduled if len(newest) >= limit else schedule.first
    absent = islice(absent_executions(definition.id, schedule, newest, since, now), limit)
    return sorted((*newest, *absent), key=lambda execution: -execution.scheduled)[:limit]


def execution_row(execution: Execution) -> Json:
    """Return an execution's instant, range, state and outcome."""
    is_recorded = execution.state not in (ExecutionState.PENDING, ExecutionState.MISSED)
    row = to_row(execution, "job_id", "holder", "replaces", "takes_over")
    return row | {"attempt": execution.attempt if is_recorded else None, "duration_ms": execution.duration_ms}


def to_text(instant: int) -> str:
    """Return an instant in epoch milliseconds as text, in UTC."""
    return datetime.fromtimestamp(instant / 1000, UTC).isoformat(sep=" ").replace("+00:00", "Z")
