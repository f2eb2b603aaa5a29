"""Plans and their evaluation: a bound query and DataFrames in, DataFrames out.

`bind` needs no Spark; the other functions build lazy data frames. Only `evaluate` starts Spark jobs, and only if it has statistics
about large tables.
"""

from headrace.compute.binding.scope import Relation, Scope, SeriesNames, SeriesPattern
from headrace.compute.binding.select import bind
from headrace.compute.evaluate import aggregate_windows, evaluate, project
from headrace.compute.explain import explain
from headrace.compute.language import Language, language
from headrace.compute.plan import AnyPlan, Plan, UnionPlan
from headrace.compute.plan_clauses import Key, Output
from headrace.compute.plan_sources import Scan
from headrace.compute.shares import StatisticsProvider, TableStatistics
from headrace.compute.windows.segments import finish, merge, prepare, to_segments

__all__ = [
    "AnyPlan",
    "Key",
    "Language",
    "Output",
    "Plan",
    "Relation",
    "Scan",
    "Scope",
    "SeriesNames",
    "SeriesPattern",
    "StatisticsProvider",
    "TableStatistics",
    "UnionPlan",
    "aggregate_windows",
    "bind",
    "evaluate",
    "explain",
    "finish",
    "language",
    "merge",
    "prepare",
    "project",
    "to_segments",
]
