"""`ArrowRows`: rows in memory that steps of a query are written over, as over data frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.arrays import arrow_type, refuse
from headrace.compute.columnar.columns import Arrays, decoded, evaluate_all, filter_rows, plain, refuse_bytes, to_arrays
from headrace.compute.columnar.expressions import evaluate, type_of
from headrace.compute.columnar.over import array_of, with_values
from headrace.compute.columnar.runs import to_numpy
from headrace.compute.frames import Repetition
from headrace.compute.nodes import Column, Node
from headrace.compute.plan import Plan
from headrace.compute.sql_text import at_present
from headrace.compute.types import spark_type
from headrace.model.types import DataType
from headrace.model.windows import copies

MAX_ROWS: Final = 2_000_000
"""Rows that a step may make of others at most."""


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows as a table. Methods raise `UnsupportedError` for what only Spark computes."""

    plan: Plan
    table: pa.Table

    @property
    def columns(self) -> list[str]:
        """See `Frame`."""
        return list(self.table.column_names)

    def select(self, columns: Mapping[str, Node]) -> ArrowRows:
        """See `Frame`."""
        nodes = {name: at_present(self.plan, node) for name, node in columns.items()}
        replaced, arrays = with_values(nodes, to_arrays(self.table), self.table.num_rows)
        return ArrowRows(self.plan, to_table(evaluate_all(replaced, arrays, self.table.num_rows)))

    def extend(self, columns: Mapping[str, Node]) -> ArrowRows:
        """See `Frame`."""
        return self.select({**{name: Column(name) for name in self.table.column_names}, **columns})

    def where(self, condition: Node) -> ArrowRows:
        """See `Frame`."""
        replaced, arrays = with_values({"": at_present(self.plan, condition)}, to_arrays(self.table), self.table.num_rows)
        kept, _ = passing({name: arrays[name] for name in arrays}, self.table.num_rows, replaced[""])
        return ArrowRows(self.plan, to_table({name: kept[name] for name in self.table.column_names}))

    def repeat(self, repetition: Repetition) -> ArrowRows:
        """See `Frame`."""
        ends = self.select({"first": repetition.first, "last": repetition.last}).table
        refuse(bool(ends["first"].null_count or ends["last"].null_count), "a number of copies that is NULL")
        first, last = (to_numpy(ends[name].combine_chunks()).astype(np.int64) for name in ("first", "last"))
        counts = np.maximum(last - first + 1, 0)
        refuse(float(counts.astype(np.float64).sum()) > MAX_ROWS, "too many rows")
        row, within = copies(counts)
        refuse_bytes(self.table, row)
        return ArrowRows(self.plan, self.table.take(pa.array(row)).append_column(repetition.number, pa.array(first[row] + within)))

    def or_row(self, columns: Mapping[str, Node], types: Mapping[str, DataType]) -> ArrowRows:
        """See `Frame`."""
        if self.table.num_rows:
            return self
        own = {name: array_of(at_present(self.plan, node), {}, 1) for name, node in columns.items()}
        nulls = {name: pa.nulls(1, arrow_type(spark_type(type_))) for name, type_ in types.items()}
        return ArrowRows(self.plan, pa.table(own | nulls))


def passing(columns: Arrays, size: int, condition: Node) -> tuple[Arrays, int]:
    """Return the rows for which a condition is true, and how many they are."""
    values = plain(condition, columns)
    refuse(type_of(condition, {name: array.type for name, array in values.items()}) != pa.bool_(), "a condition")
    return filter_rows(columns, size, evaluate(condition, values))


def to_table(columns: Arrays) -> pa.Table:
    """Return columns as a table without dictionaries."""
    return pa.table({name: decoded(values) for name, values in columns.items()})
