"""The operators of the processor that aggregates: from what is kept of a window to a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.model.types import BIGINT, DOUBLE, DataType
from headrace.pipes.processors.aggregate_partials import ENDS, SHIFTED, Partials
from headrace.pipes.processors.grouping import Array


@dataclass(frozen=True, slots=True)
class Operator:
    """An aggregate.

    Attributes:
        compute: Computes it from partials.
        needs: The figures that it needs.
        result: The type of its results; None for that of the series.
        is_numeric: Whether it is defined for numbers alone.
        summary: What it is, for the documentation.
    """

    compute: Callable[[Partials], Array]
    needs: tuple[str, ...]
    result: DataType | None
    is_numeric: bool
    summary: str

    def type_for(self, type_: DataType, arrow: pa.DataType) -> tuple[DataType, pa.DataType]:
        """Return the type of the results for series of some type."""
        if self.result is None:
            return type_, arrow
        return self.result, pa.int64() if self.result == BIGINT else pa.float64()


def numeric(compute: Callable[[Partials], Array], needs: Iterable[str], summary: str) -> Operator:
    """Return an operator of numbers with a DOUBLE as its result."""
    return Operator(compute, tuple(needs), DOUBLE, True, summary)


def same_type(compute: Callable[[Partials], Array], needs: Iterable[str], summary: str, is_numeric: bool = True) -> Operator:
    """Return an operator whose results have the type of the series."""
    return Operator(compute, tuple(needs), None, is_numeric, summary)


def mean_square(figures: Partials) -> Array:
    return figures["squares"] / figures["count"]


def mean_magnitude(figures: Partials) -> Array:
    return figures["magnitudes"] / figures["count"]


def magnitude(values: Array) -> Array:
    """Return absolute values; that of the least integer, which has none, is the greatest integer."""
    return np.abs(np.maximum(values, -np.iinfo(values.dtype).max) if values.dtype.kind == "i" else values)


def peak(figures: Partials) -> Array:
    return np.maximum(magnitude(figures["min"]), magnitude(figures["max"]))


def peak_number(figures: Partials) -> Array:
    """Return the peak as a float, whatever the type of the series."""
    return peak(figures).astype(np.float64)


def extreme(figures: Partials) -> Array:
    return np.where(magnitude(figures["max"]) >= magnitude(figures["min"]), figures["max"], figures["min"])


def moment(figures: Partials, power: int) -> Array:
    """Return a central moment, of power 2, 3 or 4."""
    first, second, third, fourth = (figures[f"shifted{number}"] / figures["count"] for number in range(1, 5))
    if power == 2:
        return np.maximum(second - first**2, 0)
    if power == 3:
        return third - 3 * first * second + 2 * first**3
    return fourth - 4 * first * third + 6 * first**2 * second - 3 * first**4


PEAK_NEEDS: Final = ("min", "max")
OPERATORS: Final[dict[str, Operator]] = {
    "avg": numeric(lambda of: of["sum"] / of["count"], ["sum"], "the mean"),
    "ce": numeric(
        lambda of: peak_number(of) / (of["roots"] / of["count"]) ** 2,
        [*PEAK_NEEDS, "roots"],
        "the clearance factor: `peak` by the squared mean of √\\|x\\|",
    ),
    "cf": numeric(
        lambda of: peak_number(of) / np.sqrt(mean_square(of)), [*PEAK_NEEDS, "squares"], "the crest factor: `peak` by `rms`"
    ),
    "count": Operator(lambda of: of["count"], (), BIGINT, False, "the number of points"),
    "extreme": same_type(extreme, PEAK_NEEDS, "the value with the greatest magnitude"),
    "ff": numeric(
        lambda of: np.sqrt(mean_square(of)) / mean_magnitude(of),
        ["squares", "magnitudes"],
        "the form factor: `rms` by the mean of \\|x\\|",
    ),
    "first": same_type(lambda of: of["first"], ENDS, "the first value by time", is_numeric=False),
    "kurt": numeric(lambda of: moment(of, 4) / moment(of, 2) ** 2, SHIFTED, "the kurtosis"),
    "last": same_type(lambda of: of["last"], ENDS, "the last value by time", is_numeric=False),
    "max": same_type(lambda of: of["max"], ["max"], "the greatest value"),
    "min": same_type(lambda of: of["min"], ["min"], "the least value"),
    "peak": same_type(peak, PEAK_NEEDS, "the greatest magnitude"),
    "pf": numeric(
        lambda of: peak_number(of) / mean_magnitude(of),
        [*PEAK_NEEDS, "magnitudes"],
        "the pulse factor: `peak` by the mean of \\|x\\|",
    ),
    "rms": numeric(lambda of: np.sqrt(mean_square(of)), ["squares"], "the root of the mean square"),
    "skew": numeric(lambda of: moment(of, 3) / moment(of, 2) ** 1.5, SHIFTED, "the skewness"),
    "sum": numeric(lambda of: of["sum"], ["sum"], "the sum"),
    "var": numeric(lambda of: moment(of, 2), SHIFTED, "the variance of the points as a whole population"),
}
"""All operators by name."""
