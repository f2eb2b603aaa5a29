"""The columns of targets that only the Delta tables have: for other readers the tags of each row, and the mark of FILL.

Our own readers take no notice of them. They join the tags by the name of the subtable, as those of all supertables.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.context import Context
from headrace.model.tables import Column, Table
from headrace.streams.definition.define import StreamPlan
from headrace.streams.filling.marks import MARK


def created_table(plan: StreamPlan) -> Table:
    """Return a new target with its hidden columns, which the catalog does not have."""
    return with_columns(plan.target, hidden_columns(plan))


def add_hidden_columns(context: Context, plan: StreamPlan) -> None:
    """Add the hidden columns that an existing target lacks. A tag whose name is that of a dropped column stays without one."""
    columns = context.tables.columns
    columns.add_new(plan.target, plan.target_database, tag_columns(plan))
    if plan.fills_gaps:
        columns.add(plan.target, plan.target_database, [MARK])


def stored_table(context: Context, plan: StreamPlan) -> Table:
    """Return a target with the hidden columns that a stream writes: all, but for tags of a target that is older than they are."""
    present = context.tables.columns.present(plan.target, plan.target_database, hidden_columns(plan))
    return with_columns(plan.target, present)


def hidden_columns(plan: StreamPlan) -> tuple[Column, ...]:
    return (*tag_columns(plan), MARK) if plan.fills_gaps else tag_columns(plan)


def tag_columns(plan: StreamPlan) -> tuple[Column, ...]:
    """Return the tags of a target that a stream has values for. Delta Lake ignores the case of names."""
    taken = {name.lower() for name in (plan.target.series_key, MARK.name, *(column.name for column in plan.target.columns))}
    tags = (tag for tag in plan.groups.tags if tag.column is not None)
    return tuple(Column(tag.name, tag.type) for tag in tags if tag.name.lower() not in taken)


def with_columns(target: Table, columns: tuple[Column, ...]) -> Table:
    return replace(target, columns=(*target.columns, *columns))
