"""Checks of a stream's query and options. Each error says what is wrong and where, before anything is created."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from headrace.compute import Language, Relation
from headrace.compute.functions.aggregates import StreamUse
from headrace.errors import InvalidStreamError, LimitError, NotSupportedError
from headrace.model.expressions import Call, ColumnRef, Expression, walk
from headrace.model.queries import CountClause, EventClause, FillMode, IntervalClause, Query, StateClause, TableSource
from headrace.model.spans import Span
from headrace.model.statements import CreateStream
from headrace.model.streams import MAX_PARTS, TriggerMode
from headrace.model.tables import TableKind
from headrace.model.time import Duration

MIN_MAX_DELAY: Final = Duration(5, "s")
MIN_RECALCULATION_INTERVAL: Final = Duration(600, "s")
CLOCKED_FILL_MODES: Final = frozenset(
    (FillMode.NONE, FillMode.PREV, FillMode.NULL, FillMode.NULL_F, FillMode.VALUE, FillMode.VALUE_F)
)
"""The modes of FILL that need no later row."""

Check = Callable[[CreateStream, Relation, Language], None]


def check_statement(statement: CreateStream, source: Relation, language: Language) -> None:
    """Reject what a stream cannot be, with the errors in the order that the language gives them.

    Raises:
        InvalidStreamError: The language does not allow such a stream.
        LimitError: An option is out of its range.
    """
    for check in CHECKS:
        check(statement, source, language)


def source_name(query: Query) -> TableSource:
    """Return the one table that a stream's query reads."""
    if not isinstance(query.source, TableSource):
        raise InvalidStreamError(
            "a stream reads one table, not a join, a sub-query or nothing", hint="write FROM table", span=query.span
        )
    return query.source


def is_split_by_subtable(query: Query, source: Relation, language: Language) -> bool:
    """Return True if no group of the query can have rows of more than one subtable."""
    if source.table.kind is TableKind.PLAIN or source.subtable is not None:
        return True
    series = language.series_name(source.table.series_key)
    return any(isinstance(item.expression, ColumnRef) and item.expression.name == series for item in query.partition_by)


def require_split(subject: str, span: Span | None, query: Query, source: Relation, language: Language) -> None:
    """Reject a query one of whose groups may have rows of several subtables."""
    if not is_split_by_subtable(query, source, language):
        raise InvalidStreamError(
            f"{subject} over the supertable {source.table.name} mixes its subtables",
            hint=f"add PARTITION BY {language.series_name(source.table.series_key)}",
            span=span,
        )


def require_forced_close(call: Call, statement: CreateStream, alternative: str) -> None:
    if statement.options.trigger is not TriggerMode.FORCE_WINDOW_CLOSE:
        hint = f"use {alternative}, or set that trigger"
        raise InvalidStreamError(f"{call.function} in a stream needs TRIGGER FORCE_WINDOW_CLOSE", hint=hint, span=call.span)


def query_expressions(query: Query) -> Iterator[Expression]:
    yield from (item.expression for item in query.items)
    yield from (item.expression for item in query.partition_by)
    yield from filter(None, (query.where, query.having))


def calls(query: Query) -> Iterator[Call]:
    return (part for expression in query_expressions(query) for part in walk(expression) if isinstance(part, Call))


def first_call(query: Query, language: Language, use: StreamUse) -> Call | None:
    """Return the first call of a function that has this use in streams; None if there is none."""
    return next((call for call in calls(query) if language.stream_use(call.function) is use), None)


def check_event_window(statement: CreateStream, source: Relation, language: Language) -> None:
    """Require an event window to be evaluated by subtable."""
    window = statement.query.window
    if isinstance(window, EventClause):
        require_split("an event window", window.span, statement.query, source, language)


def check_shape(statement: CreateStream, source: Relation, language: Language) -> None:
    """Reject ORDER BY, LIMIT, DISTINCT, and queries that must be partitioned by subtable but are not."""
    query = statement.query
    if query.order_by:
        raise InvalidStreamError(
            "ORDER BY is not allowed in a stream query",
            hint="remove ORDER BY, and order when you read the target",
            span=query.span_of("ORDER BY"),
        )
    for clause, limit, offset in (("LIMIT", query.limit, "OFFSET"), ("SLIMIT", query.series_limit, "SOFFSET")):
        if limit is not None:
            message, hint = f"{clause} and {offset} are not allowed in a stream query", f"remove {clause} and {offset}"
            raise InvalidStreamError(message, hint=hint, span=query.span_of(clause))
    if query.distinct:
        raise InvalidStreamError(
            "DISTINCT is not allowed in a stream query", hint="remove DISTINCT", span=query.span_of("DISTINCT")
        )
    if isinstance(query.window, StateClause) or query.window is None:
        subject = "a query without a window" if query.window is None else "a state window"
        require_split(subject, query.window.span if query.window else query.span, query, source, language)


def check_subtable_name(statement: CreateStream, _: Relation, _language: Language) -> None:
    """Reject a SUBTABLE expression with columns if there is no PARTITION BY."""
    if statement.subtable is None or statement.query.partition_by:
        return
    column = next((part for part in walk(statement.subtable) if isinstance(part, ColumnRef)), None)
    if column is not None:
        raise InvalidStreamError(
            f"SUBTABLE uses the column {column.name}, but there is no PARTITION BY",
            hint=f"add PARTITION BY {column.name}, or use a constant",
            span=column.span,
        )


def check_trigger(statement: CreateStream, _: Relation, language: Language) -> None:
    """Require AT_ONCE for a query without a window."""
    query, options = statement.query, statement.options
    has_interpolation = any(call.function == language.interpolation for call in calls(query))
    if query.window is None and options.trigger is not TriggerMode.AT_ONCE and not has_interpolation:
        raise InvalidStreamError(
            "a stream without a window needs TRIGGER AT_ONCE", hint="add TRIGGER AT_ONCE, or a window", span=query.span
        )


def check_count_window(statement: CreateStream, source: Relation, language: Language) -> None:
    """Require a count window to be evaluated by subtable, with a watermark, and to ignore expired rows."""
    window, options = statement.query.window, statement.options
    if not isinstance(window, CountClause):
        return
    require_split("a count window", window.span, statement.query, source, language)
    if options.watermark.count <= 0:
        span = statement.option_spans.get("watermark", window.span)
        raise InvalidStreamError("a count window needs a WATERMARK above 0", hint="add WATERMARK 10s", span=span)
    if not options.ignore_expired:
        span = statement.option_spans.get("ignore_expired", window.span)
        raise InvalidStreamError("a count window needs IGNORE EXPIRED 1", hint="remove IGNORE EXPIRED 0", span=span)


def check_composite_key(statement: CreateStream, source: Relation, _language: Language) -> None:
    """Reject windows that depend on the order of rows if the source has a composite primary key."""
    window, key = statement.query.window, source.table.key
    if key is not None and isinstance(window, StateClause | EventClause | CountClause):
        kind = type(window).__name__.removesuffix("Clause").lower()
        raise InvalidStreamError(
            f"a {kind} window is not supported over {source.table.name}: its primary key includes {key.name}",
            hint="use INTERVAL or SESSION",
            span=window.span,
        )


def check_interpolation(statement: CreateStream, source: Relation, language: Language) -> None:
    query = statement.query
    call = next((call for call in calls(query) if call.function == language.interpolation), None)
    if call is None:
        return
    require_forced_close(call, statement, "a window")
    if query.interpolation is None or query.interpolation.every is None or query.interpolation.start is not None:
        raise InvalidStreamError(
            f"{call.function} in a stream takes EVERY and no RANGE",
            hint="add EVERY(1m), remove RANGE",
            span=query.span_of("RANGE … EVERY"),
        )
    require_split(call.function, call.span, query, source, language)


def check_time_weighted(statement: CreateStream, source: Relation, language: Language) -> None:
    query = statement.query
    call = first_call(query, language, StreamUse.FORCED_CLOSE)
    if call is None:
        return
    require_forced_close(call, statement, "avg")
    if not isinstance(query.window, IntervalClause):
        raise InvalidStreamError(f"{call.function} in a stream needs INTERVAL", hint="use INTERVAL", span=call.span)
    require_split(call.function, call.span, query, source, language)


def check_series(statement: CreateStream, source: Relation, language: Language) -> None:
    """Require functions of successive values to be evaluated by subtable."""
    call = first_call(statement.query, language, StreamUse.ONE_SERIES)
    if call is not None:
        require_split(call.function, call.span, statement.query, source, language)


def check_force_window_close(statement: CreateStream, source: Relation, language: Language) -> None:
    query, trigger = statement.query, statement.options.trigger
    if trigger is TriggerMode.CONTINUOUS_WINDOW_CLOSE and not isinstance(query.window, IntervalClause):
        raise InvalidStreamError("CONTINUOUS_WINDOW_CLOSE needs INTERVAL", hint="use another trigger", span=query.span)
    if trigger is not TriggerMode.FORCE_WINDOW_CLOSE:
        return
    if source.table.is_virtual:
        raise NotSupportedError(
            f"FORCE_WINDOW_CLOSE is not supported over the virtual table {source.table.name}",
            hint="use another trigger, or a table that stores its rows",
            span=query.span,
        )
    require_split("FORCE_WINDOW_CLOSE", query.span, query, source, language)
    if query.window is not None and not isinstance(query.window, IntervalClause):
        raise InvalidStreamError("FORCE_WINDOW_CLOSE needs INTERVAL", hint="use another trigger", span=query.window.span)
    if query.fill is not None and query.fill.mode not in CLOCKED_FILL_MODES:
        raise InvalidStreamError(
            f"FILL({query.fill.mode}) is not allowed with FORCE_WINDOW_CLOSE: the next row is not known when a window is computed",
            hint="use FILL(PREV), FILL(NULL) or FILL(VALUE, …)",
            span=query.fill.span,
        )


def check_group_by(statement: CreateStream, _: Relation, _language: Language) -> None:
    if statement.query.group_by:
        raise InvalidStreamError(
            "GROUP BY is not allowed in a stream", hint="use PARTITION BY with a window", span=statement.query.span_of("GROUP BY")
        )


def check_functions(statement: CreateStream, _: Relation, language: Language) -> None:
    """Reject functions whose results cannot be maintained."""
    call = first_call(statement.query, language, StreamUse.NONE)
    if call is not None:
        raise InvalidStreamError(
            f"{call.function} is not supported in a stream", hint="use it in a query over the target", span=call.span
        )


def check_max_delay(statement: CreateStream, _: Relation, _language: Language) -> None:
    check_minimum(statement, "max_delay", MIN_MAX_DELAY)


def check_recalculate(statement: CreateStream, _: Relation, _language: Language) -> None:
    check_minimum(statement, "recalculate", MIN_RECALCULATION_INTERVAL)


def check_minimum(statement: CreateStream, option: str, minimum: Duration) -> None:
    """Raise `LimitError` if an option's duration is shorter than the minimum, or has no fixed length."""
    duration = fixed_option(statement, option)
    if duration is not None and duration.nanoseconds < minimum.nanoseconds:
        message = f"{option.upper()} {duration} is shorter than {minimum}"
        raise LimitError(message, hint=f"use {minimum} or more", span=statement.option_spans.get(option))


def fixed_option(statement: CreateStream, option: str) -> Duration | None:
    """Return the duration of an option, or raise `LimitError` if it has no fixed length."""
    duration: Duration | None = getattr(statement.options, option)
    if duration is not None and duration.is_calendar:
        message = f"{option.upper()} may not be in months or years, as {duration} is"
        raise LimitError(message, hint="use weeks, days or shorter units", span=statement.option_spans.get(option))
    return duration


def check_having(statement: CreateStream, _: Relation, _language: Language) -> None:
    having = statement.query.having
    if having is not None:
        raise InvalidStreamError(
            "HAVING is not allowed in a stream", hint="filter when you read the target", span=getattr(having, "span", None)
        )


def check_watermark(statement: CreateStream, _: Relation, _language: Language) -> None:
    """Require durations of fixed length."""
    for option in ("watermark", "delete_mark", "max_ahead"):
        fixed_option(statement, option)


def check_notification(statement: CreateStream, _: Relation, _language: Language) -> None:
    """Reject a notification of a query without a window."""
    if statement.notification is not None and statement.query.window is None:
        raise InvalidStreamError(
            "NOTIFY sends events of windows, and the query has none",
            hint="add a window such as INTERVAL, or remove NOTIFY",
            span=statement.query.span,
        )


def check_partitions(statement: CreateStream, source: Relation, language: Language) -> None:
    """Require subtables to divide, and windows that have rows of one subtable each."""
    query, parts, table = statement.query, statement.options.partitions, source.table
    span = statement.option_spans.get("partitions", query.span)
    if not 1 <= parts <= MAX_PARTS:
        raise LimitError(f"PARTITIONS {parts} is not from 1 to {MAX_PARTS}", hint=f"use at most {MAX_PARTS}", span=span)
    if parts == 1:
        return
    is_clocked, has_fill = statement.options.trigger is TriggerMode.FORCE_WINDOW_CLOSE, query.fill is not None
    if table.is_virtual or is_clocked or has_fill:
        clause = "FORCE_WINDOW_CLOSE" if is_clocked else "FILL"
        subject = f"over the virtual table {table.name}" if table.is_virtual else f"with {clause}"
        raise NotSupportedError(f"PARTITIONS is not supported {subject}", hint="remove PARTITIONS", span=span)
    if table.kind is TableKind.PLAIN or source.subtable is not None:
        message = f"PARTITIONS divides a stream by subtables, and {source.subtable or table.name} is a single one"
        raise InvalidStreamError(message, hint="remove PARTITIONS, or read a supertable", span=span)
    if not is_split_by_subtable(query, source, language):
        raise InvalidStreamError(
            f"PARTITIONS divides a stream by subtables, and its windows have rows of several subtables of {table.name}",
            hint=f"add PARTITION BY {language.series_name(table.series_key)}, or remove PARTITIONS",
            span=span,
        )


CHECKS: Final[tuple[Check, ...]] = (
    check_event_window,
    check_shape,
    check_subtable_name,
    check_trigger,
    check_count_window,
    check_composite_key,
    check_interpolation,
    check_time_weighted,
    check_series,
    check_force_window_close,
    check_group_by,
    check_functions,
    check_max_delay,
    check_having,
    check_recalculate,
    check_watermark,
    check_notification,
    check_partitions,
)
