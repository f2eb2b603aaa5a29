"""Writing of TDengine queries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.model.queries import (
    CountClause,
    EventClause,
    FillClause,
    InterpolationClause,
    IntervalClause,
    Join,
    Ordering,
    Query,
    QuerySource,
    SelectItem,
    SessionClause,
    Source,
    StateClause,
    TableSource,
    Union,
    WindowClause,
)
from headrace.model.time import Duration
from headrace.sql.render import ExpressionRenderer
from headrace.sql.tdengine.words import BINARY, LEXICAL_RULES, NEGATED, PREDICATES


class TDengineRenderer(ExpressionRenderer):
    """Writes TDengine expressions."""

    LEXICAL_RULES = LEXICAL_RULES
    BINARY = BINARY
    PREDICATES = PREDICATES
    NEGATED = NEGATED


RENDERER: Final = TDengineRenderer()


def query_sql(query: Query | Union) -> str:
    if isinstance(query, Query):
        return " ".join(filter(None, (_select_sql(query), _tail_sql(query))))
    left, right = _operand_sql(query.left), _operand_sql(query.right, right=True)
    quantifier = " ALL" if query.all else ""
    return " ".join(filter(None, (f"{left} UNION{quantifier} {right}", _tail_sql(query))))


def _operand_sql(query: Query | Union, right: bool = False) -> str:
    """Write one side of a union, in parentheses if its own tail or union would otherwise apply to all of it."""
    in_parentheses = bool(_tail_sql(query)) or (right and isinstance(query, Union))
    return f"({query_sql(query)})" if in_parentheses else query_sql(query)


def _select_sql(query: Query) -> str:
    parts = (
        "SELECT TAGS" if query.tags_only else "SELECT DISTINCT" if query.distinct else "SELECT",
        _items_sql(query.items),
        query.source and f"FROM {_source_sql(query.source)}",
        query.where and f"WHERE {RENDERER.sql(query.where)}",
        query.partition_by and f"PARTITION BY {_items_sql(query.partition_by)}",
        query.interpolation and _interpolation_sql(query.interpolation),
        query.window and _window_sql(query.window),
        query.fill and _fill_sql(query.fill),
        query.group_by and f"GROUP BY {_items_sql(query.group_by)}",
        query.having and f"HAVING {RENDERER.sql(query.having)}",
    )
    return " ".join(part for part in parts if part)


def _items_sql(items: Iterable[SelectItem]) -> str:
    return ", ".join(_with_alias(RENDERER.sql(item.expression), item.alias) for item in items)


def _with_alias(text: str, alias: str | None) -> str:
    return text if alias is None else f"{text} AS {LEXICAL_RULES.name_sql(alias)}"


def _source_sql(source: Source, in_parentheses: bool = False) -> str:
    match source:
        case TableSource(name=name, alias=alias):
            database = "" if name.database is None else f"{LEXICAL_RULES.name_sql(name.database)}."
            return _with_alias(f"{database}{LEXICAL_RULES.name_sql(name.name)}", alias)
        case QuerySource(query=query, alias=alias):
            return _with_alias(f"({query_sql(query)})", alias)
    text = _join_sql(source)
    return f"({text})" if in_parentheses else text


def _join_sql(join: Join) -> str:
    """Write a join. Joins associate to the left, and a comma binds more loosely than JOIN."""
    if _is_comma(join):
        return f"{_source_sql(join.left)}, {_source_sql(join.right, _is_comma(join.right))}"
    left = _source_sql(join.left, _is_comma(join.left))
    right = _source_sql(join.right, isinstance(join.right, Join))
    condition = "" if join.condition is None else f" ON {RENDERER.sql(join.condition)}"
    limit = "" if join.limit is None else f" JLIMIT {join.limit}"
    return f"{left} {join.kind.upper()} JOIN {right}{condition}{limit}"


def _is_comma(source: Source) -> bool:
    return isinstance(source, Join) and source.condition is None and source.kind == "inner"


def _window_sql(window: WindowClause) -> str:
    match window:
        case IntervalClause(length=length, offset=offset, sliding=sliding, auto_offset=is_auto):
            shift = ", AUTO" if is_auto else "" if offset is None else f", {offset}"
            return f"INTERVAL({length}{shift})" + ("" if sliding is None else f" SLIDING({sliding})")
        case SessionClause(timestamp=timestamp, gap=gap):
            return f"SESSION({RENDERER.sql(timestamp)}, {gap})"
        case StateClause(expression=expression, true_for=true_for):
            return f"STATE_WINDOW({RENDERER.sql(expression)}){_true_for_sql(true_for)}"
        case EventClause(start=start, end=end, true_for=true_for):
            return f"EVENT_WINDOW START WITH {RENDERER.sql(start)} END WITH {RENDERER.sql(end)}{_true_for_sql(true_for)}"
        case CountClause(count=count, sliding=step):
            return f"COUNT_WINDOW({count}{'' if step is None else f', {step}'})"


def _true_for_sql(true_for: Duration | None) -> str:
    return "" if true_for is None else f" TRUE_FOR({true_for})"


def _fill_sql(fill: FillClause) -> str:
    return f"FILL({', '.join((fill.mode, *map(RENDERER.sql, fill.values)))})"


def _interpolation_sql(interpolation: InterpolationClause) -> str:
    ends = [RENDERER.sql(end) for end in (interpolation.start, interpolation.end) if end is not None]
    every = "" if interpolation.every is None else f"EVERY({interpolation.every})"
    return " ".join(filter(None, (f"RANGE({', '.join(ends)})" if ends else "", every)))


def _tail_sql(query: Query | Union) -> str:
    parts = [f"ORDER BY {', '.join(map(_ordering_sql, query.order_by))}"] if query.order_by else []
    if isinstance(query, Query):
        parts += [_limit_sql("SLIMIT", query.series_limit, "SOFFSET", query.series_offset)]
    parts += [_limit_sql("LIMIT", query.limit, "OFFSET", query.offset)]
    return " ".join(filter(None, parts))


def _limit_sql(limit: str, count: int | None, offset: str, skipped: int | None) -> str:
    if count is None:
        return ""
    return f"{limit} {count}" if skipped is None else f"{limit} {count} {offset} {skipped}"


def _ordering_sql(ordering: Ordering) -> str:
    nulls = {None: "", True: " NULLS FIRST", False: " NULLS LAST"}[ordering.nulls_first]
    return f"{RENDERER.sql(ordering.expression)}{' DESC' if ordering.descending else ''}{nulls}"
