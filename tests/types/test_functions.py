"""Every function of every type that it takes returns the values that DuckDB computes, and refuses other types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

import headrace
from headrace.compute.functions.aggregates import AggregateFunction
from headrace.compute.functions.scalars import ScalarFunction
from headrace.compute.language import language
from tests.support.drawing import drawn
from tests.types.house import House
from tests.types.judging import differences
from tests.types.values import TDENGINE

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "apercentile": ("50",),
    "concat": ("'x'",),
    "concat_ws": ("'-'", "'x'"),
    "find_in_set": ("'a,b'",),
    "greatest": ("1",),
    "histogram": ("'user_input'", "'[-1, 0, 1]'", "0"),
    "least": ("1",),
    "leastsquares": ("1", "1"),
    "mod": ("3",),
    "percentile": ("50",),
    "position": ("'a'",),
    "pow": ("0.5",),
    "power": ("0.5",),
    "repeat": ("2",),
    "replace": ("'a'", "'b'"),
    "substr": ("2",),
    "substring": ("2",),
    "substring_index": ("'_'", "1"),
    "timediff": ("'2024-01-01'", "1h"),
    "timetruncate": ("1d",),
    "to_char": ("'yyyy-mm-dd'",),
    "to_timestamp": ("'yyyy-mm-dd'",),
    "trunc": ("1",),
    "truncate": ("1",),
}
"""What follows the column in a call, of functions with more than one argument."""
NOT_COMPARED: Final = frozenset(("rand", "pi", "timezone"))
"""Functions of no column."""
SQUARES: Final = frozenset(("stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"))
"""Functions of squares. Those of the greatest DOUBLE are infinite, and what is computed with them differs between engines."""
CALLED: Final = [
    function.name
    for function in language("tdengine").functions.values()
    if isinstance(function, ScalarFunction | AggregateFunction)
    and function.name not in NOT_COMPARED
    and (function.min_arguments <= 1 or function.name in ARGUMENTS)
    and not function.name.startswith("_")
]


def accepted(house: House, function: str) -> Iterator[str]:
    """Yield the calls of a function with each column, unless EXPLAIN refuses it for its type."""
    for type_ in TDENGINE:
        if type_.sql == "DOUBLE" and function in SQUARES:
            continue
        call = f"{function}({', '.join((type_.name, *ARGUMENTS.get(function, ())))})"
        try:
            house.rows(f"explain select {call} from literals")
        except headrace.ProgrammingError:
            continue
        yield call


@pytest.mark.drawn(2)
@pytest.mark.parametrize("function", drawn(CALLED, "functions of types", 6))
def test_functions_compute_the_same_as_duckdb(table: House, function: str) -> None:
    calls = list(accepted(table, function))
    assert calls
    assert not differences(table.connection, "literals", calls)
