"""From statements to stages."""

from headrace.service.planning.dispatch import PlanningContext, plan

__all__ = ["PlanningContext", "plan"]
