"""SELECT over trees: its paths are looked up in the catalog, then it is bound; INTO adds the writing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from headrace.errors import ProgrammingError
from headrace.model.access import Privilege
from headrace.model.tree_queries import TreeQuery
from headrace.model.tree_statements import TreeSelect
from headrace.service.describing import describe_query, explain_plan
from headrace.service.results import INSTANT, INT, STRING, CatalogRows, Result
from headrace.service.rights import Right, on_paths
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.queries import DESCRIBE_CATALOG, read_catalog, run_query
from headrace.sql.iotdb.status import SEMANTIC_ERROR

if TYPE_CHECKING:
    from headrace.compute.iotdb.by_tags import TagPlan
    from headrace.compute.iotdb.into import IntoColumn
    from headrace.compute.iotdb.last import LastPlan
    from headrace.compute.iotdb.select import TreePlan


def find_last(plan: LastPlan, reads: tuple[Right, ...]) -> Stage:
    def apply(session: SessionState) -> Result:
        from headrace.compute.iotdb.last import last_points, last_points_locally
        from headrace.queries import running
        from headrace.queries.evaluation import read_scan, translated
        from headrace.queries.local_rows import LocalReader
        from headrace.storage.spark.arrow_results import collect_arrow

        context = session.context
        points = last_points_locally(plan, LocalReader(context), context.settings.local_rows)
        if points is not None:
            return Result(points)
        context.spark()
        with translated():
            return Result(collect_arrow(last_points(plan, lambda scan: read_scan(scan, context)), running.check))

    return Stage(reads, lambda: [f"find the latest point of {len(plan.series)} series"], apply, is_query=True)


def group_by_tags(plan: TagPlan, reads: tuple[Right, ...]) -> Stage:
    """Run a query whose rows are groups of series."""

    def apply(session: SessionState) -> Result:
        from headrace.queries.evaluation import evaluate_query

        return Result(plan.finish(evaluate_query(plan.plan, session.context)))

    def describe() -> list[str]:
        return ["query on Spark", *explain_plan(plan.plan), f"groups by tags {', '.join(plan.keys)}: {len(plan.groups)}"]

    return Stage(reads, describe, apply, is_query=True)


def write_into(plan: TreePlan, targets: Sequence[IntoColumn], reads: tuple[Right, ...]) -> Stage:
    """Run a query and write each column of its result to a series, or with ALIGN BY DEVICE each column of each device."""

    def apply(session: SessionState) -> Result:
        from headrace.queries.into import compute_into
        from headrace.trees.points import write_points

        with closing(compute_into(session.context, plan, targets)) as written:
            write_points(session.context, [written])
        # Without any row IoTDB lists no target.
        rows = list(zip(targets, written.counts, strict=True)) if written.has_rows else []
        return report(rows, by_device=plan.query.by_device)

    def describe() -> list[str]:
        return [*describe_query(plan.plan), *(f"write {target.source} to {target.path}" for target in targets)]

    writes = on_paths(Privilege.WRITE_DATA, (target.path for target in targets))
    return Stage((*reads, *writes), describe, apply)


def plan_tree_select(statement: TreeSelect, session: PlanningContext) -> list[Stage]:
    """Plan a query, and with INTO the writing of its result. An error has the status of a semantic error, unless it has another."""
    try:
        return query_stages(statement.query, session)
    except ProgrammingError as error:
        raise error.with_status(SEMANTIC_ERROR) from None


def query_stages(query: TreeQuery, session: PlanningContext) -> list[Stage]:
    from headrace.compute.iotdb.binding import bind_tree
    from headrace.compute.iotdb.by_tags import TagQuery
    from headrace.compute.iotdb.into import check_into, into_targets
    from headrace.compute.iotdb.last import bind_last
    from headrace.trees.scope import series_patterns, tree_scope

    if query.into:
        check_into(query)
    reads = on_paths(Privilege.READ_DATA, series_patterns(query)) or DESCRIBE_CATALOG
    scope, tags = tree_scope(query, session.context), grouped_tags(query)
    if query.last:
        last = bind_last(query, scope)
        return [no_series("Timeseries", "Value", "DataType") if last is None else find_last(last, reads)]
    if tags:
        grouped = TagQuery(query, scope, tags).plan()
        return [no_series() if grouped is None else group_by_tags(grouped, reads)]
    bound = bind_tree(query, scope)
    if query.into and bound is None:
        nothing = report([], by_device=False)
        return [Stage(reads, lambda: ["query of no series: nothing to write"], lambda _: nothing)]
    if bound is None:
        return [no_series()]
    return [write_into(bound, into_targets(query, bound), reads) if query.into else run_query(bound.plan, reads)]


def grouped_tags(query: TreeQuery) -> tuple[str, ...]:
    """Return the tags of GROUP BY; GROUP BY LEVEL takes precedence."""
    return () if query.grouping is None or query.grouping.levels else query.grouping.tags


def no_series(*names: str) -> Stage:
    """Return the stage of a query whose paths match no series, with a column for time and for each name."""
    columns = {"Time": INSTANT, **dict.fromkeys(names, STRING)}
    return read_catalog("a query of no series", lambda: Result(CatalogRows(columns, [])), DESCRIBE_CATALOG)


def report(rows: Sequence[tuple[IntoColumn, int]], *, by_device: bool) -> Result:
    columns = {"SourceColumn": STRING, "TargetTimeseries": STRING, "Written": INT}
    values = [(target.source, target.path, count) for target, count in rows]
    if not by_device:
        return Result(CatalogRows(columns, values))
    with_device = [(target.source_device, *value) for (target, _), value in zip(rows, values, strict=True)]
    return Result(CatalogRows({"SourceDevice": STRING, **columns}, with_device))
