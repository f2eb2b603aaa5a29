"""Verification of continuous queries: what an execution has written, beside what DuckDB computes for its range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from headrace.compute.iotdb.into import IntoColumn
from headrace.compute.iotdb.select import DEVICE_HEADER, TIME_HEADER, TreePlan
from headrace.context import Context
from headrace.errors import ProgrammingError
from headrace.model.continuous_queries import Execution, ExecutionState
from headrace.model.jobs import JobDefinition
from headrace.model.trees import TIME_COLUMN, TREE_TABLE, Device, Timeseries
from headrace.model.types import DataType
from headrace.queries.continuous_query import bind_body, recorded_query
from headrace.queries.into import replaced_times
from headrace.queries.into_layout import has_time
from headrace.service.tree_user_code import checkable_tree_query
from headrace.service.tree_verification import verify_tree_range
from headrace.storage.types import arrow_type
from headrace.trees.devices import find_devices
from headrace.trees.scope import tree_scope
from headrace.verify import VerificationResult


def verify_continuous_query(definition: JobDefinition, start: int | None, end: int | None, context: Context) -> VerificationResult:
    """Compare the targets of a continuous query with what its query returns for the ranges of executions that are done.

    Without a range the latest execution is verified. Rows that were written to a source or target since the execution are a
    difference.

    Raises:
        ProgrammingError: No execution is done.
        NotSupportedError: The query uses something that verify does not support.
    """
    done = [one for one in context.catalog.executions.all(definition.id) if one.state is ExecutionState.DONE]
    chosen = done[:1] if start is None and end is None else [one for one in done if overlaps(one, start, end)]
    if not chosen:
        raise ProgrammingError(
            f"no execution of {definition.name} in this range is done", hint="SHOW CQ EXECUTIONS lists what there is"
        )
    total: VerificationResult | None = None
    for execution in reversed(chosen):
        result = verify_execution(definition, execution, context)
        if total is not None:
            result = replace(result, rows=total.rows + result.rows, seconds=total.seconds + result.seconds)
        if not result.equal:
            remarks = [*filter(None, [result.remark]), f"in the execution over [{execution.start}, {execution.end})"]
            return replace(result, remark="; ".join(remarks))
        total = result
    assert total is not None
    return total


def overlaps(execution: Execution, start: int | None, end: int | None) -> bool:
    return (end is None or execution.start < end) and (start is None or start < execution.end)


def verify_execution(definition: JobDefinition, execution: Execution, context: Context) -> VerificationResult:
    start, end = execution.start, execution.end
    details = definition.continuous_query
    assert details is not None
    query = recorded_query(definition.sql, definition.dialect)
    body = bind_body(query, start, end, context, details.timezone, definition.functions)
    if body.plan is None:
        raise ProgrammingError(f"the paths of {definition.name} match no series", hint="SHOW TIMESERIES lists what there is")
    plan, targets = body.plan, body.targets
    scope = tree_scope(plan.query, context, details.timezone, definition.functions)
    part = checkable_tree_query(replace(query, into=()), plan, scope, context.catalog.functions.all(definition.dialect))

    def rows() -> pa.Table:
        return part.rows(written_rows(plan, targets, (start, end), context))

    return replace(verify_tree_range(part.query, start, end, rows, scope, context, sparse=True), remark=part.remark)


def written_rows(plan: TreePlan, targets: Sequence[IntoColumn], ticks: tuple[int, int], context: Context) -> pa.Table:
    """Return what the targets have in a range, as the result of the query that filled them."""
    devices = find_devices({target.device for target in targets}, context)
    sources = list(dict.fromkeys(target.source_device for target in targets))
    parts = [
        device_rows(plan, [target for target in targets if target.source_device == source], devices, ticks, context)
        for source in sources
    ]
    keys = ["device", "time"] if plan.devices else ["time"]
    rows = pa.concat_tables(parts).sort_by([(key, "ascending") for key in keys])
    names = [TIME_HEADER, *([DEVICE_HEADER] if plan.devices else []), *(column.name for column in plan.columns)]
    # Column names may repeat, so rows are sorted before they get them. An aggregate over all rows has no time.
    rows = rows.rename_columns(names)
    return rows if has_time(plan) else rows.remove_column(0)


def device_rows(
    plan: TreePlan, targets: Sequence[IntoColumn], devices: dict[str, Device], ticks: tuple[int, int], context: Context
) -> pa.Table:
    """Return the rows of one source device, or of a result without devices: time, the device if there is one, and its columns."""
    series = {target.column: find_series(target, devices) for target in targets}
    rows: pa.Table | None = None
    for number, column in enumerate(plan.columns):
        stored = series.get(number)
        points = no_points(column.type, plan) if stored is None else stored_points(*stored, column.type, plan, ticks, context)
        points = points.rename_columns(["time", f"v{number}"])
        rows = points if rows is None else rows.join(points, "time", join_type="full outer")
    assert rows is not None
    names = ["time", *(f"v{number}" for number in range(len(plan.columns)))]
    rows = rows.select(names)
    if plan.devices:
        source = pa.repeat(pa.scalar(targets[0].source_device, pa.string()), rows.num_rows)
        rows = rows.add_column(1, "device", source)
    return rows


def find_series(target: IntoColumn, devices: dict[str, Device]) -> tuple[Device, Timeseries] | None:
    """Return the series that a target is; None if it has not been created."""
    device = devices.get(target.device)
    series = None if device is None else device.find(target.measurement)
    return None if device is None or series is None else (device, series)


def no_points(type_: DataType, plan: TreePlan) -> pa.Table:
    precision = plan.plan.precision
    fields = [("time", pa.timestamp("us", "UTC")), ("value", arrow_type(type_, precision))]
    return pa.schema(fields).empty_table()


def stored_points(
    device: Device, series: Timeseries, type_: DataType, plan: TreePlan, ticks: tuple[int, int], context: Context
) -> pa.Table:
    """Return the points of a series at the instants that a query over a range writes to, in the type of its column."""
    table = context.catalog.tables.get(device.database, TREE_TABLE)
    bounds, selects = replaced_times(plan, ticks)
    rows = context.tables.scan(table, columns=[TIME_COLUMN, series.column, table.series_key], tbnames=[device.path], bounds=bounds)
    rows = rows.filter(pa.compute.is_valid(rows[series.column])).select([TIME_COLUMN, series.column])
    if selects is not None:
        rows = rows.filter(pa.array(selects(rows[TIME_COLUMN].cast(pa.int64()).to_numpy())))
    values = rows[series.column].cast(arrow_type(type_, plan.plan.precision), safe=False)
    return rows.set_column(1, "value", values)
