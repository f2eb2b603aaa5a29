"""Lineage of the columns of streams' targets and of virtual tables, down to stored columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.catalog import Catalog
from headrace.compute.lineage import PlanLineage, plan_lineage
from headrace.context import Context
from headrace.model.jobs import JobDefinition
from headrace.model.lineage import (
    NO_INPUTS,
    ColumnId,
    ColumnLineage,
    Inputs,
    Lineage,
    Transformation,
    composed,
    joined,
    simplified,
    through,
)
from headrace.model.tables import ColumnReference, Table
from headrace.streams.definition.define import StreamPlan, plan_recorded_stream

IDENTICAL = frozenset((Transformation.IDENTITY,))


def stream_lineage(context: Context, definition: JobDefinition) -> Lineage:
    """Return the lineage of a stream's target; raise what planning its query raises."""
    return lineage_of(plan_recorded_stream(definition, context.catalog, context.settings), context.catalog)


def lineage_of(plan: StreamPlan, catalog: Catalog) -> Lineage:
    """Return the lineage of a planned stream."""
    query = plan_lineage(plan.query)
    origins = virtual_origins(catalog, plan.source, plan.references) if plan.source.is_virtual else {}
    pairs = [*column_pairs(plan, query), *tag_pairs(plan, query)]
    columns = tuple(ColumnLineage(target_column(plan, name), replaced(inputs, origins)) for name, inputs in pairs)
    return Lineage(columns, replaced(query.indirect, origins))


def target_column(plan: StreamPlan, name: str) -> ColumnId:
    return ColumnId(plan.target.database, plan.target.name, name)


def column_pairs(plan: StreamPlan, query: PlanLineage) -> Iterator[tuple[str, Inputs]]:
    """Yield the columns of the target with what they are made of."""
    for name, output in zip(plan.columns, plan.query.outputs, strict=False):
        yield name, query.outputs[output.column]


def tag_pairs(plan: StreamPlan, query: PlanLineage) -> Iterator[tuple[str, Inputs]]:
    """Yield the tags of the target, and the names of its subtables, with what they are made of."""
    groups = plan.groups
    of_group = joined(*(query.keys[key.column] for key in groups.keys))
    for tag in groups.tags:
        yield tag.name, NO_INPUTS if tag.column is None else query.keys[tag.column]
    if groups.id_tag is not None:
        yield groups.id_tag, through(of_group, Transformation.TRANSFORMATION)
    named = of_group if groups.name is None else query.keys[groups.name]
    yield plan.target.series_key, through(named, Transformation.TRANSFORMATION)


def virtual_lineage(catalog: Catalog, table: Table) -> Lineage:
    """Return the lineage of a virtual table: the stored columns that fill its columns."""
    origins = virtual_origins(catalog, table, catalog.virtual_tables.references(table.database, table.name, None))
    return Lineage(tuple(ColumnLineage(column, inputs) for column, inputs in origins.items()))


def virtual_origins(catalog: Catalog, table: Table, references: Iterable[ColumnReference]) -> dict[ColumnId, Inputs]:
    """Return the stored columns that fill each column of a virtual table; its tags are its own."""
    origins: dict[ColumnId, Inputs] = {}

    def add(column: str, origin: ColumnId) -> None:
        target = ColumnId(table.database, table.name, column)
        origins[target] = joined(origins.get(target, NO_INPUTS), {origin: IDENTICAL})

    for reference in references:
        database, name = reference.origin.database, reference.origin.name
        add(reference.column, ColumnId(database, name, reference.origin_column))
        add(table.timestamp.name, ColumnId(database, name, catalog.tables.get(database, name).timestamp.name))
    return origins


def replaced(inputs: Inputs, origins: dict[ColumnId, Inputs]) -> Inputs:
    """Return inputs with the columns of a virtual table replaced by those that fill them."""
    parts: list[Inputs] = []
    for column, ways in inputs.items():
        parts += [
            {origin: frozenset(composed(inner, way) for inner in inner_ways for way in ways)}
            for origin, inner_ways in origins.get(column, {column: IDENTICAL}).items()
        ]
    return simplified(joined(*parts))
