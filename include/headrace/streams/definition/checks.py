"""What a stream's query and options may be; each refusal says what is wrong and where, before anything is created."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from headrace.compute import Language, Relation
from headrace.compute.functions.stream_use import StreamUse
from headrace.errors import InvalidStreamError, LimitError, NotSupportedError
from headrace.model.expressions import Call, ColumnRef, Expression, walk
from headrace.model.queries import CountClause, EventClause, IntervalClause, Query, StateClause, TableSource
from headrace.model.statements import CreateStream
from headrace.model.streams import TriggerMode
from headrace.model.tables import TableKind
from headrace.model.time import Duration

MAX_STREAMS_PER_DATABASE: Final = 61
MIN_MAX_DELAY: Final = Duration(5, "s")
MIN_RECALCULATION_INTERVAL: Final = Duration(600, "s")
OFFERED: Final = (TriggerMode.AT_ONCE, TriggerMode.WINDOW_CLOSE)

Check = Callable[[CreateStream, Relation, Language], None]


def check_statement(statement: CreateStream, source: Relation, language: Language) -> None:
    """Refuse what a stream cannot be, in the order in which the language names the reasons.

    Raises:
        InvalidStreamError, LimitError: the language has no such stream.
        NotSupportedError: it has, but it is not supported.
    """
    for check in CHECKS:
        check(statement, source, language)
    check_offered(statement)


def source_name(query: Query) -> TableSource:
    """The one table that a stream's query reads."""
    if not isinstance(query.source, TableSource):
        raise InvalidStreamError(
            "a stream reads one table, not a join, a sub-query or nothing", hint="write FROM table", span=query.span
        )
    return query.source


def split_by_subtable(query: Query, source: Relation, language: Language) -> bool:
    """Whether no group of the query has rows of two subtables."""
    if source.table.kind is TableKind.PLAIN or source.subtable is not None:
        return True
    series = series_name(source, language)
    return any(isinstance(item.expression, ColumnRef) and item.expression.name == series for item in query.partition_by)


def series_name(source: Relation, language: Language) -> str:
    """What the language's queries call the series key of a source."""
    return language.series_name(source.table.series_key)


def expressions(query: Query) -> Iterator[Expression]:
    """Every expression of the select list, and of what is selected by."""
    yield from (item.expression for item in query.items)
    yield from (item.expression for item in query.partition_by)
    yield from filter(None, (query.where, query.having))


def calls(query: Query) -> Iterator[Call]:
    """Every call of a function."""
    return (part for expression in expressions(query) for part in walk(expression) if isinstance(part, Call))


def first_call(query: Query, language: Language, use: StreamUse) -> Call | None:
    """The first call of a function that is of this use in streams."""
    return next((call for call in calls(query) if language.stream_use(call.function) is use), None)


def check_event(statement: CreateStream, source: Relation, language: Language) -> None:
    window = statement.query.window
    if isinstance(window, EventClause) and not split_by_subtable(statement.query, source, language):
        raise InvalidStreamError(
            f"an event window over the supertable {source.table.name} mixes its subtables",
            hint=f"add PARTITION BY {series_name(source, language)}",
            span=window.span,
        )


def check_shape(statement: CreateStream, source: Relation, language: Language) -> None:
    query = statement.query
    if query.order_by:
        raise InvalidStreamError(
            "a stream has no order of its own", hint="leave out ORDER BY, and order when you read the target", span=query.span
        )
    if query.limit is not None or query.offset is not None or query.series_limit is not None or query.series_offset is not None:
        raise InvalidStreamError("a stream has no end to count from", hint="leave out LIMIT and OFFSET", span=query.span)
    if query.distinct:
        raise InvalidStreamError("a stream cannot take back rows that turn out equal", hint="leave out DISTINCT", span=query.span)
    if (isinstance(query.window, StateClause) or query.window is None) and not split_by_subtable(query, source, language):
        what = "a query without a window" if query.window is None else "a state window"
        raise InvalidStreamError(
            f"{what} over the supertable {source.table.name} mixes its subtables",
            hint=f"add PARTITION BY {series_name(source, language)}",
            span=query.span,
        )


def check_name(statement: CreateStream, _: Relation, _language: Language) -> None:
    if statement.subtable is None or statement.query.partition_by:
        return
    column = next((part for part in walk(statement.subtable) if isinstance(part, ColumnRef)), None)
    if column is not None:
        raise InvalidStreamError(
            f"SUBTABLE names the column {column.name}, but there is no PARTITION BY",
            hint=f"add PARTITION BY {column.name}, or use a constant",
            span=column.span,
        )


def check_trigger(statement: CreateStream, _: Relation, language: Language) -> None:
    query, options = statement.query, statement.options
    has_interpolation = any(call.function == language.interpolation for call in calls(query))
    if query.window is None and options.trigger is not TriggerMode.AT_ONCE and not has_interpolation:
        raise InvalidStreamError(
            "without a window a stream can only have TRIGGER AT_ONCE", hint="add TRIGGER AT_ONCE, or a window", span=query.span
        )


def check_count(statement: CreateStream, source: Relation, language: Language) -> None:
    window, options = statement.query.window, statement.options
    if not isinstance(window, CountClause):
        return
    if not split_by_subtable(statement.query, source, language):
        raise InvalidStreamError(
            f"a count window over the supertable {source.table.name} mixes its subtables",
            hint=f"add PARTITION BY {series_name(source, language)}",
            span=window.span,
        )
    if options.watermark.count <= 0:
        raise InvalidStreamError("a count window needs a WATERMARK above 0", hint="add WATERMARK 10s", span=window.span)
    if not options.ignore_expired:
        raise InvalidStreamError("a count window needs IGNORE EXPIRED 1", hint="leave out IGNORE EXPIRED 0", span=window.span)


def check_key(statement: CreateStream, source: Relation, _language: Language) -> None:
    window, key = statement.query.window, source.table.key
    if key is not None and isinstance(window, StateClause | EventClause | CountClause):
        kind = type(window).__name__.removesuffix("Clause").lower()
        raise InvalidStreamError(
            f"a {kind} window over {source.table.name} has no order: its rows have the key {key.name} beside the timestamp",
            hint="use INTERVAL or SESSION",
            span=window.span,
        )


def check_timed(statement: CreateStream, source: Relation, language: Language) -> None:
    query = statement.query
    call = first_call(query, language, StreamUse.FORCED_CLOSE)
    if call is None:
        return
    if statement.options.trigger is not TriggerMode.FORCE_WINDOW_CLOSE:
        raise InvalidStreamError(
            f"{call.function} in a stream needs TRIGGER FORCE_WINDOW_CLOSE", hint="use avg, or that trigger", span=call.span
        )
    if not isinstance(query.window, IntervalClause):
        raise InvalidStreamError(f"{call.function} in a stream needs INTERVAL", hint="use INTERVAL", span=call.span)
    if not split_by_subtable(query, source, language):
        raise InvalidStreamError(
            f"{call.function} mixes subtables", hint=f"add PARTITION BY {series_name(source, language)}", span=call.span
        )


def check_forced(statement: CreateStream, source: Relation, language: Language) -> None:
    query, trigger = statement.query, statement.options.trigger
    if trigger is TriggerMode.FORCE_WINDOW_CLOSE and not split_by_subtable(query, source, language):
        raise InvalidStreamError(
            f"FORCE_WINDOW_CLOSE over the supertable {source.table.name} mixes its subtables",
            hint=f"add PARTITION BY {series_name(source, language)}",
            span=query.span,
        )
    if trigger is TriggerMode.CONTINUOUS_WINDOW_CLOSE and not isinstance(query.window, IntervalClause):
        raise InvalidStreamError("CONTINUOUS_WINDOW_CLOSE needs INTERVAL", hint="use another trigger", span=query.span)


def check_group(statement: CreateStream, _: Relation, _language: Language) -> None:
    if statement.query.group_by:
        raise InvalidStreamError(
            "GROUP BY is not allowed in a stream", hint="use PARTITION BY with a window", span=statement.query.span
        )


def check_functions(statement: CreateStream, _: Relation, language: Language) -> None:
    call = first_call(statement.query, language, StreamUse.NONE)
    if call is not None:
        raise InvalidStreamError(
            f"{call.function} cannot be kept up to date in a stream", hint="use it in a query over the target", span=call.span
        )


def check_delays(statement: CreateStream, _: Relation, _language: Language) -> None:
    options = statement.options
    at_least(options.max_delay, MIN_MAX_DELAY, "MAX_DELAY", statement)
    at_least(options.recalculate, MIN_RECALCULATION_INTERVAL, "RECALCULATE", statement)


def at_least(duration: Duration | None, least: Duration, what: str, statement: CreateStream) -> None:
    if duration is not None and (duration.is_calendar or duration.nanoseconds < least.nanoseconds):
        raise LimitError(f"{what} {duration} is shorter than {least}", hint=f"use {least} or more", span=statement.query.span)


def check_having(statement: CreateStream, _: Relation, _language: Language) -> None:
    having = statement.query.having
    if having is not None:
        raise InvalidStreamError(
            "HAVING is not allowed in a stream", hint="filter when you read the target", span=getattr(having, "span", None)
        )


def check_watermark(statement: CreateStream, _: Relation, _language: Language) -> None:
    for what, duration in (("WATERMARK", statement.options.watermark), ("DELETE_MARK", statement.options.delete_mark)):
        if duration is not None and duration.is_calendar:
            raise LimitError(f"{what} {duration} has no fixed length", hint="use b u a s m h d or w", span=statement.name.span)


CHECKS: Final[tuple[Check, ...]] = (
    check_event,
    check_shape,
    check_name,
    check_trigger,
    check_count,
    check_key,
    check_timed,
    check_forced,
    check_group,
    check_functions,
    check_delays,
    check_having,
    check_watermark,
)


def check_offered(statement: CreateStream) -> None:
    """Refuse by name what the language has and this version does not."""
    query, options = statement.query, statement.options
    if options.trigger not in OFFERED:
        raise NotSupportedError(
            f"TRIGGER {options.trigger} is not supported yet", hint="use AT_ONCE or WINDOW_CLOSE", span=statement.name.span
        )
    if query.fill is not None:
        raise NotSupportedError("FILL is not supported in streams yet", hint="fill when you read the target", span=query.fill.span)
    if query.interpolation is not None:
        raise NotSupportedError("INTERP is not supported in streams yet", hint="use a window", span=query.span)
