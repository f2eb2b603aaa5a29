"""The IoTDB language: the tables and rules that the binder needs."""

from __future__ import annotations

from typing import Final

from headrace.compute.expression_context import ExpressionContext
from headrace.compute.iotdb import operators
from headrace.compute.iotdb.aggregates import TABLE
from headrace.compute.iotdb.conversions import convert_to
from headrace.compute.iotdb.jexl import JEXL
from headrace.compute.iotdb.master_repair import MASTER_REPAIR
from headrace.compute.iotdb.samples import WHOLE_SERIES_TABLE
from headrace.compute.iotdb.scalars import MATH_TABLE, TEXT_TABLE
from headrace.compute.iotdb.series import SERIES_TABLE
from headrace.compute.iotdb.windows import WINDOWS
from headrace.compute.language import Language, NullRules, Operators, PseudoColumns, function_table
from headrace.model.tables import DEVICE

WINDOW_START: Final = "__startTime"
WINDOW_END: Final = "__endTime"


IOTDB: Final = Language(
    name="iotdb",
    functions=function_table(*TABLE, *MATH_TABLE, *TEXT_TABLE, JEXL, *SERIES_TABLE, *WHOLE_SERIES_TABLE, MASTER_REPAIR),
    operators=Operators(
        unary=operators.UNARY,
        binary=operators.BINARY,
        comparisons=frozenset(operators.COMPARISONS),
        instant=operators.instant,
        truth=operators.truth,
        cast=convert_to,
        common_type=operators.common_type,
        convert=operators.convert,
        choice=operators.choice,
    ),
    pseudo_columns=PseudoColumns(row_time=("time",), series=DEVICE, window_start=WINDOW_START, window_end=WINDOW_END),
    present={"now": ExpressionContext.now},
    windows=WINDOWS,
    nulls=NullRules(sorts_lowest=False, bounds_between=True),
    counting_aggregates=frozenset(function.name for function in TABLE),
    orders_zeros=True,
)
