"""Lineage of what pipes deliver: which measurements of which tables go into each measurement of the receiver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from headrace.context import Context
from headrace.errors import NotFoundError
from headrace.model.jobs import JobDefinition
from headrace.model.lineage import (
    EVERY_DEVICE,
    NO_INPUTS,
    ColumnId,
    ColumnLineage,
    Inputs,
    Lineage,
    Transformation,
    joined,
    through,
)
from headrace.model.paths import PathPattern, unquote_node
from headrace.model.pipes import PipeStage
from headrace.model.tables import Table, TableKind
from headrace.model.trees import TREE_TABLE
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.ends import TABLE_SOURCE, TREE_SOURCES, end_of
from headrace.pipes.lookup import plugin_name
from headrace.pipes.selection import Pattern, TreePattern

TIME: Final = "time"
DEVICE: Final = "device"
Outputs = dict[str, Inputs]
"""Columns with what they are made of."""


def pipe_lineage(context: Context, definition: JobDefinition) -> Lineage:
    """Return the lineage of a pipe.

    It is empty if the source is no table of this catalog, or the processor one of users, of which nothing is known.
    """
    stages = definition.stages
    step = STEPS.get(plugin_name(PipeStage.PROCESSOR, stages.processor).lower())
    columns = source_columns(context, stages.source)
    if step is None or not columns:
        return Lineage()
    outputs, indirect = step(columns, PipeAttributes(stages.processor))
    receiver = end_of(stages.sink, PipeStage.SINK).label
    return Lineage(tuple(ColumnLineage(ColumnId("", receiver, name), inputs) for name, inputs in outputs.items()), indirect)


def source_columns(context: Context, attributes: Mapping[str, str]) -> Outputs:
    """Return the columns of events by name: time, device and the measurements that the source may transfer."""
    plugin = plugin_name(PipeStage.SOURCE, attributes).lower()
    if plugin == TABLE_SOURCE:
        tables = named_table(context, PipeAttributes(attributes))
        return event_columns(tables, lambda _: True)
    if plugin not in TREE_SOURCES:
        return {}
    from headrace.pipes.sources.options import read_options

    pattern = read_options(PipeAttributes(attributes), context.settings.timezone).pattern
    names = [name for name in context.catalog.trees.databases() if pattern.may_match_below(name)]
    return event_columns([context.catalog.tables.get(name, TREE_TABLE) for name in names], may_match(pattern))


def named_table(context: Context, attributes: PipeAttributes) -> list[Table]:
    """Return the table of a `table-source`; nothing if it was dropped."""
    try:
        return [context.catalog.tables.get(attributes.text("database"), attributes.text("table"))]
    except NotFoundError:
        return []


def may_match(pattern: Pattern) -> Callable[[str], bool]:
    """Return whether a measurement of some device may match a pattern: only its last node says something about that."""
    last = PathPattern(pattern.pattern.nodes[-1:]) if isinstance(pattern, TreePattern) else None
    return lambda measurement: last is None or last.matches((measurement,))


def event_columns(tables: Sequence[Table], is_transferred: Callable[[str], bool]) -> Outputs:
    """Return the columns of events of tables; a measurement of several tables has a column of each as its input."""
    columns: Outputs = {}
    for table in tables:
        named = {TIME: table.timestamp.name, DEVICE: table.series_key}
        measured = {column.comment if table.kind is TableKind.TREE else column.name: column.name for column in table.columns[1:]}
        named |= {unquote_node(name): stored for name, stored in measured.items() if name is not None and is_transferred(name)}
        device = EVERY_DEVICE if table.kind is TableKind.TREE else ""
        for name, stored in named.items():
            origin = {ColumnId(table.database, table.name, stored, device): frozenset((Transformation.IDENTITY,))}
            columns[name] = joined(columns.get(name, NO_INPUTS), origin)
    return columns


def measurements(columns: Outputs) -> Inputs:
    """Return the inputs of all measurements together."""
    return joined(*(inputs for name, inputs in columns.items() if name not in (TIME, DEVICE)))


def passed(columns: Outputs, _: PipeAttributes) -> tuple[Outputs, Inputs]:
    """Return the lineage of events that pass unchanged."""
    return columns, NO_INPUTS


def sampled(columns: Outputs, _: PipeAttributes) -> tuple[Outputs, Inputs]:
    """Return the lineage of a choice among the points of each series, by their times and values."""
    outputs = {name: joined(inputs, through(inputs, Transformation.FILTER)) for name, inputs in columns.items()}
    return outputs, through(columns[TIME], Transformation.FILTER)


def aggregated(columns: Outputs, attributes: PipeAttributes) -> tuple[Outputs, Inputs]:
    """Return the lineage of aggregates over windows: each series becomes a device, each operator a measurement."""
    from headrace.pipes.processors.aggregate import read_operators

    values = through(measurements(columns), Transformation.AGGREGATION)
    results = {name: values for _, name in read_operators(attributes)}
    keys = {name: through(columns[name], Transformation.TRANSFORMATION) for name in (TIME, DEVICE)}
    return keys | results, joined(*grouped(columns))


def grouped(columns: Outputs) -> Iterator[Inputs]:
    yield through(columns[TIME], Transformation.WINDOW)
    yield through(columns[DEVICE], Transformation.GROUP_BY)


def counted(columns: Outputs, attributes: PipeAttributes) -> tuple[Outputs, Inputs]:
    """Return the lineage of the number of points."""
    from headrace.pipes.processors.count_point import read_series

    _, measurement = read_series(attributes)
    return {unquote_node(measurement): through(measurements(columns), Transformation.AGGREGATION)}, NO_INPUTS


STEPS: Final[Mapping[str, Callable[[Outputs, PipeAttributes], tuple[Outputs, Inputs]]]] = {
    "do-nothing-processor": passed,
    "throwing-exception-processor": passed,
    "tumbling-time-sampling-processor": sampled,
    "sdt-sampling-processor": sampled,
    "changing-value-sampling-processor": sampled,
    "aggregate-processor": aggregated,
    "count-point-processor": counted,
}
"""What each built-in processor makes of the columns."""
