"""From statements to stages."""

from headrace.service.planning.dispatch import Surroundings, plan

__all__ = ["Surroundings", "plan"]
