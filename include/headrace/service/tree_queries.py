"""Running queries over trees whose results are more than rows: the latest points, and INTO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.queries import running
from headrace.queries.evaluation import read_scan, translated
from headrace.queries.local_reads import LocalReader
from headrace.service.results import INT, STRING, CatalogRows, Result
from headrace.service.tree_stages import FindLast, WriteInto
from headrace.storage.spark.arrow_results import collect_arrow

if TYPE_CHECKING:
    from headrace.compute.iotdb.into import IntoColumn
    from headrace.runtime.context import Context


def find_last(stage: FindLast, context: Context) -> Result:
    """Return the latest point of each series."""
    from headrace.compute.iotdb.last import last_points
    from headrace.compute.iotdb.last_local import last_points_locally

    points = last_points_locally(stage.plan, LocalReader(context), context.settings.local_rows)
    if points is not None:
        return Result(points)
    context.spark()
    with translated():
        return Result(collect_arrow(last_points(stage.plan, lambda scan: read_scan(scan, context)), running.check))


def write_into(stage: WriteInto, context: Context) -> Result:
    """Run the query and write its columns; report how many values each target got."""
    if stage.plan is None:
        return report([], by_device=False)
    from headrace.queries import into

    written = into.write_into(context, stage.plan, stage.targets)
    # Without any row IoTDB lists no target.
    rows = list(zip(stage.targets, written.counts, strict=True)) if written.has_rows else []
    return report(rows, by_device=stage.plan.query.by_device)


def report(rows: Sequence[tuple[IntoColumn, int]], *, by_device: bool) -> Result:
    """Return how many values were written to each target."""
    columns = {"SourceColumn": STRING, "TargetTimeseries": STRING, "Written": INT}
    values = [(target.source, target.path, count) for target, count in rows]
    if not by_device:
        return Result(CatalogRows(columns, values))
    with_device = [(target.source_device, *value) for (target, _), value in zip(rows, values, strict=True)]
    return Result(CatalogRows({"SourceDevice": STRING, **columns}, with_device))
