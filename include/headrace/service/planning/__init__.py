"""Plan statements: turn each into a list of stages."""

from headrace.service.planning.dispatch import PlanningContext, plan

__all__ = ["PlanningContext", "plan"]
