"""Aggregation of rows to windows of devices.

Each device and window is a cell of dense arrays. Rows aligned by time are aggregated by device before their windows are aligned: an
aggregate over one series is a slice of the cells of all devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.accumulators import Accumulator, AccumulatorRule, accumulator_rule, aggregate_input
from headrace.compute.columnar.expressions import Values, evaluate
from headrace.compute.columnar.range_windows import WindowRange, window_range
from headrace.compute.columnar.rows import Rows, SeriesReader, aligned_rows, apply_filter, column_types
from headrace.compute.columnar.runs import Int64s
from headrace.compute.nodes import TIME, Column, Node, UnsupportedError, columns_of, substitute
from headrace.compute.plan import TS, WEND, WSTART, Plan
from headrace.compute.plan_sources import SeriesRows
from headrace.compute.sql_text import at_present
from headrace.compute.window_plans import RangeWindow

Array = np.ndarray[Any, Any]
MAX_CELLS: Final = 40_000_000
"""Cells times partial aggregates that are kept in this process at most; about half a gigabyte."""


Key = tuple[int | None, Node]
"""An aggregate, and the scan whose stored columns it reads; None for the columns of the source."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a partial of the plan comes from: an accumulator, and the device whose cells it takes; None for all cells."""

    key: Key
    device: int | None = None


@dataclass(slots=True)
class Aggregation:
    """Aggregates the rows of a plan."""

    plan: Plan
    source: SeriesRows
    types: Mapping[str, pa.DataType]
    where: Node | None
    range: WindowRange | None = field(init=False)
    targets: dict[str, Target] = field(init=False)
    rules: dict[Key, AccumulatorRule] = field(init=False)
    by_device: bool = field(init=False)
    cell_names: dict[Key, str] = field(init=False)
    cells: dict[str, pa.Array] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Check that all parts are supported.

        Raises:
            UnsupportedError: A part is not supported.
        """
        window = self.plan.window
        self.range = window_range(self.plan, window, MAX_CELLS) if isinstance(window, RangeWindow) else None
        updates = self._updates()
        self.by_device = bool(self.plan.keys)
        self.targets = {column: Target((None, node)) for column, node in updates.items()}
        if self.source.aligned and len(self.source.devices) > 1 and (split := self._split_by_device(updates)) is not None:
            self.by_device, self.targets = True, split
        keys = list(dict.fromkeys(target.key for target in self.targets.values()))
        self.rules = {key: accumulator_rule(key[1], self._types(key[0])) for key in keys}
        self.cell_names = {key: f"k{number}" for number, key in enumerate(keys)}
        if self.size * max(1, len(keys)) > MAX_CELLS:
            raise UnsupportedError("too many cells")

    @property
    def windows(self) -> int:
        """The number of windows of a device."""
        return 1 if self.range is None else len(self.range.starts)

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.windows * (len(self.source.devices) if self.by_device else 1)

    @property
    def count(self) -> int:
        """The number of groups of the result."""
        return self.size if self.plan.keys else self.windows

    def _updates(self) -> dict[str, Node]:
        """Return the partial aggregates over the columns of the source."""
        names: dict[str, Node] = {argument.column: at_present(self.plan, argument.node) for argument in self.plan.arguments}
        if self.plan.time is not None:
            names[TS] = self.plan.time
        partials = self.plan.one_pass.partials
        return {partial.column: substitute(at_present(self.plan, partial.update), names) for partial in partials}

    def _types(self, number: int | None) -> Mapping[str, pa.DataType]:
        """Return the types of the columns of an accumulator."""
        return self.types if number is None else column_types(self.plan, self.source, number) | {TIME: self.types[TIME]}

    def _split_by_device(self, updates: Mapping[str, Node]) -> dict[str, Target] | None:
        """Return the targets of partials that each depend on one device alone, None if one depends on several, or on all rows."""
        if self.where is not None and set(columns_of(self.where)) != {TIME}:
            return None
        series = {
            name: (number, part)
            for number, parts in enumerate(self.source.stored)
            for (_, name), part in zip(self.source.columns[number], parts, strict=True)
            if part is not None
        }
        ranks = {path: rank for rank, path in enumerate(self.source.devices)}
        targets = {}
        for column, node in updates.items():
            names = set(columns_of(node)) - {TIME}
            owners = {(series[name][0], series[name][1].device) for name in names}
            if len(owners) != 1:
                return None
            (number, device), *_ = owners
            stored: dict[str, Node] = {name: Column(series[name][1].column) for name in names}
            targets[column] = Target((number, substitute(node, stored)), ranks[device])
        # Most devices have the same few aggregates.
        distinct = {target.key for target in targets.values()}
        return targets if all(ignores_nulls(node, self._types(number)) for number, node in distinct) else None

    def column_types(self) -> dict[str, pa.DataType]:
        """Return the types of the columns of `run` other than keys."""
        types = {column: self.rules[target.key].type for column, target in self.targets.items()}
        return types if self.range is None else types | dict.fromkeys((WSTART, WEND), pa.int64())

    def run(self, reader: SeriesReader) -> dict[str, pa.Array]:
        """Return the windows of all devices, in the order of devices and time: keys, the window's ends, and partials."""
        accumulators = {key: rule.make(self.size) for key, rule in self.rules.items()}
        for number, rows in self._rows(reader):
            self._add(number, rows, accumulators)
        columns: dict[str, Any] = {}
        for key in self.plan.keys:
            codes = np.repeat(np.arange(len(self.source.devices), dtype=np.int32), self.windows)
            columns[key.column] = pa.DictionaryArray.from_arrays(codes, pa.array(self.source.devices, pa.string()))
        if self.range is not None:
            repeats = self.count // self.windows
            columns[WSTART] = pa.array(np.tile(self.range.starts, repeats))
            columns[WEND] = pa.array(np.tile(self.range.lasts, repeats))
        self.cells = {self.cell_names[key]: accumulator.result() for key, accumulator in accumulators.items()}
        for column, target in self.targets.items():
            values = self.cells[self.cell_names[target.key]]
            columns[column] = values if target.device is None else values.slice(target.device * self.windows, self.windows)
        return columns

    def over_cells(self, node: Node) -> tuple[dict[str, Node], int] | None:
        """Return the cells that the columns of an expression are slices of, and the device; None if not of one device."""
        targets = {name: self.targets.get(name) for name in columns_of(node)}
        devices = {None if target is None else target.device for target in targets.values()}
        if len(devices) != 1 or None in devices:
            return None
        (device,) = devices
        names: dict[str, Node] = {
            name: Column(self.cell_names[target.key]) for name, target in targets.items() if target is not None
        }
        return None if device is None else (names, device)

    def cell_types(self) -> dict[str, pa.DataType]:
        """Return the types of the cells of all devices."""
        return {self.cell_names[key]: rule.type for key, rule in self.rules.items()}

    def _rows(self, reader: SeriesReader) -> Iterator[tuple[int | None, Rows]]:
        """Yield the rows to aggregate; with a number, those of one scan under its stored names."""
        if any(key[0] is not None for key in self.rules):
            for number in range(len(self.source.scans)):
                yield from ((number, apply_filter(rows, self.where)) for rows in reader.stored(number))
        elif self.source.aligned and len(self.source.devices) > 1:
            early = self.where if self.where is not None and set(columns_of(self.where)) == {TIME} else None
            yield None, apply_filter(aligned_rows(reader, self.types, early), self.where)
        else:
            yield from ((None, apply_filter(rows, self.where)) for rows in reader.named(self.types))

    def _add(self, number: int | None, rows: Rows, accumulators: Mapping[Key, Accumulator]) -> None:
        """Add rows to the accumulators of their scan."""
        windows: Int64s | int = 0
        if self.range is not None:
            assert self.plan.time is not None
            ticks = to_numpy(evaluate(self.plan.time, rows.columns))
            is_inside = self.range.contains(ticks)
            positions, windows = self.range.assign(ticks if is_inside.all() else ticks[is_inside])
            rows = rows.filter(is_inside)
            rows = rows if positions is None else rows.take(positions)
        cells = (
            rows.devices.astype(np.int64) * self.windows if self.by_device else np.zeros(len(rows.devices), np.int64)
        ) + windows
        if not len(cells):
            return
        for key, accumulator in accumulators.items():
            if key[0] in (None, number):
                accumulator.update(cells, rows.columns)


def to_numpy(values: Values) -> Array:
    """Return values without NULL as a NumPy array."""
    array: Array = (values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values).to_numpy(zero_copy_only=False)
    return array


def ignores_nulls(node: Node, types: Mapping[str, pa.DataType]) -> bool:
    """Return whether a row whose columns are all NULL leaves an aggregate unchanged: other devices may have rows at its instant."""
    nulls = {name: pa.scalar(None, type_) for name, type_ in types.items()}
    nulls[TIME] = pa.scalar(0, pa.timestamp("us", "UTC"))
    try:
        value = evaluate(aggregate_input(node), nulls)
    except (KeyError, UnsupportedError):
        return False
    return isinstance(value, pa.Scalar) and not value.is_valid
