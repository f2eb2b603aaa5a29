"""Functions of rows and their neighbors, such as `diff`: which rows take part, what they get, and which are returned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from headrace.compute.frames import Frame
from headrace.compute.nodes import Column, Node, Places, both, either, integer, substitute
from headrace.compute.plan import KEYS, SERIES_KEY, TIES, TS, Plan, UnionPlan

F = TypeVar("F", bound=Frame)


def passing_rows(plan: Plan, rows: F) -> F:
    """Return the rows that pass WHERE."""
    return rows if plan.filter is None else rows.where(plan.filter)


def project_rows(plan: Plan, rows: F, add_functions: Callable[[Plan, F], F]) -> tuple[F, list[str]]:
    """Evaluate keys, select list and hidden columns of the rows that pass WHERE. Also returns their natural order.

    `add_functions` adds the columns of functions over whole series.
    """
    result, columns = passing_rows(plan, rows), plan.natural_columns
    natural = list(columns)
    if plan.series.arrow_calls:
        result = add_functions(plan, result)
    if plan.series.calls:
        result, columns, natural = add_series_calls(plan, result, columns)
    result = result.select(columns | {output.column: output.node for output in (*plan.outputs, *plan.hidden)})
    if plan.is_sparse:
        result = result.where(either(*(Column(output.column).is_not_null() for output in plan.outputs if output.role is None)))
    # Rows of a sub-query keep their order.
    return result, [] if isinstance(plan.source, Plan | UnionPlan) and not plan.series.calls else natural


def add_series_calls(plan: Plan, rows: F, columns: Mapping[str, Node]) -> tuple[F, dict[str, Node], list[str]]:
    """Add the values of series functions. Returns rows, where their keys and time are now, and their natural order."""
    calls, renamed = plan.series.calls, {name: f"__{name}" for name in columns}
    keys = tuple(Column(renamed[key.column]) for key in plan.keys) or (integer(1),)
    order = [Column(renamed[name]) for name in (TS, SERIES_KEY) if name in renamed]
    ties = (*order, plan.identity.key) if plan.identity.key is not None else tuple(order)
    names: dict[str, Node] = {KEYS.name: Places(keys), TIES.name: Places(ties)}

    def add(frame: F, nodes: Mapping[str, Node | None]) -> F:
        added = {name: substitute(node, names) for name, node in nodes.items() if node is not None}
        return frame.extend(added) if added else frame

    def keep(frame: F, conditions: list[Node | None]) -> F:
        present = [substitute(condition, names) for condition in conditions if condition is not None]
        return frame.where(both(*present)) if present else frame

    result = keep(add(rows, {renamed[name]: node for name, node in columns.items()}), [call.before for call in calls])
    result = add(result, {f"_{call.column}": call.first for call in calls})
    result = add(result, {call.column: call.value for call in calls})
    result = add(keep(result, [call.keep for call in calls]), {f"{call.column}_order": call.order for call in calls})
    ordered = [f"{call.column}_order" for call in calls if call.order is not None]
    natural = [*(key.column for key in plan.keys), *ordered]
    positions: dict[str, Node] = {name: Column(column) for name, column in (renamed | {name: name for name in ordered}).items()}
    return result, positions, [*natural, *(name for name in columns if name not in natural)]
