"""`SELECT TAGS`: a query that reads tags alone, with a row for each subtable, also for those without rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headrace.compute.binding.environment import Environment
from headrace.compute.binding.sources import BoundSource
from headrace.compute.plan_sources import Scan
from headrace.errors import NotSupportedError, ProgrammingError
from headrace.model.expressions import Call, ColumnRef, Expression, Literal, Star, walk
from headrace.model.queries import Query, SelectItem

HINT: Final = "use SELECT DISTINCT, or GROUP BY"
COUNTED: Final = Call(">=", (Call("count", (Star(),)), Literal(0)))
"""A condition that is always true. A query that counts by tags and series key has a group for each subtable."""


def query_of_tags(query: Query, source: BoundSource, *, stream: bool) -> Query:
    """Return a query that reads no rows but has the same result as `SELECT TAGS`: it groups by tags and series key.

    Raises:
        ProgrammingError: It selects other columns, or the source has no tags.
        NotSupportedError: It has a window or groups, or is that of a stream.
    """
    names = source.names
    if stream or query.window is not None or query.partition_by or query.group_by or query.having or query.interpolation:
        what = "in a stream" if stream else "with windows or groups"
        raise NotSupportedError(f"SELECT TAGS {what} is not supported", hint=HINT, span=query.span)
    if not isinstance(source.source, Scan) or not source.source.table.tags or names.time is None:
        raise ProgrammingError("SELECT TAGS needs a supertable or subtable", hint=HINT, span=query.span)
    expressions = [item.expression for item in query.items] + [ordering.expression for ordering in query.order_by]
    check_tags([*expressions, *([] if query.where is None else [query.where])], names)
    references = {part for expression in expressions for part in walk(expression) if isinstance(part, ColumnRef)}
    keys = {ColumnRef(names.language.pseudo_columns.series), *references}
    time = ColumnRef(names.time.name)
    # An empty range of time, because of which no file is read.
    conditions = (Call(">=", (time, Literal(1))), Call("<=", (time, Literal(0))))
    where = Call("and", conditions if query.where is None else (query.where, *conditions))
    return replace(
        query,
        where=where,
        group_by=tuple(SelectItem(key) for key in sorted(keys, key=str)),
        having=COUNTED,
        tags_only=False,
    )


def check_tags(expressions: list[Expression], names: Environment) -> None:
    """Refuse expressions over other columns than tags and the series key."""
    for expression in expressions:
        for part in walk(expression):
            if isinstance(part, Star) or (isinstance(part, ColumnRef) and not is_constant_in_series(part, names)):
                raise ProgrammingError("SELECT TAGS takes only tags and tbname", hint=HINT, span=part.span)


def is_constant_in_series(node: Expression, names: Environment) -> bool:
    """Return whether an expression has one value per series: its columns are tags or the series key."""
    return all(names.column(part).tag for part in walk(node) if isinstance(part, ColumnRef))
