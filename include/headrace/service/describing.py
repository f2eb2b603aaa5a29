"""What the descriptions of stages share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.compute import AnyPlan


def indent(lines: Sequence[str]) -> list[str]:
    """Indent each line by two spaces."""
    return [f"  {line}" for line in lines]


def explain_plan(plan: AnyPlan) -> list[str]:
    """Return a query's plan, one line per step."""
    from headrace.compute import explain

    return indent(explain(plan))


def describe_query(plan: AnyPlan) -> list[str]:
    """Describe the evaluation of a query, and where it takes place."""
    from headrace.compute.columnar.near import is_supported

    place = "in this process with Arrow, or on Spark if it reads many rows" if is_supported(plan) else "on Spark"
    return [f"query {place}{kernels(plan)}", *explain_plan(plan)]


def kernels(plan: AnyPlan) -> str:
    """Describe what computes the windows of a query on Spark."""
    from headrace.compute import Plan, Scan
    from headrace.compute.evaluation.kernel_windows import unsupported_by_kernels
    from headrace.streams.sources.shares import MIN_ROWS

    if not isinstance(plan, Plan) or (plan.window is None and not isinstance(plan.source, Plan)):
        return ""
    if plan.window is None or not isinstance(plan.source, Scan):
        return kernels(plan.source) if isinstance(plan.source, Plan) else ""
    reason = unsupported_by_kernels(plan)
    return f", windows by kernels from {MIN_ROWS:,} rows on" if reason is None else f", windows by Spark SQL: {reason}"


def format_instant(ms: int) -> str:
    """Return an instant in epoch milliseconds as text, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(sep=" ")
