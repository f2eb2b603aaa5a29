"""Partial aggregates of numbered groups of rows (cells), merged batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.columns import Arrays, evaluate_all, take
from headrace.compute.columnar.expressions import Values, infer_type
from headrace.compute.columnar.partials import Reducer, reducer
from headrace.compute.columnar.runs import Groups, Int64s, Runs, Scattered, marks, stable_order
from headrace.compute.nodes import Node

MIN_WAITING: Final = 1_000_000
"""Cells of batches that are merged together at least; more if there are more cells."""
MAX_GAPS: Final = 4
"""Unsorted rows are folded where they are if their cells have at most so many numbers for each row; others are sorted first."""


@dataclass(frozen=True, slots=True)
class CellRules:
    """Partial aggregates over rows.

    Attributes:
        rows: The partials of one row.
        types: Their types.
        reducers: How partials are merged.
    """

    rows: Mapping[str, Node]
    types: Mapping[str, pa.DataType]
    reducers: Mapping[str, Reducer]

    @classmethod
    def compile(cls, rows: Mapping[str, Node], merges: Mapping[str, Node], types: Mapping[str, pa.DataType]) -> CellRules:
        """Compile partials over columns of these types. Raises `UnsupportedError` if one is not supported."""
        partial_types = {name: infer_type(node, types) for name, node in rows.items()}
        return cls(rows, partial_types, {name: reducer(node, partial_types) for name, node in merges.items()})


@dataclass(slots=True)
class CellPartials:
    """The partials of the cells that have rows."""

    rules: CellRules
    parts: list[tuple[Int64s, Arrays]] = field(default_factory=list)
    waiting: int = 0

    def add(self, cells: Int64s, columns: Mapping[str, Values]) -> None:
        """Add rows; `cells` has the cell of each."""
        if not len(cells):
            return
        rows = evaluate_all(self.rules.rows, columns, len(cells))
        if (cells[1:] >= cells[:-1]).all():
            self._append(cells, rows)
        elif (numbered := numbered_densely(cells)) is not None:
            self._reduce(*numbered, rows)
        else:
            order = stable_order(cells)
            self._append(cells[order], take(rows, order))
        if self.waiting > MIN_WAITING:
            self._merge()

    def result(self, size: int) -> Arrays:
        """Return the partials of all cells, NULL for those without rows."""
        self._merge()
        if not self.parts:
            return {name: pa.nulls(size, type_) for name, type_ in self.rules.types.items()}
        ((cells, columns),) = self.parts
        if len(cells) == size:
            return columns
        index = np.full(size, -1)
        index[cells] = np.arange(len(cells))
        positions = pa.array(index, mask=index < 0)
        return {name: values.take(positions) for name, values in columns.items()}

    def _append(self, cells: Int64s, rows: Arrays) -> None:
        """Add partials in the order of cells."""
        runs = Runs.of(marks([cells], len(cells)))
        self._reduce(cells[runs.starts], runs, rows)

    def _reduce(self, cells: Int64s, groups: Groups, rows: Arrays) -> None:
        """Add partials of one group for each of the cells."""
        self.parts.append((cells, {name: rule.reduce(rows, groups) for name, rule in self.rules.reducers.items()}))
        self.waiting += len(cells)

    def _merge(self) -> None:
        """Merge the partials of all batches."""
        if len(self.parts) > 1:
            cells = np.concatenate([cells for cells, _ in self.parts])
            columns = {name: pa.concat_arrays([part[name] for _, part in self.parts]) for name in self.rules.reducers}
            order = np.argsort(cells, kind="stable")
            self.parts = []
            self._append(cells[order], take(columns, order))
        # What is merged waits no longer, so that the work for each batch stays the same however many cells there are.
        self.waiting = -sum(len(cells) for cells, _ in self.parts)


def numbered_densely(cells: Int64s) -> tuple[Int64s, Scattered] | None:
    """Return the distinct cells in order, and the groups of their rows; None if they are too far apart for an array over all."""
    low, high = int(cells.min()), int(cells.max())
    if high - low > MAX_GAPS * len(cells):
        return None
    numbers = cells - low
    lengths = np.bincount(numbers)
    present = np.flatnonzero(lengths)
    if len(present) == len(lengths):
        return present + low, Scattered(numbers, lengths)
    return present + low, Scattered((np.cumsum(lengths > 0) - 1)[numbers], lengths[present])
