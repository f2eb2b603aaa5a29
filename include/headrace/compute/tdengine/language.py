"""The TDengine language as `bind` uses it."""

from __future__ import annotations

from typing import Final

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.language import Language, NullRules, Operators, PseudoColumns, function_table
from headrace.compute.tdengine import limits, operators
from headrace.compute.tdengine.aggregates import TABLE
from headrace.compute.tdengine.assignment import assign
from headrace.compute.tdengine.comparisons import COMPARISONS
from headrace.compute.tdengine.conversions import common_type, convert, convert_to, truth
from headrace.compute.tdengine.lists import LIST_TABLE
from headrace.compute.tdengine.scalars import MATH_TABLE, TEXT_TABLE
from headrace.compute.tdengine.scalars_time import TIME_TABLE
from headrace.compute.tdengine.series import SERIES_TABLE
from headrace.model.queries import CountClause, EventClause, IntervalClause, SessionClause, StateClause
from headrace.model.tables import TBNAME

TESTS: Final = frozenset((*COMPARISONS, "like", "not like", "match", "nmatch", "in", "not in", "between", "not between"))


TDENGINE: Final = Language(
    name="tdengine",
    functions=function_table(*TABLE, *LIST_TABLE, *MATH_TABLE, *TEXT_TABLE, *TIME_TABLE, *SERIES_TABLE),
    operators=Operators(
        unary=operators.UNARY,
        binary=operators.BINARY,
        comparisons=frozenset(COMPARISONS),
        instant=operators.timestamp,
        truth=truth,
        cast=convert_to,
        common_type=common_type,
        convert=convert,
        assign=assign,
    ),
    pseudo_columns=PseudoColumns(
        row_time=("_rowts", "_c0"),
        series=TBNAME,
        window_start="_wstart",
        window_end="_wend",
        window_duration="_wduration",
        point_time="_irowts",
        point_filled="_isfilled",
        query_start="_qstart",
        query_end="_qend",
        query_duration="_qduration",
    ),
    present={"now": ExpressionContext.now, "today": ExpressionContext.today},
    windows={
        IntervalClause: limits.interval_window,
        SessionClause: limits.session_window,
        StateClause: limits.state_window,
        EventClause: limits.event_window,
        CountClause: limits.count_window,
    },
    nulls=NullRules(shown_false=TESTS, sorts_lowest=True),
    star_functions=frozenset(("last_row", "last", "first")),
    counting_aggregates=frozenset(("count", "hyperloglog")),
    interpolation="interp",
)
