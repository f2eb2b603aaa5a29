"""What notifications tell of windows besides their results: hidden columns of a stream's query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headrace.model.expressions import Call, ColumnRef, Expression, walk
from headrace.model.queries import EventClause, Query, SelectItem, StateClause
from headrace.model.statements import CreateStream
from headrace.model.tables import Table

FIRST_ROW_VALUE = "_group_key"
LAST_ROW_VALUE = "last_row"


@dataclass(frozen=True, slots=True)
class ConditionValues:
    """The output columns with what defines a window: the state of a state window, or what starts and ends an event window.

    `start` and `end` have, for each source column in the conditions, its name and the output column.
    """

    start: tuple[tuple[str, str], ...] = ()
    end: tuple[tuple[str, str], ...] = ()
    state: str = ""


def add_condition_values(query: Query, statement: CreateStream, source: Table) -> tuple[Query, ConditionValues]:
    """Add the values that notifications have: of the first row for START and states, and of the last row for END."""
    window, hidden_output = query.window, f"o{len(query.items)}"
    if statement.notification is None or not isinstance(window, EventClause | StateClause):
        return query, ConditionValues()
    if isinstance(window, StateClause):
        state = SelectItem(Call(FIRST_ROW_VALUE, (window.expression,)), "_condition_0")
        return replace(query, items=(*query.items, state)), ConditionValues(state=hidden_output)
    starts, ends = (tuple(condition_columns(condition, source)) for condition in (window.start, window.end))
    calls = [*((FIRST_ROW_VALUE, name) for name in starts), *((LAST_ROW_VALUE, name) for name in ends)]
    hidden = tuple(
        SelectItem(Call(function, (ColumnRef(name),)), f"_condition_{number}") for number, (function, name) in enumerate(calls)
    )
    outputs = [f"o{len(query.items) + number}" for number in range(len(hidden))]
    start, end = tuple(zip(starts, outputs, strict=False)), tuple(zip(ends, outputs[len(starts) :], strict=True))
    return replace(query, items=(*query.items, *hidden)), ConditionValues(start, end)


def condition_columns(condition: Expression, source: Table) -> Iterator[str]:
    """Yield the columns of a source that a condition uses, each once."""
    used = dict.fromkeys(part.name for part in walk(condition) if isinstance(part, ColumnRef))
    return (name for name in used if source.column(name) is not None)
