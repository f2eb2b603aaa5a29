"""Run queries over a world with Arrow in this process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from headrace.compute import Relation, Scan, Scope, SeriesNames, bind, language
from headrace.compute.columnar.mathematics import allowing_last_digits
from headrace.compute.columnar.table_plans import Series, check_tables, evaluate_tables
from headrace.errors import NotFoundError
from headrace.model.queries import Query, Union
from headrace.model.tables import TBNAME, Name
from headrace.queries.local_rows import joined_tags
from tests.verify.tables import stored_tags
from tests.verify.worlds import KEYED, MIXED, TAGS, World


@dataclass
class NearSide:
    """Runs queries over a world. Raises `UnsupportedError` for those that only Spark evaluates."""

    world: World

    def answer(self, query: Query | Union) -> pa.Table:
        plan = bind(query, Scope(self.resolve, language("tdengine"), self.world.database.timezone, 0))
        with allowing_last_digits():
            check_tables(plan)
            return evaluate_tables(plan, self, 1_000_000)

    def row_count(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> int:  # noqa: ARG002
        return int(self.world.rows[scan.table.name].num_rows)

    def batches(self, scan: Scan, first: int | None, last: int | None, series: Series = None) -> Iterator[pa.Table]:  # noqa: ARG002
        rows = self.world.rows[scan.table.name]
        stored = rows.select([name for name in scan.columns if not scan.table.is_tag(name)])
        yield joined_tags(stored, self.subtables(scan), TBNAME, scan.tags) if scan.tags else stored

    def subtables(self, scan: Scan) -> pa.Table:
        if scan.table is not MIXED:
            return pa.table({TBNAME: [scan.table.name]})
        return stored_tags(MIXED, self.world.database, TAGS)

    def resolve(self, name: Name) -> tuple[Relation, ...]:
        if name.name in TAGS:
            return (Relation(MIXED, self.world.database, SeriesNames((name.name,))),)
        table = {table.name: table for table in (MIXED, KEYED)}.get(name.name)
        if table is None:
            raise NotFoundError(f"table {name} does not exist", span=name.span)
        return (Relation(table, self.world.database),)
