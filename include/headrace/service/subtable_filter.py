"""Find the subtables that meet a DELETE's conditions on tags and `tbname`, as a query with the same WHERE would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.compute import Language, Plan, Relation, Scope, bind, evaluate
from headrace.errors import NotSupportedError
from headrace.model.expressions import Call, ColumnRef, Expression
from headrace.model.queries import Query, SelectItem, TableSource
from headrace.model.tables import Database, Name, Table
from headrace.storage.sandbox import open_database
from headrace.storage.types import rows_schema
from headrace.verify import StoredTable, recompute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SubtableFilter:
    """Evaluates conditions on tags and `tbname` over a table's subtables.

    The conditions become the WHERE of a query over `tags`, a table with one row per subtable: `tbname` and a column per tag.
    """

    table: Table
    database: Database
    tags: pa.Table
    language: Language
    now: int
    spark: Callable[[], SparkSession]

    def names(self, conditions: Sequence[Expression]) -> list[str]:
        """Return the names of the subtables for which all conditions hold.

        The query is bound like any other, but DuckDB runs it if `verify` supports its expressions, to avoid starting Spark.
        """
        where = reduce(lambda left, right: Call("and", (left, right)), conditions)
        series = self.language.series_name(self.table.series_key)
        query = Query((SelectItem(ColumnRef(series)),), TableSource(Name(self.database.name, self.table.name)), where=where)
        plan = bind(query, Scope(lambda _: (Relation(self.table, self.database),), self.language, now=self.now))
        try:
            return self.by_duckdb(query)
        except NotSupportedError:
            return self.by_spark(plan)

    def by_duckdb(self, query: Query) -> list[str]:
        """Run the query with DuckDB; `NotSupportedError` if `verify` does not support an expression."""
        stored = StoredTable(self.table, self.database, None, self.rows, lambda: self.tags)
        with open_database() as connection:
            return [row[0] for row in recompute(connection, query, lambda _: stored)[1]]

    def by_spark(self, plan: Plan) -> list[str]:
        names: list[str] = evaluate(plan, lambda _: self.spark().createDataFrame(self.frame())).toArrow()[0].to_pylist()
        return names

    def rows(self) -> pa.Table:
        """Return one row per subtable in which all columns but its name are NULL."""
        schema = rows_schema(self.table, self.database)
        key = self.table.series_key
        columns = [self.tags[key] if field.name == key else pa.nulls(self.tags.num_rows, field.type) for field in schema]
        return pa.table(columns, schema=schema)

    def frame(self) -> pa.Table:
        rows = self.rows()
        for tag in self.table.tags:
            rows = rows.append_column(self.tags.schema.field(tag.name), self.tags[tag.name])
        return rows
