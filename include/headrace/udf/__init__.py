"""The API of functions that users write: `UDTF` for functions of series, `UDAF` for aggregates.

Names follow IoTDB's Java API in Python's spelling, so that a function is ported line by line. This package is all that user code
and Headrace's own function library import; it depends on Arrow alone, and is loaded in code hosts without the rest of Headrace.
"""

from headrace.udf.bit_maps import BitMap
from headrace.udf.collectors import PointCollector
from headrace.udf.columns import Column, ResultValue
from headrace.udf.functions import UDAF, UDTF, State, UDAFConfigurations, UDTFConfigurations
from headrace.udf.parameters import ParameterError, Parameters, Validator
from headrace.udf.rows import Row, RowWindow
from headrace.udf.strategies import (
    AccessStrategy,
    MappableRowByRowAccessStrategy,
    RowByRowAccessStrategy,
    SessionTimeWindowAccessStrategy,
    SlidingSizeWindowAccessStrategy,
    SlidingTimeWindowAccessStrategy,
    StateWindowAccessStrategy,
)
from headrace.udf.types import Type

__all__ = [
    "UDAF",
    "UDTF",
    "AccessStrategy",
    "BitMap",
    "Column",
    "MappableRowByRowAccessStrategy",
    "ParameterError",
    "Parameters",
    "PointCollector",
    "ResultValue",
    "Row",
    "RowByRowAccessStrategy",
    "RowWindow",
    "SessionTimeWindowAccessStrategy",
    "SlidingSizeWindowAccessStrategy",
    "SlidingTimeWindowAccessStrategy",
    "State",
    "StateWindowAccessStrategy",
    "Type",
    "UDAFConfigurations",
    "UDTFConfigurations",
    "Validator",
]
