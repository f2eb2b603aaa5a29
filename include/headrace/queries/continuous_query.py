"""From a `CREATE CONTINUOUS QUERY` statement to a job, and from the job to the query over one range."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from headrace.code.languages import registered_calls, registered_language
from headrace.compute.iotdb.binding import bind_tree
from headrace.compute.iotdb.derived import has_series_call
from headrace.compute.iotdb.into import IntoColumn, check_into, into_targets
from headrace.compute.iotdb.select import TreePlan
from headrace.compute.iotdb.windows import duration_ticks
from headrace.context import Context
from headrace.errors import ExistsError, InternalError, ProgrammingError
from headrace.model.continuous_queries import ContinuousQuery, Schedule, first_execution
from headrace.model.expressions import Call, ColumnRef, Literal, walk
from headrace.model.jobs import JobDefinition
from headrace.model.paths import join_path, split_path
from headrace.model.spans import Span
from headrace.model.time import Precision
from headrace.model.tree_queries import CompoundDuration, TimeRange, TreeQuery
from headrace.model.tree_statements import CreateContinuousQuery
from headrace.model.tree_status import TreeStatus
from headrace.queries.instants import constant_ticks
from headrace.queries.into import check_types
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.sql import parse
from headrace.trees.devices import find_devices
from headrace.trees.scope import expressions, tree_scope

DIALECT: Final = "iotdb"
TIME: Final = ColumnRef("time")
PRECISION: Final = Precision.MILLISECOND


@dataclass(frozen=True, slots=True)
class BoundBody:
    """The query of one execution, and where its columns go; no plan if its paths match no series."""

    plan: TreePlan | None
    targets: tuple[IntoColumn, ...]


def define(statement: CreateContinuousQuery, context: Context) -> JobDefinition:
    """Check a statement and return the job that it describes.

    Raises:
        ProgrammingError: The schedule or the query is invalid.
        ExistsError: A continuous query of the name exists.
    """
    schedule = schedule_of(statement, context)
    check_schedule(statement, schedule, context.settings.cq_min_every_ms)
    check_query(statement)
    check_body(statement, schedule, context)
    if context.catalog.jobs.find("", statement.name, CONTINUOUS_QUERY) is not None:
        hint = "use another name, or DROP CONTINUOUS QUERY first"
        raise ExistsError(f"CQ {statement.name} has already been created.", hint=hint).with_status(TreeStatus.CQ_ALREADY_EXIST)
    details = ContinuousQuery(
        schedule,
        context.settings.timezone,
        tuple(str(prefix) for prefix in statement.query.prefixes),
        tuple(dict.fromkeys(join_path(target.device) for target in statement.query.into)),
        context.catalog.jobs.dropped_queries(statement.name),
    )
    return JobDefinition(
        id=f"cq-{uuid.uuid4().hex}",
        kind=CONTINUOUS_QUERY,
        database="",
        name=statement.name,
        sql=statement.text,
        dialect=DIALECT,
        sources=(),
        target=None,
        created=context.clock.now(),
        snode=context.settings.snode,
        continuous_query=details,
        functions=registered_calls(DIALECT, context.catalog, statement),
    )


def schedule_of(statement: CreateContinuousQuery, context: Context) -> Schedule:
    """Return the schedule, defaults applied: EVERY is the interval of GROUP BY, the range as long as EVERY."""
    grouping = statement.query.grouping
    interval = None if grouping is None or grouping.time is None else grouping.time.interval
    every = length_ms(statement.every or interval or ())
    now = context.clock.now()
    boundary = 0 if statement.boundary is None else constant_ticks(statement.boundary, context, PRECISION)
    return Schedule(
        every,
        boundary,
        every if statement.start_offset is None else length_ms(statement.start_offset),
        0 if statement.end_offset is None else length_ms(statement.end_offset),
        statement.policy,
        first_execution(every, boundary, now) if every > 0 else now,
    )


def length_ms(duration: CompoundDuration) -> int:
    """Return the length of a duration in milliseconds; a month has 30 days, a year 365."""
    return duration_ticks(duration, PRECISION)


def check_schedule(statement: CreateContinuousQuery, schedule: Schedule, min_every: int) -> None:
    """Raise `ProgrammingError` for the first rule that a schedule breaks, in IoTDB's order."""
    every, start, end = schedule.every, schedule.start_offset, schedule.end_offset
    grouping = statement.query.grouping
    interval = statement.every or (grouping and grouping.time and grouping.time.interval)
    since = statement.start_offset or interval
    rules = (
        (
            every < min_every,
            f"Every interval [{every}] should not be lower than the `continuous_query_minimum_every_interval` [{min_every}] "
            "configured.",
            "make EVERY longer, or set HEADRACE_CQ_MIN_EVERY_MS",
            interval,
        ),
        (start <= 0, "The start time offset should be greater than 0.", "RANGE begins this long before the execution", since),
        (
            start <= end,
            "The start time offset should be greater than end time offset.",
            "swap the lengths of RANGE",
            statement.end_offset or since,
        ),
        (
            start < every,
            "The start time offset should be greater than or equal to every interval.",
            "make RANGE at least as long as EVERY, so that no rows are left out",
            since,
        ),
    )
    for is_broken, message, hint, duration in rules:
        if is_broken:
            raise invalid(message, hint, duration[0].span if duration else statement.query.span)


def check_query(statement: CreateContinuousQuery) -> None:
    """Raise `ProgrammingError` unless the query leaves its range to the schedule and says where its result goes."""
    query = statement.query
    if not query.into:
        hint = "write SELECT … INTO root.target(measurement) FROM …"
        raise invalid("The query body misses an INTO clause.", hint, query.span)
    if query.grouping is not None and query.grouping.time is not None and query.grouping.time.range is not None:
        hint = "write GROUP BY (1m) alone; RANGE gives the range"
        span = query.grouping.time.range.span
        raise invalid("Specifying time range in GROUP BY TIME clause is prohibited.", hint, span)
    time = next((node for node in walk(query.where) if node == TIME), None) if query.where is not None else None
    if time is not None:
        raise invalid("Specifying time filters in the query body is prohibited.", "RANGE gives the range", time.span)


def check_body(statement: CreateContinuousQuery, schedule: Schedule, context: Context) -> None:
    """Raise the error of the first execution's query, if it has one, with the status of all errors of definitions."""
    try:
        check_into(statement.query)
        bind_body(statement.query, *schedule.range_at(schedule.first), context)
    except ProgrammingError as error:
        if error.status is not None:
            error.message, error.status = error.message.removeprefix(f"{error.status}: "), None
        raise error.with_status(TreeStatus.INTERNAL_SERVER_ERROR) from None


def invalid(message: str, hint: str, span: Span | None) -> ProgrammingError:
    """Return the error for a broken rule."""
    return ProgrammingError(f"CQ: {message}", hint=hint, span=span).with_status(TreeStatus.INTERNAL_SERVER_ERROR)


def restricted(query: TreeQuery, start: int, end: int) -> TreeQuery:
    """Return a query over the range `[start, end)`: a condition in front of its own, and the range of its windows."""
    since, until = Call(">=", (TIME, Literal(start))), Call("<", (TIME, Literal(end)))
    within = Call("and", (since, until))
    where = within if query.where is None else Call("and", (within, query.where))
    grouping = query.grouping
    if grouping is not None and grouping.time is not None:
        grouping = replace(grouping, time=replace(grouping.time, range=TimeRange(Literal(start), Literal(end))))
    return replace(query, where=where, grouping=grouping)


def bind_body(
    query: TreeQuery,
    start: int,
    end: int,
    context: Context,
    timezone: str | None = None,
    functions: Collection[str] | None = None,
) -> BoundBody:
    """Bind a query over a range. `functions` are the registered functions that it may call; None for all.

    Raises:
        ProgrammingError: The query is invalid, or its columns and targets do not correspond.
        TypeMismatchError: A target exists with a type that its values cannot have.
    """
    body = restricted(query, start, end)
    plan = bind_tree(body, tree_scope(body, context, timezone, functions))
    if plan is None:
        return BoundBody(None, ())
    targets = into_targets(body, plan)
    check_types(targets, find_devices({target.device for target in targets}, context))
    return BoundBody(plan, targets)


@functools.lru_cache(maxsize=1_000)
def recorded_query(sql: str, dialect: str) -> TreeQuery:
    """Return the query of a recorded statement."""
    statement = parse(sql, dialect)
    if not isinstance(statement, CreateContinuousQuery):
        raise InternalError(f"{sql} is not a continuous query")
    return statement.query


def is_divisible(definition: JobDefinition, context: Context) -> bool:
    """Return whether a query over adjoining ranges returns exactly what it returns over each of them.

    Such executions may be computed at once: windows are those of GROUP BY time, lie within one range, and are independent.
    """
    query, schedule = recorded_query(definition.sql, definition.dialect), definition.schedule
    windows = None if query.grouping is None else query.grouping.time
    if windows is None or schedule.start_offset - schedule.end_offset != schedule.every:
        return False
    if (
        query.fill is not None
        or query.limit is not None
        or query.offset is not None
        or calls_series_function(query, definition.functions, context)
    ):
        return False
    lengths = [windows.interval, windows.step or windows.interval]
    if any(part.is_calendar and part.unit != "y" for length in lengths for part in length):
        return False
    length, step = (length_ms(length) for length in lengths)
    return length <= step and schedule.every % step == 0


def may_read(definition: JobDefinition, other: JobDefinition) -> bool:
    """Return whether a continuous query may read what another one writes, judging by the first nodes of their paths."""
    if definition.continuous_query is None or other.continuous_query is None:
        return False
    sources = [literal_prefix(path) for path in definition.continuous_query.sources]
    targets = [literal_prefix(path) for path in other.continuous_query.targets]
    return any(may_meet(source, target) for source in sources for target in targets)


def target_databases(definition: JobDefinition, databases: Iterable[str]) -> list[str]:
    paths = () if definition.continuous_query is None else definition.continuous_query.targets
    targets = [literal_prefix(path) for path in paths]
    return [name for name in databases if any(may_meet(target, split_path(name)) for target in targets)]


def may_meet(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether one path may be below another, judging by the nodes that both have."""
    return all(mine == theirs for mine, theirs in zip(one, other, strict=False))


def literal_prefix(path: str) -> tuple[str, ...]:
    """Return the nodes of a path before the first one with a wildcard or placeholder."""
    return tuple(takewhile(lambda node: not any(sign in node for sign in ("*", "::", "${")), split_path(path)))


def calls_series_function(query: TreeQuery, registered: Collection[str], context: Context) -> bool:
    functions = registered_language(DIALECT, context.catalog, context.settings, registered)
    return any(has_series_call(node, functions) for node in expressions(query))
