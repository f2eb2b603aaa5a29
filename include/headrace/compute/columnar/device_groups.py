"""Aggregates of series that are aligned by time: of each device first, for all devices at once, whose windows are aligned then.

To align the rows would make as many columns of them as there are series, nearly all of them NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from headrace.compute.columnar.columns import evaluate_all, to_arrays
from headrace.compute.columnar.expressions import evaluate
from headrace.compute.nodes import NOW, NULL, TIME, Column, Node, Operation, UnsupportedError, bigint, columns_of, substitute
from headrace.compute.plan import TS, WEND, WSTART, Plan, uses_neighbors
from headrace.compute.plan_clauses import Aggregate, GroupSelection, Key, Partial
from headrace.compute.plan_sources import SeriesRows
from headrace.compute.sql_text import at_present
from headrace.compute.terms import ColumnRole
from headrace.compute.window_plans import Argument
from headrace.compute.windows.ranges import RangeWindow
from headrace.model.types import BIGINT, VARCHAR
from headrace.storage.types import arrow_type

DEVICE: Final = "device"
KEY: Final = "p0"


@dataclass(frozen=True, slots=True)
class DeviceGroups:
    """Groups by device and window, and which of them a plan takes its partials from.

    Attributes:
        plan: Aggregates the stored columns of each device. Partials that read the same columns of several devices are one.
        targets: The partial of the groups that a partial is, and the number of its device.
        devices: How many devices there are.
    """

    plan: Plan
    targets: Mapping[str, tuple[str, int]]
    devices: int

    def align(self, groups: pa.Table, outputs: Mapping[str, Node]) -> tuple[pa.Table, dict[str, pa.Array]]:
        """Return the windows with the partials of all devices, and the values of the outputs that are of one device each.

        `groups` are all windows of all devices in order. Devices mostly have the same few expressions, which are evaluated once.
        """
        cells, count = to_arrays(groups), groups.num_rows // self.devices
        windows = {name: cells[name].slice(0, count) for name in (WSTART, WEND) if name in cells}
        windows |= {column: cells[name].slice(rank * count, count) for column, (name, rank) in self.targets.items()}
        own = {name: owned for name, node in outputs.items() if (owned := self._own(node)) is not None}
        values = evaluate_all({name: node for name, (node, _) in own.items()}, cells, groups.num_rows)
        return pa.table(windows), {name: values[name].slice(rank * count, count) for name, (_, rank) in own.items()}

    def _own(self, node: Node) -> tuple[Node, int] | None:
        """Return an expression over the groups by device, and the number of the device that it reads; None if not of one device."""
        targets = {name: self.targets.get(name) for name in columns_of(node)}
        ranks = {None if target is None else target[1] for target in targets.values()}
        if len(ranks) != 1 or (rank := ranks.pop()) is None:
            return None
        return substitute(node, {name: Column(target[0]) for name, target in targets.items() if target is not None}), rank


def group_by_device(plan: Plan) -> DeviceGroups | None:
    """Return the groups by device of a plan over rows aligned by time; None if a partial depends on several devices or all rows."""
    source = plan.source
    if not isinstance(source, SeriesRows) or not source.aligned or len(source.devices) < 2 or not source.stored:
        return None
    if not isinstance(plan.window, RangeWindow | None) or uses_neighbors(plan) or plan.groups.calls:
        return None
    if plan.filter is not None and set(columns_of(at_present(plan, plan.filter))) != {TIME}:
        return None
    rows, series, types = rows_by_device(plan, source)
    arguments: dict[Node, Argument] = {}
    columns: dict[str, Node] = {}
    owners: dict[str, set[int | None]] = {}
    for argument in plan.arguments:
        node = at_present(plan, argument.node)
        read = [name for name in columns_of(node) if name != TIME]
        owners[argument.column] = {series[name][0] if name in series else None for name in read}
        own = substitute(node, {name: series[name][1] for name in read if name in series})
        columns[argument.column] = Column(arguments.setdefault(own, Argument(f"a{len(arguments)}", own, argument.type)).column)
    own_partials = plan.partials
    partials, names = shared_partials(own_partials, {**columns, NOW.name: bigint(plan.present)})
    ranks = {part.column: set().union(*(owners.get(name, ()) for name in columns_of(part.update))) for part in own_partials}
    nodes = {argument.column: own for own, argument in arguments.items()}
    if not partials or any(len(owner) != 1 or None in owner for owner in ranks.values()):
        return None
    if not all(ignores_nulls(substitute(partial.update, nodes), types) for partial in partials):
        return None
    key = Key(KEY, DEVICE, Column(DEVICE), VARCHAR, role=ColumnRole.SERIES)
    aggregate = Aggregate("", "", tuple(partials), NULL, BIGINT)
    selection = GroupSelection(plan.window, (aggregate,), unique=plan.groups.unique)
    by_device = replace(
        plan, source=rows, keys=(key,), arguments=tuple(arguments.values()), selection=selection, outputs=(), hidden=()
    )
    targets = {column: (names[column], rank) for column, (rank,) in ranks.items() if rank is not None}
    return DeviceGroups(by_device, targets, len(source.devices))


Series = dict[str, tuple[int | None, Column]]
"""The number of the device of each column of rows that are aligned by time, and the column of rows by device that it is."""


def rows_by_device(plan: Plan, source: SeriesRows) -> tuple[SeriesRows, Series, dict[str, pa.DataType]]:
    """Return the rows by device that fill rows aligned by time, with a column for each stored name and type, and their types."""
    numbers = {path: number for number, path in enumerate(source.devices)}
    names: dict[tuple[str, pa.DataType], str] = {}
    series: Series = {}
    sides = []
    for scan, columns, parts in zip(source.scans, source.columns, source.stored, strict=True):
        types = {column.name: arrow_type(column.type, plan.precision) for column in scan.table.columns}
        side: dict[str, Node] = {}
        for (_, name), part in zip(columns, parts, strict=True):
            if part is not None:
                column = names.setdefault((part.column, types[part.column]), f"c{len(names)}")
                series[name] = (None if name in series else numbers.get(part.device), Column(column))
                side[column] = Column(part.column)
        sides.append(side)
    own = tuple(tuple((side.get(name, NULL), name) for name in names.values()) for side in sides)
    return SeriesRows(source.scans, own, source.devices), series, {name: type_ for (_, type_), name in names.items()}


def shared_partials(partials: Sequence[Partial], columns: Mapping[str, Node]) -> tuple[list[Partial], dict[str, str]]:
    """Return the distinct ones of partials over other columns, and the new name of each partial."""
    distinct: dict[Node, Partial] = {}
    names: dict[str, str] = {}
    for partial in partials:
        update = substitute(partial.update, columns)
        names[partial.column] = distinct.setdefault(update, replace(partial, column=f"y{len(distinct)}", update=update)).column
    renamed: dict[str, Node] = {column: Column(name) for column, name in names.items()}
    return [
        replace(
            partial,
            merge=substitute(partial.merge, renamed),
            row=None if partial.row is None else substitute(partial.row, columns),
            direct=None,
        )
        for partial in distinct.values()
    ], names


def ignores_nulls(update: Node, types: Mapping[str, pa.DataType]) -> bool:
    """Return whether a row whose columns are all NULL leaves an aggregate unchanged: other devices may have rows at its instant."""
    nulls = {name: pa.scalar(None, type_) for name, type_ in types.items()}
    nulls |= {TIME: pa.scalar(0, pa.timestamp("us", "UTC")), TS: pa.scalar(0)}
    if not isinstance(update, Operation):
        return False
    try:
        # The last operand decides whether a row counts: the only one, or the order of the selected row.
        value = evaluate(update.operands[-1], nulls)
    except (KeyError, UnsupportedError):
        return False
    return isinstance(value, pa.Scalar) and not value.is_valid
