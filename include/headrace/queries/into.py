"""INTO: run a query and write its columns to series; those of a target device that are missing are created with its first row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.iotdb.into import IntoColumn
from headrace.compute.iotdb.select import TreePlan
from headrace.compute.iotdb.types import type_error
from headrace.compute.windows.ranges import RangeWindow, calendar_windows
from headrace.context import Context
from headrace.model.tree_types import WIDER_KINDS, type_name
from headrace.model.trees import TIME_COLUMN, Device, DeviceSeries, NewSeries
from headrace.queries import into_frames
from headrace.queries.evaluation import evaluate_bounded, stored_result
from headrace.queries.into_layout import Layout, device_column, find_moves, has_time, value_column
from headrace.storage.delta.points import Instants, ReplacedPoints
from headrace.storage.delta.pruning import Bounds
from headrace.storage.types import MICROSECONDS, arrow_type
from headrace.storage.values.scalars import stored_units_per_tick
from headrace.trees.databases import databases_of, new_database
from headrace.trees.devices import find_devices
from headrace.trees.points import DEVICE, StoredPoints
from headrace.trees.scope import series_patterns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MICROSECONDS_PER_MS: Final = 1_000
Selected = npt.NDArray[np.bool_]
Move = Callable[[Mapping[str, Device]], Mapping[str, "Sequence[pa.Table] | DataFrame"]]


@dataclass(slots=True)
class IntoPoints:
    """What a query writes; see `Points`. Close it, as it may occupy disks.

    Attributes:
        counts: The number of values of each target.
        has_rows: Whether the query returned a row.
        driver_rows: The number of rows in the driver's memory.
        is_alone: Whether they cannot be written together with those of other queries.
        series: What they are of.
        convert: Returns them as stored, for the devices of the series.
        resources: What they need until they are written.
        parts: Points as stored, by database, once they have been converted.
    """

    counts: tuple[int, ...] = ()
    has_rows: bool = False
    driver_rows: int = 0
    is_alone: bool = False
    series: Sequence[DeviceSeries] = ()
    convert: Callable[[Mapping[str, Device]], Mapping[str, StoredPoints]] = lambda _: {}
    resources: ExitStack = field(default_factory=ExitStack)
    parts: Mapping[str, StoredPoints] = field(default_factory=dict)

    def stored(self, devices: Mapping[str, Device]) -> Mapping[str, StoredPoints]:
        """See `Points`."""
        self.parts = self.convert(devices)
        return self.parts

    @property
    def values(self) -> int:
        """The number of values."""
        return sum(self.counts)

    @property
    def is_wide(self) -> bool:
        """Whether they stay on Spark's executors."""
        return self.has_rows and not self.driver_rows

    def close(self) -> None:
        """Free what the points occupy."""
        self.resources.close()

    def values_by_range(self, starts: Sequence[int]) -> list[int]:
        """Return the number of values within each of adjoining ranges, which begin at these instants in milliseconds."""
        counts = np.zeros(len(starts), np.int64)
        for rows in (part.rows for part in self.parts.values()):
            if isinstance(rows, Sequence):
                for table in rows:
                    counts += count_by_range(table, starts)
            elif not callable(rows):
                for number, count in into_frames.count_by_range(rows, starts).items():
                    counts[number] += count
        return [int(count) for count in counts]


def count_by_range(table: pa.Table, starts: Sequence[int]) -> npt.NDArray[np.int64]:
    times = table[TIME_COLUMN].cast(pa.int64()).to_numpy() // MICROSECONDS_PER_MS
    ranges = np.searchsorted(starts, times, side="right") - 1
    valid = [ranges[pc.is_valid(table[name]).to_numpy()] for name in table.column_names[2:]]
    return np.bincount(np.concatenate(valid), minlength=len(starts))


def compute_into(
    context: Context, plan: TreePlan, targets: Sequence[IntoColumn], replaced: tuple[int, int] | None = None
) -> IntoPoints:
    """Run a query and return what it writes.

    `replaced` is the range `[start, end)` in ticks that the query was computed for. What it wrote there before goes, unless it is
    written again. None if it has written nothing there.
    """
    present = find_devices({target.device for target in targets}, context)
    check_types(targets, present)
    # Without ALIGN BY DEVICE, each row of the result becomes one of each target device.
    copies = 1 if plan.devices else len({target.device for target in targets})
    table = evaluate_bounded(plan.plan, context, context.settings.driver_rows // copies)
    with ExitStack() as resources:
        if table is not None:
            counts, rows = count_values(plan, targets, table), int(table.num_rows)
            move: Move = partial(rows_by_database, plan, targets, table)
        else:
            frame = resources.enter_context(stored_result(plan.plan, context))
            counts, rows = into_frames.count_values(plan, targets, frame)
            move = partial(into_frames.frames_by_database, plan, targets, frame)
        return IntoPoints(
            counts=tuple(count or 0 for count in counts),
            has_rows=rows > 0,
            driver_rows=0 if table is None else rows * copies,
            is_alone=table is None or replaced is not None,
            series=target_series(with_rows(targets, counts), context),
            convert=lambda resolved: stored_points(plan, targets, {**present, **resolved}, move, replaced),
            resources=resources.pop_all(),
        )


def stored_points(
    plan: TreePlan, targets: Sequence[IntoColumn], devices: Mapping[str, Device], move: Move, replaced: tuple[int, int] | None
) -> dict[str, StoredPoints]:
    """Return what a query writes as stored, by database; `move` makes its rows those of target devices."""
    check_types(targets, devices)
    moved = move(devices)
    gone = {} if replaced is None else replaced_points(plan, targets, devices, replaced)
    return {name: StoredPoints(moved.get(name, ()), gone.get(name)) for name in {**moved, **gone}}


def with_rows(targets: Sequence[IntoColumn], counts: Sequence[int | None]) -> list[IntoColumn]:
    """Return the targets of columns that have rows, of no values even."""
    return [target for target, count in zip(targets, counts, strict=True) if count is not None]


def check_types(targets: Sequence[IntoColumn], devices: Mapping[str, Device]) -> None:
    """Refuse targets that exist with a type that the column's values cannot have."""
    for target in targets:
        device = devices.get(target.device)
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


def target_series(targets: Sequence[IntoColumn], context: Context) -> list[DeviceSeries]:
    """Return the series of targets by device. Where no database exists, the one that INSERT would create is theirs."""
    by_device: dict[str, list[IntoColumn]] = defaultdict(list)
    for target in targets:
        by_device[target.device].append(target)
    names, catalog = databases_of(by_device, context), context.catalog
    databases = {name: catalog.databases.get(name) for name in set(names.values())}
    return [
        DeviceSeries(
            databases[names[path]] if path in names else new_database(path, context),
            path,
            tuple(NewSeries(target.measurement, target.type) for target in own),
            own[0].aligned,
        )
        for path, own in by_device.items()
    ]


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

    `paths` has the target device of each source device; without ALIGN BY DEVICE, of each target device itself.
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
