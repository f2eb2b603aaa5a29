"""Every function of the library takes series that are empty, short, constant, or have no finite value."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Final

import pytest

from headrace.udf import UDTF, ParameterError
from tests.library.calls import compute

FAMILIES: Final = ("profiling", "quality", "repair")
FUNCTIONS: Final[dict[str, type[UDTF]]] = {
    name: function for family in FAMILIES for name, function in import_module(f"headrace.library.{family}").FUNCTIONS.items()
}
REQUIRED: Final = {"UDTFResample": {"every": "1s"}, "UDTFSpline": {"points": "3"}}
SERIES: Final = {
    "empty": [],
    "one point": [1.5],
    "two points": [1.5, 2.5],
    "one NaN": [math.nan],
    "special values": [math.nan, math.inf] * 8,
    "constant": [3.0] * 20,
    "NaN first and last": [math.nan, *(float(value * value % 7) for value in range(20)), math.nan],
}
FAR: Final = [*range(0, 20_000, 1_000), 10**15]
"""Times that do not end for thirty thousand years."""
NEEDS_TWO_VALUES: Final = {("UDTFValueRepair", name) for name in ("one point", "one NaN", "special values")}


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_unusual_series_gives_points_or_a_clear_error(name: str, series: str) -> None:
    attributes = REQUIRED.get(name, {})
    if (name, series) in NEEDS_TWO_VALUES:
        with pytest.raises(ParameterError, match="At least two non-NaN values"):
            compute(FUNCTIONS[name], SERIES[series], **attributes)
        return
    points = compute(FUNCTIONS[name], SERIES[series], **attributes)
    assert len({time for time, _ in points}) == len(points)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("attributes", [{}, {"window": "40000ms"}, {"interval": "1"}])
def test_a_gap_of_years_costs_no_more_than_its_points(name: str, attributes: dict[str, str]) -> None:
    values = [float(value * value % 7) for value in range(len(FAR))]
    try:
        points = compute(FUNCTIONS[name], values, FAR, **REQUIRED.get(name, {}), **attributes)
    except ParameterError:  # it takes too many steps, or does not take the attribute
        points = []
    assert len(points) <= 100


@pytest.mark.parametrize("method", ["linear", "previous", "mean", "ar", "screen", "likelihood"])
@pytest.mark.parametrize("series", SERIES)
def test_filling_keeps_finite_values(method: str, series: str) -> None:
    values = SERIES[series]
    if method in {"mean", "ar"} and values and not any(map(math.isfinite, values)):
        with pytest.raises(ParameterError, match="All values are NaN"):
            compute(FUNCTIONS["UDTFValueFill"], values, method=method)
        return
    filled = compute(FUNCTIONS["UDTFValueFill"], values, method=method)
    assert len(filled) == len(values)
    assert all(value == original for (_, value), original in zip(filled, values, strict=True) if math.isfinite(original))
