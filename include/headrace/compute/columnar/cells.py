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

from headrace.compute.columnar.arrays import Values, refuse
from headrace.compute.columnar.columns import Arrays
from headrace.compute.columnar.expressions import evaluate
from headrace.compute.columnar.partials import CellPartials, CellRules
from headrace.compute.columnar.rows import Rows, SeriesReader, aligned_rows, apply_filter, column_types
from headrace.compute.columnar.runs import Int64s
from headrace.compute.columnar.window_ranges import WindowRange, window_range
from headrace.compute.nodes import TIME, Column, Node, Operation, UnsupportedError, columns_of, substitute
from headrace.compute.plan import TS, WEND, WSTART, Plan
from headrace.compute.plan_sources import SeriesRows
from headrace.compute.sql_text import at_present
from headrace.compute.window_plans import RangeWindow

Array = np.ndarray[Any, Any]
MAX_CELLS: Final = 40_000_000
"""Cells times partial aggregates that are kept in this process at most; about half a gigabyte."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a partial of aligned series reads: a scan, a device, and the stored columns that are columns of the source."""

    scan: int | None = None
    device: int | None = None
    stored: Mapping[str, Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a partial of the plan comes from: a partial of cells, and the device whose cells it takes; None for all cells."""

    name: str
    device: int | None = None


@dataclass(slots=True)
class Aggregation:
    """Aggregates the rows of a plan."""

    plan: Plan
    source: SeriesRows
    types: Mapping[str, pa.DataType]
    where: Node | None
    range: WindowRange | None = field(init=False)
    targets: dict[str, Target] = field(init=False, default_factory=dict)
    rules: dict[int | None, CellRules] = field(init=False)
    by_device: bool = field(init=False)
    cells: Arrays = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Check that all parts are supported. Raises `UnsupportedError` if a part is not supported."""
        window = self.plan.window
        self.range = window_range(self.plan, window, MAX_CELLS) if isinstance(window, RangeWindow) else None
        rows = self._over_source({partial.column: partial.row for partial in self.plan.partials})
        splits = self.source.aligned and len(self.source.devices) > 1
        origins = self._split_by_device() if splits else None
        self.by_device = bool(self.plan.keys) or origins is not None
        self._compile(rows, origins if origins is not None else dict.fromkeys(rows, Origin()))
        refuse(self.size * max(1, len(self.cell_types())) > MAX_CELLS, "too many cells")

    def _over_source(self, nodes: Mapping[str, Node | None]) -> dict[str, Node]:
        names: dict[str, Node] = {argument.column: at_present(self.plan, argument.node) for argument in self.plan.arguments}
        if self.plan.identity.time is not None:
            names[TS] = self.plan.identity.time
        refuse(None in nodes.values(), "partials of many rows")
        return {column: substitute(at_present(self.plan, node), names) for column, node in nodes.items() if node is not None}

    def _compile(self, rows: Mapping[str, Node], origins: Mapping[str, Origin]) -> None:
        """Set targets and rules. Partials that read the same columns of several devices are one partial of their cells."""
        stored = {column: substitute(node, origins[column].stored) for column, node in rows.items()}
        merges = {partial.column: partial.merge for partial in self.plan.partials}
        names: dict[tuple[int | None, Node, Node], str] = {}
        for column, node in stored.items():
            key = (origins[column].scan, node, substitute(merges[column], stored))
            self.targets[column] = Target(names.setdefault(key, f"k{len(names)}"), origins[column].device)
        columns: dict[str, Node] = {column: Column(target.name) for column, target in self.targets.items()}
        own_rows: dict[int | None, dict[str, Node]] = {}
        own_merges: dict[int | None, dict[str, Node]] = {}
        for column, target in self.targets.items():
            scan = origins[column].scan
            own_rows.setdefault(scan, {})[target.name] = stored[column]
            own_merges.setdefault(scan, {})[target.name] = substitute(merges[column], columns)
        self.rules = {scan: CellRules.compile(own_rows[scan], own_merges[scan], self._types(scan)) for scan in own_rows}

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

    def _types(self, number: int | None) -> Mapping[str, pa.DataType]:
        return self.types if number is None else column_types(self.plan, self.source, number) | {TIME: self.types[TIME]}

    def _split_by_device(self) -> dict[str, Origin] | None:
        """Return the origins of partials that each depend on one device alone, None if one depends on several, or on all rows."""
        if self.where is not None and set(columns_of(self.where)) != {TIME}:
            return None
        series = {
            name: (number, part)
            for number, parts in enumerate(self.source.stored)
            for (_, name), part in zip(self.source.columns[number], parts, strict=True)
            if part is not None
        }
        ranks = {path: rank for rank, path in enumerate(self.source.devices)}
        updates = self._over_source({partial.column: partial.update for partial in self.plan.partials})
        origins = {}
        for column, node in updates.items():
            names = set(columns_of(node)) - {TIME}
            owners = {(series[name][0], series[name][1].device) for name in names}
            if len(owners) != 1:
                return None
            ((number, device),) = owners
            origins[column] = Origin(number, ranks[device], {name: Column(series[name][1].column) for name in names})
        # Most devices have the same few aggregates.
        distinct = {(origins[column].scan, substitute(node, origins[column].stored)) for column, node in updates.items()}
        return origins if all(ignores_nulls(node, self._types(number)) for number, node in distinct) else None

    def column_types(self) -> dict[str, pa.DataType]:
        """Return the types of the columns of `run` other than keys."""
        cells = self.cell_types()
        types = {column: cells[target.name] for column, target in self.targets.items()}
        return types if self.range is None else types | dict.fromkeys((WSTART, WEND), pa.int64())

    def run(self, reader: SeriesReader) -> dict[str, pa.Array]:
        """Return the windows of all devices, in the order of devices and time: keys, the window's ends, and partials."""
        partials = {scan: CellPartials(rules) for scan, rules in self.rules.items()}
        for scan, rows in self._rows(reader):
            if scan in partials:
                self._add(rows, partials[scan])
        columns: dict[str, Any] = {}
        for key in self.plan.keys:
            codes = np.repeat(np.arange(len(self.source.devices), dtype=np.int32), self.windows)
            columns[key.column] = pa.DictionaryArray.from_arrays(codes, pa.array(self.source.devices, pa.string()))
        if self.range is not None:
            repeats = self.count // self.windows
            columns[WSTART] = pa.array(np.tile(self.range.starts, repeats))
            columns[WEND] = pa.array(np.tile(self.range.lasts, repeats))
        self.cells = {name: values for part in partials.values() for name, values in part.result(self.size).items()}
        for column, target in self.targets.items():
            values = self.cells[target.name]
            columns[column] = values if target.device is None else values.slice(target.device * self.windows, self.windows)
        return columns

    def over_cells(self, node: Node) -> tuple[dict[str, Node], int] | None:
        """Return the cells that the columns of an expression are slices of, and the device; None if not of one device."""
        targets = {name: self.targets.get(name) for name in columns_of(node)}
        devices = {None if target is None else target.device for target in targets.values()}
        if len(devices) != 1 or None in devices:
            return None
        (device,) = devices
        names: dict[str, Node] = {name: Column(target.name) for name, target in targets.items() if target is not None}
        return None if device is None else (names, device)

    def cell_types(self) -> dict[str, pa.DataType]:
        return {name: type_ for rules in self.rules.values() for name, type_ in rules.types.items()}

    def _rows(self, reader: SeriesReader) -> Iterator[tuple[int | None, Rows]]:
        """Yield the rows to aggregate; with a number, those of one scan under its stored names."""
        if any(scan is not None for scan in self.rules):
            for number in range(len(self.source.scans)):
                yield from ((number, apply_filter(rows, self.where)) for rows in reader.stored(number))
        elif self.source.aligned and len(self.source.devices) > 1:
            early = self.where if self.where is not None and set(columns_of(self.where)) == {TIME} else None
            yield None, apply_filter(aligned_rows(reader, self.types, early), self.where)
        else:
            yield from ((None, apply_filter(rows, self.where)) for rows in reader.named(self.types))

    def _add(self, rows: Rows, partials: CellPartials) -> None:
        """Add rows to the partials of their cells."""
        windows: Int64s | int = 0
        if self.range is not None:
            assert self.plan.identity.time is not None
            ticks = to_numpy(evaluate(self.plan.identity.time, rows.columns))
            is_inside = self.range.contains(ticks)
            positions, windows = self.range.assign(ticks if is_inside.all() else ticks[is_inside])
            rows = rows.filter(is_inside)
            rows = rows if positions is None else rows.take(positions)
        devices = rows.devices.astype(np.int64) if self.by_device else np.zeros(len(rows.devices), np.int64)
        partials.add(devices * self.windows + windows, rows.columns)


def to_numpy(values: Values) -> Array:
    """Return values without NULL as a NumPy array."""
    array: Array = (values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values).to_numpy(zero_copy_only=False)
    return array


def ignores_nulls(node: Node, types: Mapping[str, pa.DataType]) -> bool:
    """Return whether a row whose columns are all NULL leaves an aggregate unchanged: other devices may have rows at its instant."""
    nulls = {name: pa.scalar(None, type_) for name, type_ in types.items()}
    nulls[TIME] = pa.scalar(0, pa.timestamp("us", "UTC"))
    if not isinstance(node, Operation):
        return False
    try:
        # The last operand decides whether a row counts: the only one, or the order of the selected row.
        value = evaluate(node.operands[-1], nulls)
    except (KeyError, UnsupportedError):
        return False
    return isinstance(value, pa.Scalar) and not value.is_valid
