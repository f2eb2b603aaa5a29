"""INTO: run a query and write its columns to series; those of a target device that are missing are created with its first row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.iotdb.into import IntoColumn
from headrace.compute.iotdb.select import TreePlan
from headrace.compute.iotdb.types import type_error
from headrace.compute.window_plans import RangeWindow
from headrace.compute.windows.ranges import calendar_windows
from headrace.context import Context
from headrace.model.paths import join_path, split_path
from headrace.model.tables import Database
from headrace.model.tree_types import WIDER_KINDS, type_name
from headrace.model.trees import TIME_COLUMN, TREE_TABLE, Device, NewSeries
from headrace.queries import into_frames
from headrace.queries.evaluation import evaluate_bounded, stored_result
from headrace.queries.into_layout import DEVICE, Layout, device_column, find_moves, has_time, value_column
from headrace.queries.scope import series_patterns
from headrace.queries.trees import DeviceSeries, database_of, make_all_series, make_tree
from headrace.storage.delta.points import Instants, ReplacedPoints
from headrace.storage.delta.pruning import Bounds
from headrace.storage.types import MICROSECONDS, arrow_type
from headrace.storage.values.scalars import stored_units_per_tick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MICROSECONDS_PER_MS: Final = 1_000
Selected = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class IntoPoints:
    """What a query writes. Close it, as it may occupy disks.

    Attributes:
        counts: The number of values of each target.
        has_rows: Whether the query returned a row.
        rows: Rows as stored, by database.
        frames: The same if they are too many for the driver.
        replaced: Points that give way to them, by database.
        resources: What `frames` need.
    """

    counts: tuple[int, ...] = ()
    has_rows: bool = False
    rows: Mapping[str, Sequence[pa.Table]] = field(default_factory=dict)
    frames: Mapping[str, DataFrame] = field(default_factory=dict)
    replaced: Mapping[str, ReplacedPoints] = field(default_factory=dict)
    resources: ExitStack = field(default_factory=ExitStack)

    @property
    def values(self) -> int:
        """The number of values."""
        return sum(self.counts)

    @property
    def is_alone(self) -> bool:
        """Whether they cannot be written together with those of other queries."""
        return bool(self.replaced or self.frames)

    @property
    def driver_rows(self) -> int:
        """The number of rows in the driver's memory."""
        return sum(table.num_rows for tables in self.rows.values() for table in tables)

    def close(self) -> None:
        """Free what the points occupy."""
        self.resources.close()

    def values_by_range(self, starts: Sequence[int]) -> list[int]:
        """Return the number of values within each of adjoining ranges, which begin at these instants in milliseconds."""
        counts = np.zeros(len(starts), np.int64)
        for table in (table for tables in self.rows.values() for table in tables):
            times = table[TIME_COLUMN].cast(pa.int64()).to_numpy() // MICROSECONDS_PER_MS
            ranges = np.searchsorted(starts, times, side="right") - 1
            for name in table.column_names[2:]:
                counts += np.bincount(ranges[pc.is_valid(table[name]).to_numpy()], minlength=len(starts))
        for frame in self.frames.values():
            for number, count in into_frames.count_by_range(frame, starts).items():
                counts[number] += count
        return [int(count) for count in counts]


def write_into(context: Context, plan: TreePlan, targets: Sequence[IntoColumn]) -> IntoPoints:
    """Run a query and write its columns, in one commit for each database. Points are added or overwritten.

    Args:
        context: The environment.
        plan: The bound query.
        targets: Where each column of the result goes, or of ALIGN BY DEVICE each column of each device.

    Raises:
        TypeMismatchError: A target exists with a type that the column's values cannot have.
    """
    points = compute_into(context, plan, targets)
    try:
        write_points(context, [points])
    finally:
        points.close()
    return points


def compute_into(
    context: Context, plan: TreePlan, targets: Sequence[IntoColumn], replaced: tuple[int, int] | None = None
) -> IntoPoints:
    """Run a query and return what it writes; series that are missing are created.

    Args:
        context: The environment.
        plan: The bound query.
        targets: Where its columns go.
        replaced: The range `[start, end)` in ticks that the query was computed for. What it wrote there before goes, unless it is
            written again. None if it has written nothing there.
    """
    devices = find_devices({target.device for target in targets}, context)
    for target in targets:
        check_type(target, devices.get(target.device))
    # Without ALIGN BY DEVICE, each row of the result becomes one of each target device.
    copies = 1 if plan.devices else len({target.device for target in targets})
    table = evaluate_bounded(plan.plan, context, context.settings.driver_rows // copies)
    if table is None:
        return compute_frames(context, plan, targets, devices, replaced)
    counts = count_values(plan, targets, table)
    devices |= make_targets(with_rows(targets, counts), context)
    ranges = {} if replaced is None else replaced_points(plan, targets, devices, replaced)
    return IntoPoints(written(counts), table.num_rows > 0, rows_by_database(plan, targets, table, devices), replaced=ranges)


def compute_frames(
    context: Context,
    plan: TreePlan,
    targets: Sequence[IntoColumn],
    devices: dict[str, Device],
    replaced: tuple[int, int] | None,
) -> IntoPoints:
    """Do what `compute_into` does with a result that stays on Spark's executors."""
    with ExitStack() as resources:
        frame = resources.enter_context(stored_result(plan.plan, context))
        counts, rows = into_frames.count_values(plan, targets, frame)
        devices |= make_targets(with_rows(targets, counts), context)
        ranges = {} if replaced is None else replaced_points(plan, targets, devices, replaced)
        frames = into_frames.frames_by_database(plan, targets, frame, devices)
        return IntoPoints(written(counts), rows > 0, frames=frames, replaced=ranges, resources=resources.pop_all())


def with_rows(targets: Sequence[IntoColumn], counts: Sequence[int | None]) -> list[IntoColumn]:
    """Return the targets of columns that have rows, of no values even."""
    return [target for target, count in zip(targets, counts, strict=True) if count is not None]


def written(counts: Sequence[int | None]) -> tuple[int, ...]:
    """Return how many values each target gets."""
    return tuple(count or 0 for count in counts)


def write_points(context: Context, points: Sequence[IntoPoints], check: Callable[[], None] = lambda: None) -> None:
    """Write the points of queries, in one commit for each database; of points at the same instant the last are kept.

    Args:
        context: The environment.
        points: What each query writes. One with `is_alone` must be the only one.
        check: Called before each commit. What it raises prevents the commit.
    """
    names = dict.fromkeys(name for own in points for name in (*own.rows, *own.frames, *own.replaced))
    for name in names:
        replaced = next((own.replaced[name] for own in points if name in own.replaced), None)
        frame = next((own.frames[name] for own in points if name in own.frames), None)
        rows = [row for own in points for row in own.rows.get(name, ())]
        write_database(context, name, rows if frame is None else frame, replaced, check)


def write_database(
    context: Context, name: str, rows: Sequence[pa.Table] | DataFrame, replaced: ReplacedPoints | None, check: Callable[[], None]
) -> None:
    """Write the rows of one database."""
    table, database = context.catalog.tables.get(name, TREE_TABLE), context.catalog.databases.get(name)
    max_rows = context.settings.driver_rows
    if isinstance(rows, Sequence):
        nothing = context.tables.schema(table, database).empty_table().select([TIME_COLUMN, DEVICE])
        combined = pa.concat_tables([nothing, *rows], promote_options="default")
        context.tables.writer.write_points(table, database, combined, replaced, max_rows=max_rows, check=check)
    else:
        context.tables.point_frames.write(table, database, rows, replaced, max_rows=max_rows, check=check)


def find_devices(paths: set[str], context: Context) -> dict[str, Device]:
    """Return those of the paths that are devices."""
    by_database: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        if (name := database_of(path, context)) is not None:
            by_database[name].append(path)
    return {path: device for name, own in by_database.items() for path, device in context.catalog.trees.find(name, own).items()}


def check_type(target: IntoColumn, device: Device | None) -> None:
    """Refuse a target that exists with a type that the column's values cannot have."""
    series = device.find(target.measurement) if device is not None else None
    if series is not None and series.type.kind not in (target.type.kind, *WIDER_KINDS.get(target.type.kind, ())):
        raise type_error(
            f"The data type of target path ({target.path}[{type_name(series.type)}]) is not compatible with the data type of "
            f"source column ({target.source}[{type_name(target.type)}]).",
            hint="write to a series of the column's type, or cast the column",
        )


def count_values(plan: TreePlan, targets: Sequence[IntoColumn], table: pa.Table) -> tuple[int | None, ...]:
    """Return how many values each target gets; None if its source has no rows."""
    key = device_column(plan)
    if not table.num_rows:
        return (None,) * len(targets)
    if key is None:
        return tuple(table.num_rows - table.column(value_column(plan, target)).null_count for target in targets)
    names = [f"c{number}" for number in range(table.num_columns)]
    columns = sorted({value_column(plan, target) for target in targets})
    grouped = table.rename_columns(names).group_by(names[key]).aggregate([(names[column], "count") for column in columns])
    rows = {row[names[key]]: row for row in grouped.to_pylist()}
    return tuple(
        rows[target.source_device][f"{names[value_column(plan, target)]}_count"] if target.source_device in rows else None
        for target in targets
    )


def make_targets(targets: Sequence[IntoColumn], context: Context) -> dict[str, Device]:
    """Return the devices of targets, with all their series; what is missing is created."""
    by_database: dict[str, dict[str, list[IntoColumn]]] = defaultdict(lambda: defaultdict(list))
    for target in targets:
        name = database_of(target.device, context) or join_path(split_path(target.device)[:2])
        by_database[name][target.device].append(target)
    made: dict[str, Device] = {}
    for name, devices in by_database.items():
        made |= make_devices(name, devices, context)
    return made


def make_devices(name: str, targets: Mapping[str, Sequence[IntoColumn]], context: Context) -> dict[str, Device]:
    """Return devices of one database, with all series of their targets; what is missing is created."""
    present = context.catalog.trees.find(name, list(targets))
    missing = [
        DeviceSeries(path, tuple(NewSeries(target.measurement, target.type) for target in own), own[0].aligned)
        for path, own in targets.items()
        if path not in present or any(present[path].find(target.measurement) is None for target in own)
    ]
    if not missing:
        return present
    if database_of(name, context) is None:
        make_tree(context, Database(name, timezone=context.settings.timezone), if_not_exists=True)
    make_all_series(context, context.catalog.databases.get(name), missing, if_not_exists=True)
    return context.catalog.trees.find(name, list(targets))


def rows_by_database(
    plan: TreePlan, targets: Sequence[IntoColumn], table: pa.Table, devices: Mapping[str, Device]
) -> dict[str, list[pa.Table]]:
    """Return the rows to write, under the names of the stored columns; those without values are left out."""
    rows: dict[str, list[pa.Table]] = defaultdict(list)
    for (name, columns), paths in find_moves(plan, targets, devices).items():
        rows[name] += moved_rows(plan, table, columns, paths)
    return dict(rows)


def moved_rows(plan: TreePlan, table: pa.Table, layout: Layout, paths: Mapping[str | None, str]) -> list[pa.Table]:
    """Return the rows for devices whose columns are written to the same stored columns.

    Args:
        plan: The bound query.
        table: Its result.
        layout: Columns of the result and series.
        paths: The target device of each source device; without ALIGN BY DEVICE, of each target device itself.
    """
    key = device_column(plan)
    if key is None:
        return [target_rows(plan, table, layout, pa.repeat(pa.scalar(path), table.num_rows)) for path in paths.values()]
    sources = pa.array(list(paths), pa.string())
    own = table.filter(pc.is_in(table.column(key), sources))
    targets = pa.array(list(paths.values()), pa.string()).take(pc.index_in(own.column(key).combine_chunks(), sources))
    return [target_rows(plan, own, layout, targets)]


def target_rows(plan: TreePlan, table: pa.Table, layout: Layout, devices: pa.Array) -> pa.Table:
    """Return rows of the result as stored, without those that have no value."""
    times = table.column(0) if has_time(plan) else pa.nulls(table.num_rows, pa.int64()).fill_null(0).cast(MICROSECONDS)
    columns = {TIME_COLUMN: times, DEVICE: devices}
    has_value = pa.array(np.zeros(table.num_rows, bool))
    for index, series in layout:
        values, stored = table.column(index), arrow_type(series.type, plan.plan.precision)
        columns[series.column] = values if values.type == stored else values.cast(stored, safe=False)
        has_value = pc.or_(has_value, pc.is_valid(values).combine_chunks())
    return pa.table(columns).filter(has_value)


def replaced_points(
    plan: TreePlan, targets: Sequence[IntoColumn], devices: Mapping[str, Device], ticks: tuple[int, int]
) -> dict[str, ReplacedPoints]:
    """Return the points that an earlier computation of a range may have written, by database.

    Series that the query reads are left alone: their points need not come from it.
    """
    columns: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    patterns = list(series_patterns(plan.query))
    for target in targets:
        device = devices.get(target.device)
        series = None if device is None else device.find(target.measurement)
        if device is None or series is None:
            continue
        nodes = (*device.nodes, series.measurement)
        if not any(pattern.matches(nodes) for pattern in patterns):
            columns[device.database][device.path].append(series.column)
    bounds, selects = replaced_times(plan, ticks)
    return {
        name: ReplacedPoints(tuple((path, tuple(names)) for path, names in own.items()), bounds, selects)
        for name, own in columns.items()
    }


def replaced_times(plan: TreePlan, ticks: tuple[int, int]) -> tuple[Bounds, Callable[[Instants], Selected] | None]:
    """Return the times at which a query over a range writes: those of its windows' starts if they are known."""
    if not has_time(plan):
        return Bounds(0, 0), None
    unit, window = stored_units_per_tick(plan.plan.precision), plan.plan.window
    bounds = Bounds(ticks[0] * unit, (ticks[1] - 1) * unit)
    if not isinstance(window, RangeWindow):
        return bounds, None
    if not window.months[1]:
        return bounds, lambda times: (times - ticks[0] * unit) % (window.step * unit) == 0
    starts = [start * unit for start, _ in calendar_windows(window, *ticks, plan.plan.precision)]
    return bounds, lambda times: np.isin(times, starts)
