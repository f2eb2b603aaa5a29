"""Lineage of the series that continuous queries write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.compute.iotdb.into import IntoColumn
from headrace.compute.iotdb.select import TreePlan
from headrace.compute.lineage import plan_lineage
from headrace.context import Context
from headrace.model.jobs import JobDefinition
from headrace.model.lineage import EVERY_DEVICE, NO_INPUTS, ColumnId, ColumnLineage, Inputs, Lineage
from headrace.model.paths import unquote_node
from headrace.model.trees import TIME_COLUMN, TREE_TABLE, Device
from headrace.queries.continuous_query import bind_body, recorded_query
from headrace.trees.databases import databases_of
from headrace.trees.devices import find_devices
from headrace.trees.owners import as_owner


def query_lineage(context: Context, definition: JobDefinition) -> Lineage:
    """Return the lineage of what the next execution of a query writes; raise what binding its paths raises.

    The paths are resolved with the rights of the owner, as an execution does.
    """
    details, schedule = definition.continuous_query, definition.schedule
    start, end = schedule.range_at(schedule.at_or_after(context.clock.now()))
    owner, query = as_owner(context, definition.owner), recorded_query(definition.sql, definition.dialect)
    body = bind_body(query, start, end, owner, None if details is None else details.timezone, definition.functions)
    return Lineage() if body.plan is None else lineage_of(body.plan, body.targets, context)


def lineage_of(bound: TreePlan, targets: Iterable[IntoColumn], context: Context) -> Lineage:
    """Return the lineage of a bound query."""
    columns, inputs = list(targets), plan_lineage(bound.plan)
    names = Targets(context, {target.device for target in columns})
    first = len(bound.plan.outputs) - len(bound.columns)
    made = [
        ColumnLineage(
            names.series(target.device, target.measurement),
            of_device(inputs.outputs[bound.plan.outputs[first + target.column].column], target.source_device),
        )
        for target in columns
    ]
    has_time = first > bool(bound.devices)
    times = inputs.outputs[bound.plan.outputs[0].column] if has_time else NO_INPUTS
    devices = {target.device: target.source_device for target in columns}
    made += [ColumnLineage(names.column(one, TIME_COLUMN), of_device(times, source)) for one, source in devices.items()]
    return Lineage(tuple(made), inputs.indirect)


class Targets:
    """The stored columns of the series that a query writes; series that do not exist yet have the names of their measurements."""

    def __init__(self, context: Context, devices: set[str]) -> None:
        """Look devices up, by their paths."""
        self._databases = databases_of(devices, context)
        self._devices: dict[str, Device] = dict(find_devices(devices, context))

    def column(self, device: str, column: str) -> ColumnId:
        """Return a column of the table that holds a device; its database is empty if there is none yet."""
        return ColumnId(self._databases.get(device, ""), TREE_TABLE, column, device)

    def series(self, device: str, measurement: str) -> ColumnId:
        """Return the column of a series."""
        present = self._devices.get(device)
        series = None if present is None else present.find(measurement)
        return self.column(device, unquote_node(measurement) if series is None else series.column)


def of_device(inputs: Inputs, device: str | None) -> Inputs:
    """Return what a result that is aligned by device has of one device; all of any other result."""
    if device is None:
        return inputs
    own = {column: ways for column, ways in inputs.items() if column.device in ("", EVERY_DEVICE, device)}
    return {replace(column, device=device) if column.device else column: ways for column, ways in own.items()}
