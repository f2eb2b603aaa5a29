"""EXPLAIN ANALYZE: a query's plan, and what it did when it ran."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.queries.analysis import BYTES, FILES, Operator, QueryAnalysis
from headrace.service.describing import describe_query

if TYPE_CHECKING:
    from headrace.compute import AnyPlan


def analysis_lines(plan: AnyPlan, analysis: QueryAnalysis, planning_ms: float, *, verbose: bool) -> list[str]:
    operators = operator_lines(analysis) if verbose else ()
    times = [f"Planning Time: {planning_ms:.3f} ms", f"Execution Time: {analysis.seconds * 1000:.3f} ms"]
    return [*describe_query(plan), *execution_lines(analysis), *operators, *times]


def execution_lines(analysis: QueryAnalysis) -> Iterator[str]:
    how = "this process, with Arrow"
    if analysis.operators:
        how = f"kernels in {counted(analysis.kernel_tasks, 'task')} of Spark" if analysis.kernel_tasks else "Spark SQL"
    yield f"computed by {how}: {counted(analysis.rows, 'row')}"
    if analysis.rows_read:
        yield f"read by this process: {counted(analysis.rows_read, 'row')}"
    if analysis.kernel_tasks:
        yield f"read by kernels: row groups of {counted(analysis.kernel_files, 'file')}"
    if scans := analysis.scans:
        rows, files, size = (sum(values) for values in zip(*map(read_by, scans), strict=True))
        yield f"read by Spark: {counted(rows, 'row')} of {counted(files, 'file')}, {size:,} bytes"


def read_by(scan: Operator) -> tuple[int, int, int]:
    """Return the rows, files and bytes that a scan has read."""
    return scan.rows or 0, scan.metrics[FILES], scan.metrics.get(BYTES, 0)


def operator_lines(analysis: QueryAnalysis) -> Iterator[str]:
    """Yield the operators of Spark, indented by their depth."""
    for operator in analysis.operators:
        parts = [] if operator.rows is None else [f"rows={operator.rows}"]
        parts += [
            f"{name}={operator.metrics[key]}" for name, key in (("files", FILES), ("bytes", BYTES)) if key in operator.metrics
        ]
        parts += [] if operator.milliseconds is None else [f"time={operator.milliseconds} ms"]
        metrics = f" ({', '.join(parts)})" if parts else ""
        yield f"{'   ' * operator.depth}-> {operator.name}{metrics}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
