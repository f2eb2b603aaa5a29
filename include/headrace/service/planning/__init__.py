"""From statements to stages."""

from headrace.service.planning import queries, rows, shows, streams, tables
from headrace.service.planning.dispatch import Surroundings, plan

__all__ = ["Surroundings", "plan", "queries", "rows", "shows", "streams", "tables"]
