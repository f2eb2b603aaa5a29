"""What is settled only when a plan runs."""

from __future__ import annotations

from headrace.compute.plan import Plan
from headrace.compute.terms import NOW, ticks


def run(plan: Plan, sql: str | None) -> str:
    """A term's text with the plan's present in it."""
    return "true" if sql is None else sql.replace(NOW, ticks(plan.present))
