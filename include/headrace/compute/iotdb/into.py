"""Binding of INTO: the target series of each result column."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.compute.iotdb.expansion import END_TIME
from headrace.compute.iotdb.select import ResultColumn, TreePlan
from headrace.compute.iotdb.types import EXECUTION_ERROR
from headrace.errors import ProgrammingError
from headrace.model.expressions import ColumnRef
from headrace.model.paths import join_path, quote_node, split_path, unquote_node
from headrace.model.tree_queries import IntoTarget, TreeQuery
from headrace.model.trees import SeriesRef
from headrace.model.types import DataType
from headrace.sql.iotdb.names import result_name
from headrace.sql.iotdb.paths import NODE_RULE

LEVEL: Final = re.compile(r"\$\{(\w+)\}")
COPY: Final = "::"
HINT: Final = "docs/reference/statements-iotdb.md has the syntax of INTO"


@dataclass(frozen=True, slots=True)
class IntoColumn:
    """A result column and its target series; `source_device` is set only in ALIGN BY DEVICE."""

    column: int
    source: str
    device: str
    measurement: str
    type: DataType
    aligned: bool = False
    source_device: str | None = None

    @property
    def path(self) -> str:
        """The target's full path."""
        return join_path((self.device, self.measurement))


def into_error(message: str, query: TreeQuery) -> ProgrammingError:
    return ProgrammingError(f"select into: {message}", hint=HINT, span=query.into[0].span or query.span)


def check_into(query: TreeQuery) -> None:
    """Raise `ProgrammingError` for clauses that INTO does not support and for misplaced placeholders."""
    for present, clause in ((query.last, "last"), (query.series_limit, "slimit"), (query.series_offset, "soffset")):
        if present:
            raise into_error(f"{clause} clauses are not supported.", query)
    if query.grouping is not None and query.grouping.tags:
        raise into_error("GROUP BY TAGS clause are not supported.", query)
    for target in query.into:
        if len(target.device) == 1 and target.device[0] != COPY:
            raise ProgrammingError(
                "root is not a legal path, because it is no longer than default sg level: 1",
                hint="name a database and a device",
                span=target.span,
            ).with_status(EXECUTION_ERROR)
        if COPY in target.device[:-1]:
            raise into_error("placeholder `::` can only be used at the end of the path.", query)


def into_targets(query: TreeQuery, bound: TreePlan) -> tuple[IntoColumn, ...]:
    """Return the target of each result column. Raises `ProgrammingError` if columns and targets do not correspond."""
    check_into(query)
    columns = by_device(query, bound) if query.by_device else by_time(query, bound)
    paths = [column.path for column in columns]
    if len(set(paths)) != len(paths):
        raise into_error("target paths in into clause should be different.", query)
    alignment: dict[str, bool] = {}
    for column in columns:
        if alignment.setdefault(column.device, column.aligned) != column.aligned:
            raise into_error("alignment property must be the same for the same device.", query)
    return tuple(columns)


def has_placeholder(nodes: Sequence[str]) -> bool:
    return any(COPY in node or LEVEL.search(node) for node in nodes)


def raw_series(column: ResultColumn, query: TreeQuery) -> SeriesRef:
    """Return the series of a column that is not an expression. Raise `ProgrammingError` for any other."""
    if column.series is None:
        raise into_error("placeholders can only be used in raw time series data queries.", query)
    return column.series


def source_columns(bound: TreePlan) -> list[tuple[int, ResultColumn]]:
    """Return the columns of a result that are written, with their numbers: all but `__endTime`."""
    return [(number, column) for number, column in enumerate(bound.columns) if column.expression != ColumnRef(END_TIME)]


def by_time(query: TreeQuery, bound: TreePlan) -> list[IntoColumn]:
    """Return the targets of a result that is aligned by time."""
    targets, numbered = query.into, source_columns(bound)
    columns = [column for _, column in numbered]
    if any(has_placeholder((*target.device, *target.measurements)) for target in targets):
        for column in columns:
            raw_series(column, query)
    if any(has_placeholder(target.measurements) for target in targets):
        items = placeholder_items(query, len(columns))
        return [time_target(query, number, column, item, 0) for (number, column), item in zip(numbered, items, strict=True)]
    if any(has_placeholder(target.device) for target in targets) and len(targets) > 1:
        raise into_error("the correspondence between the placeholder and the raw time series could not be established.", query)
    slots = [(target, number) for target in targets for number in range(len(target.measurements))]
    if len(slots) != len(columns):
        raise into_error("the number of source columns and the number of target paths should be the same.", query)
    return [time_target(query, number, column, *slot) for (number, column), slot in zip(numbered, slots, strict=True)]


def placeholder_items(query: TreeQuery, count: int) -> list[IntoTarget]:
    targets = query.into
    device = any(has_placeholder(target.device) for target in targets)
    if any(len(target.measurements) != 1 for target in targets) or (device and len(targets) > 1):
        raise into_error("the correspondence between the placeholder and the raw time series could not be established.", query)
    if len(targets) == 1:
        return list(targets) * count
    if len(targets) != count:
        raise into_error("the number of source columns and the number of target paths should be the same.", query)
    return list(targets)


def time_target(query: TreeQuery, number: int, column: ResultColumn, target: IntoTarget, index: int) -> IntoColumn:
    ref = column.series
    device = target_device(query, target.device, ref.device.path if ref is not None else "")
    template = target.measurements[index]
    name = quote_node(column.alias) if template == COPY and column.alias else target_measurement(query, template, ref)
    return IntoColumn(number, column.name, device, name, column.type, target.aligned)


def by_device(query: TreeQuery, bound: TreePlan) -> list[IntoColumn]:
    """Return the targets of an ALIGN BY DEVICE result."""
    targets, numbered = query.into, source_columns(bound)
    columns = [column for _, column in numbered]
    if any(has_placeholder(target.measurements) for target in targets):
        for column in columns:
            raw_series(column, query)
    if any(has_placeholder(target.device) for target in targets):
        if len(targets) != 1:
            raise into_error("the correspondence between the placeholder and the raw time series could not be established.", query)
        items = list(targets) * len(bound.devices)
    elif len(targets) != len(bound.devices):
        raise into_error("the number of source devices and the number of target devices should be the same.", query)
    else:
        items = list(targets)
    results = []
    for device, target in zip(bound.devices, items, strict=True):
        names = device_measurements(query, target, len(columns))
        for (number, column), name in zip(numbered, names, strict=True):
            source = column.name if column.alias is None else result_name(column.expression)
            series = device.find(column.series.series.measurement) if column.series is not None else None
            ref = SeriesRef(device, series) if series is not None else column.series
            path = target_device(query, target.device, device.path)
            results.append(
                IntoColumn(number, source, path, target_measurement(query, name, ref), column.type, target.aligned, device.path)
            )
    return results


def device_measurements(query: TreeQuery, target: IntoTarget, count: int) -> list[str]:
    if has_placeholder(target.measurements):
        if len(target.measurements) != 1:
            raise into_error("the correspondence between the placeholder and the raw time series could not be established.", query)
        return list(target.measurements) * count
    if len(target.measurements) != count:
        raise into_error("the number of source columns and the number of target paths should be the same.", query)
    return list(target.measurements)


def target_device(query: TreeQuery, template: Sequence[str], source: str) -> str:
    """Expand a device template: `::` copies the rest of the source device, `${n}` its n-th node."""
    nodes = split_path(source) if source else ()
    expanded = [expand_levels(query, node, nodes) for node in template if node != COPY]
    if template[-1] == COPY:
        expanded += nodes[len(template) - 1 :]
    return join_path(expanded)


def target_measurement(query: TreeQuery, template: str, ref: SeriesRef | None) -> str:
    """Expand a measurement template; without a source series it is used as written."""
    if ref is None:
        return template
    if template == COPY:
        return ref.series.measurement
    return expand_levels(query, template, (*ref.device.nodes, ref.series.measurement))


def expand_levels(query: TreeQuery, template: str, nodes: Sequence[str]) -> str:
    if not LEVEL.search(template):
        return template

    def node_of(match: re.Match[str]) -> str:
        if not match[1].isdigit():
            raise into_error("the i of ${i} should be an integer.", query)
        level = int(match[1])
        if not 1 <= level < len(nodes):
            raise into_error(
                "the i of ${i} should be greater than 0 and equal to or less than the length of queried path prefix.", query
            )
        return nodes[level]

    if LEVEL.fullmatch(template):
        return LEVEL.sub(node_of, template)
    if template.startswith("`"):
        return quote_node(LEVEL.sub(lambda match: unquote_node(node_of(match)), unquote_node(template)))
    name = LEVEL.sub(node_of, template)
    if "`" in name:
        raise ProgrammingError(NODE_RULE.format(name), hint="write the target in back-quotes", span=query.span)
    return quote_node(name)
