"""The functions of IoTDB 1.3, with the attributes that random calls give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NUMBERS: Final = ("INT32", "INT64", "FLOAT", "DOUBLE")
MATH: Final = [
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "degrees",
    "radians",
    "abs",
    "sign",
    "ceil",
    "floor",
    "exp",
    "ln",
    "log10",
    "sqrt",
]
NUMERIC_AGGREGATES: Final = ["avg", "sum", "extreme", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"]
AGGREGATES: Final = [
    "count",
    "max_value",
    "min_value",
    "first_value",
    "last_value",
    "max_time",
    "min_time",
    "time_duration",
    "mode",
]
TWO_ARGUMENT_AGGREGATES: Final = ("max_by", "min_by")

Choices = Mapping[str, tuple[str, ...]]

SERIES_FUNCTIONS: Final[Mapping[str, Choices]] = {
    "difference": {},
    "non_negative_difference": {},
    "time_difference": {},
    "derivative": {},
    "non_negative_derivative": {},
    "diff": {"?ignoreNull": ("true", "false")},
    "top_k": {"k": ("1", "3", "50", "0", "1001")},
    "bottom_k": {"k": ("1", "4", "50")},
    "in_range": {"lower": ("1", "-2.5", "9"), "upper": ("5", "8.5")},
    "on_off": {"threshold": ("3", "0", "2.5")},
    "zero_duration": {"?min": ("1000", "0"), "?max": ("5000",)},
    "non_zero_duration": {"?min": ("1000", "5"), "?max": ("20000",)},
    "zero_count": {"?min": ("1", "2"), "?max": ("3",)},
    "non_zero_count": {"?min": ("1", "3"), "?max": ("4", "2")},
    "m4": {"windowSize": ("6", "4"), "?slidingStep": ("3", "6", "8")},
    "M4": {
        "timeInterval": ("10000", "25000"),
        "?slidingStep": ("5000", "20000"),
        "?displayWindowBegin": ("1700000000000", "1700000005000"),
        "?displayWindowEnd": ("1700000040000", "1700000060000"),
    },
    "equal_size_bucket_m4_sample": {"?proportion": ("0.4", "0.2", "1", "0")},
    "equal_size_bucket_agg_sample": {
        "proportion": ("0.2", "0.5", "0.1"),
        "?type": ("avg", "max", "min", "sum", "extreme", "variance", "median"),
    },
    "equal_size_bucket_outlier_sample": {
        "proportion": ("0.2", "0.5", "0.1"),
        "?type": ("avg", "stendis", "cos", "prenextdis"),
        "?number": ("2", "1", "3"),
    },
    "jexl": {"expr": ("x -> {x + 1}", "x -> {x * 2 - 1}", "(x) -> {x / 2.0}", "x -> {x > 3 ? 1 : 0}", "x -> {x % 3}")},
    "master_repair": {"?k": ("2",), "?omega": ("0.1",)},
    "const": {"value": ("7", "1.5"), "type": ("INT32", "DOUBLE", "TEXT", "INT64", "FLOAT")},
    "pi": {},
    "e": {},
    "change_points": {},
}
"""Functions of a series by attribute, with values to choose from; an attribute that begins with `?` is optional."""

TEXT_FUNCTIONS: Final[Mapping[str, Choices]] = {
    "string_contains": {"s": ("o", "x y", "")},
    "string_matches": {"regex": ("o.*", "[a-z ]+", "\\\\d+")},
    "length": {},
    "locate": {"target": ("f", "o", "zz"), "?reverse": ("true", "false")},
    "startswith": {"target": ("o", "I")},
    "endswith": {"target": ("f", "e", "")},
    "concat": {"?target1": ("-", "IoT"), "?target2": ("!",), "?series_behind": ("true", "false")},
    "upper": {},
    "lower": {},
    "trim": {},
    "strcmp": {},
    "change_points": {},
}
TWO_TEXTS: Final = ("concat", "strcmp")
