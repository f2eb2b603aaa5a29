"""Compute a query over trees in DuckDB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.model.tree_queries import TreeQuery
from headrace.verify.trees.expanded import Expansion
from headrace.verify.trees.expressions import TreeCompiler
from headrace.verify.trees.rows import RowsBuilder
from headrace.verify.trees.select import TreeResult, TreeSelect
from headrace.verify.trees.source import Loader, TreeSource, precision_of
from headrace.verify.trees.spans import bounds_of
from headrace.verify.values import unsupported

if TYPE_CHECKING:
    import duckdb


@dataclass(slots=True)
class TreeRecomputation:
    """Computes queries in one connection."""

    connection: duckdb.DuckDBPyConnection
    source: TreeSource
    steps: int = 0

    def step(self, label: str, sql: str) -> str:
        """Compute a relation and return its name."""
        self.steps += 1
        name = f"t{self.steps}_{label}"
        self.connection.execute(f"CREATE TEMP TABLE {name} AS {sql}")
        return name

    def result(self, query: TreeQuery) -> TreeResult | None:
        """Compute a query; None if its paths match no series."""
        check_supported(query)
        precision = precision_of(self.source, {device.database for device in self.source.devices})
        compiler = TreeCompiler(lambda _: None, precision, self.source.timezone)
        loader = Loader(self.connection, self.source, bounds_of(query, compiler.ticks))
        expanded = Expansion(query, self.source, RowsBuilder(loader, self.step)).expand()
        if expanded is None:
            return None
        return TreeSelect(self.connection, self.step, query, expanded, precision, self.source.timezone).result()


def check_supported(query: TreeQuery) -> None:
    """Raise `NotSupportedError` for clauses that are not recomputed."""
    features = {
        "SELECT LAST": query.last,
        "INTO": bool(query.into),
        "SLIMIT and SOFFSET": query.series_limit is not None or query.series_offset is not None,
    }
    for feature, is_used in features.items():
        if is_used:
            raise unsupported(feature)
