"""Expressions over finished windows, such as the select list, in stored types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.compute.kernels.columns import evaluate_all, to_arrays
from headrace.compute.local.expressions import infer_type
from headrace.compute.local.sql import Node, parse


@dataclass(frozen=True)
class OutputKernel:
    """Expressions by the names of their columns, and the types of these."""

    nodes: Mapping[str, Node]
    types: Mapping[str, pa.DataType]

    @classmethod
    def compile(cls, expressions: Mapping[str, str], windows: pa.Schema) -> OutputKernel:
        """Compile expressions in Spark SQL.

        Args:
            expressions: The expression of each column.
            windows: The columns that they may use.

        Raises:
            UnsupportedError: Kernels cannot evaluate one of them.
        """
        nodes = {name: parse(sql) for name, sql in expressions.items()}
        types = {field.name: field.type for field in windows}
        return cls(nodes, {name: infer_type(node, types) for name, node in nodes.items()})

    def append_to(self, windows: pa.Table) -> pa.Table:
        """Return windows with the columns of the expressions.

        Raises:
            UnsupportedError: Spark would refuse a value.
        """
        values = evaluate_all(self.nodes, to_arrays(windows), windows.num_rows)
        for name, column in values.items():
            windows = windows.append_column(pa.field(name, self.types[name]), column)
        return windows
