"""`ArrowRows`: rows in memory that steps of a query are written over, as over data frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.arrays import Values, arrow_type, refuse
from headrace.compute.columnar.columns import Arrays, decoded, evaluate_all, filter_rows, plain, refuse_bytes, to_arrays
from headrace.compute.columnar.expressions import evaluate
from headrace.compute.columnar.over import array_of, with_values
from headrace.compute.columnar.runs import to_numpy
from headrace.compute.frames import Repetition
from headrace.compute.nodes import Column, Node, Operation, columns_of
from headrace.compute.plan import Plan
from headrace.compute.sql_text import at_present
from headrace.compute.types import spark_type
from headrace.model.types import DataType
from headrace.model.windows import copies

MAX_ROWS: Final = 2_000_000
"""Rows that a step may make of others at most."""
MAX_BYTES: Final = 1 << 30
"""Memory that the rows of a table may take; Spark reads more in parts."""


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
        return ArrowRows(self.plan, pa.table(evaluate_all(replaced, arrays, self.table.num_rows)))

    def extend(self, columns: Mapping[str, Node]) -> ArrowRows:
        """See `Frame`."""
        return self.select({**{name: Column(name) for name in self.table.column_names}, **columns})

    def where(self, condition: Node) -> ArrowRows:
        """See `Frame`."""
        replaced, arrays = with_values({"": at_present(self.plan, condition)}, to_arrays(self.table), self.table.num_rows)
        kept, _ = passing(arrays, self.table.num_rows, replaced[""])
        return ArrowRows(self.plan, pa.table({name: kept[name] for name in self.table.column_names}))

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


KeyValues = dict[int, tuple[str, pa.Array, Values]]
"""Values of conditions, by their identity, for the keys in a dictionary: the name of the column, its dictionary, and the values."""


def passing(columns: Arrays, size: int, condition: Node, evaluated: KeyValues | None = None) -> tuple[Arrays, int]:
    """Return the rows for which a condition is true, and how many they are. Further rows take `evaluated` along."""
    parts = [values_of(part, columns, {} if evaluated is None else evaluated) for part in conjuncts(condition)]
    refuse(any(part.type != pa.bool_() for part in parts), "a condition")
    if all(isinstance(part, pa.Scalar) and part.as_py() for part in parts):
        return columns, size
    return filter_rows(columns, size, reduce(pc.and_kleene, parts))


def conjuncts(condition: Node) -> Iterator[Node]:
    match condition:
        case Operation(name="and", operands=operands):
            for operand in operands:
                yield from conjuncts(operand)
        case _:
            yield condition


def values_of(node: Node, columns: Arrays, evaluated: KeyValues) -> Values:
    """Return the values of an expression; of one that reads a series key alone, it evaluates those of each key once."""
    found = evaluated.get(id(node))
    if found is not None and is_keyed(columns[found[0]]) and columns[found[0]].dictionary.equals(found[1]):
        name, _, values = found
    else:
        name, *others = dict.fromkeys(columns_of(node)) or [""]
        if others or not name or not is_keyed(columns[name]):
            return evaluate(node, plain(node, columns))
        values = evaluate(node, {name: columns[name].dictionary})
        if not isinstance(values, pa.Scalar) and values.type == pa.bool_() and values.true_count == len(values):
            values = pa.scalar(True)
        evaluated[id(node)] = (name, columns[name].dictionary, values)
    return values if isinstance(values, pa.Scalar) else values.take(columns[name].indices)


def is_keyed(column: pa.Array) -> bool:
    return isinstance(column, pa.DictionaryArray) and not column.null_count


def to_table(columns: Arrays) -> pa.Table:
    """Return columns as a table without dictionaries."""
    return pa.table({name: decoded(values) for name, values in columns.items()})


def gathered(batches: Iterable[pa.Table]) -> pa.Table:
    """Return all rows of batches, of which there is at least one; raise `UnsupportedError` if they take too much memory."""
    parts, size = [], 0
    for batch in batches:
        size += batch.nbytes
        refuse(size > MAX_BYTES, "rows of too many bytes")
        parts.append(batch)
    return pa.concat_tables(parts).unify_dictionaries()
