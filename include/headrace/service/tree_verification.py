"""Verification of queries over trees: the stored rows that DuckDB recomputes them from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.compute.iotdb.select import TreePlan
from headrace.context import Context
from headrace.errors import NotSupportedError
from headrace.model.tables import Database, Table
from headrace.model.time import first_live_tick
from headrace.model.tree_queries import TreeQuery
from headrace.queries.evaluation import evaluate_query
from headrace.service.stage import SessionState
from headrace.service.verification import Versions, compare_undisturbed, query_rows
from headrace.storage import Bounds
from headrace.verify import VerificationResult
from headrace.verify.iotdb import TreeRows, TreeSource, verify_tree, within

if TYPE_CHECKING:
    from headrace.compute.iotdb.by_tags import TagPlan
    from headrace.compute.iotdb.scope import TreeScope
    from headrace.service.tree_user_code import CheckableTreeQuery


def verify_tree_query(
    part: CheckableTreeQuery, plan: TreePlan | TagPlan, scope: TreeScope, sql: str, session: SessionState
) -> VerificationResult:
    """Run a query over trees with Spark, and what can be verified of it with DuckDB, and compare.

    Raises:
        NotSupportedError: The query uses something that verify does not support.
    """

    def evaluate() -> pa.Table:
        rows = evaluate_query(plan.plan, session.context)
        return rows if isinstance(plan, TreePlan) else plan.finish(rows)

    def compare() -> tuple[VerificationResult, Callable[[], bool]]:
        versions = Versions(session.context)
        source = tree_source(scope, session.context, versions)
        result = verify_tree(part.query, lambda: part.rows(query_rows(sql, session, evaluate)), source, sparse=part.sparse)
        return replace(result, remark=part.remark), versions.have_changed

    return compare_undisturbed(compare)


def verify_tree_range(
    query: TreeQuery,
    start: int,
    end: int,
    rows: Callable[[], pa.Table],
    scope: TreeScope,
    context: Context,
    *,
    sparse: bool = False,
) -> VerificationResult:
    """Compare rows with what a query over trees, without its INTO, returns for the ticks `[start, end)`.

    If the query groups by time without a range, `[start, end)` is its range; otherwise only rows of these instants count. `rows`
    returns those to compare, in columns named as those of the query's result. If they are `sparse`, such as those that were written
    to series, a row without any value may be missing.

    Raises:
        NotSupportedError: The query uses something that verify does not support.
    """
    restricted = within(replace(query, into=()), start, end)
    return verify_tree(restricted, rows, tree_source(scope, context), sparse=sparse)


def tree_source(scope: TreeScope, context: Context, versions: Versions | None = None) -> TreeSource:
    """Return what the paths of a query match."""
    if any(source.subtables for source in scope.tables.values()):
        raise NotSupportedError("verify does not support tables of the tdengine dialect", hint="verify the query in that dialect")
    rows = {
        name: TreeRows(
            source.database, source.table, partial(read_rows, versions or Versions(context), source.table, source.database)
        )
        for name, source in scope.tables.items()
    }
    limits = {}
    for device in scope.tree.devices:
        if (ttl := scope.ttl_ms.get(device.path)) is not None:
            limits[device.path] = first_live_tick(scope.now, ttl, scope.tables[device.database].database.precision)
    return TreeSource(scope.tree.devices, rows, scope.timezone, limits)


def read_rows(
    versions: Versions,
    table: Table,
    database: Database,
    columns: Sequence[str],
    devices: Sequence[str],
    bounds: tuple[int, int],
) -> pa.Table:
    """Return the stored rows of devices within a range of ticks."""
    versions.record(table)
    names, limits = [table.timestamp.name, table.series_key, *columns], Bounds.of_ticks(*bounds, database.precision)
    return versions.context.tables.scan(table, columns=names, tbnames=devices, bounds=limits)
