"""Expressions in stored types: the select list over finished windows, and queries without windows over rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.compute.columnar.columns import Arrays, decoded, evaluate_all, filter_rows, plain, to_arrays
from headrace.compute.columnar.expressions import evaluate, infer_type
from headrace.compute.nodes import Node, UnsupportedError, columns_of
from headrace.compute.plan import Plan
from headrace.compute.sql_text import at_present, to_stored_type


@dataclass(frozen=True)
class OutputKernel:
    """Expressions by the names of their columns, and the types of these."""

    nodes: Mapping[str, Node]
    types: Mapping[str, pa.DataType]

    @classmethod
    def compile(cls, expressions: Mapping[str, Node], windows: pa.Schema) -> OutputKernel:
        """Compile expressions.

        Args:
            expressions: The expression of each column.
            windows: The columns that they may use.

        Raises:
            UnsupportedError: Kernels cannot evaluate one of them.
        """
        types = {field.name: field.type for field in windows}
        return cls(expressions, {name: infer_type(node, types) for name, node in expressions.items()})

    def append_to(self, windows: pa.Table) -> pa.Table:
        """Return windows with the columns of the expressions.

        Raises:
            UnsupportedError: Spark would refuse a value.
        """
        values = evaluate_all(self.nodes, to_arrays(windows), windows.num_rows)
        for name, column in values.items():
            windows = windows.append_column(pa.field(name, self.types[name]), column)
        return windows


@dataclass(frozen=True)
class ProjectionKernel:
    """A query without windows and aggregates: its keys, time, series key and select list, for the rows that pass WHERE."""

    filter: Node | None
    nodes: Mapping[str, Node]

    @classmethod
    def compile(cls, plan: Plan, types: Mapping[str, pa.DataType]) -> ProjectionKernel:
        """Compile a plan.

        Args:
            plan: The bound query.
            types: The types of the source's columns.

        Raises:
            UnsupportedError: Kernels cannot evaluate a part of it, or its values depend on neighboring rows.
        """
        if plan.series.calls or plan.series.arrow_calls:
            raise UnsupportedError("functions of neighboring rows")
        filter_ = at_present(plan, plan.filter) if plan.filter else None
        outputs = {output.column: to_stored_type(output.node, output.type, plan.precision) for output in plan.outputs}
        columns = plan.natural_columns | outputs
        nodes = {name: at_present(plan, node) for name, node in columns.items()}
        for node in (*nodes.values(), *([filter_] if filter_ is not None else [])):
            infer_type(node, types)
        return cls(filter_, nodes)

    def project(self, rows: pa.Table) -> pa.Table:
        """Return the results of the rows that pass WHERE, in their order.

        Raises:
            UnsupportedError: Spark would refuse a value.
        """
        nodes = [*self.nodes.values(), *([self.filter] if self.filter is not None else [])]
        columns: Arrays = to_arrays(rows.select(list(dict.fromkeys(name for node in nodes for name in columns_of(node)))))
        size = rows.num_rows
        if self.filter is not None:
            columns, size = filter_rows(columns, size, evaluate(self.filter, plain(self.filter, columns)))
        return pa.table({name: decoded(values) for name, values in evaluate_all(self.nodes, columns, size).items()})
