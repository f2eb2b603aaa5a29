"""Every function of IoTDB, of every type of series that it takes, returns what DuckDB computes, and refuses other types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

import headrace
from headrace.compute.language import language
from tests.support.drawing import drawn
from tests.types.house import House
from tests.types.judging import differences
from tests.types.values import TREE

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

ARGUMENTS: Final = {
    "bottom_k": "'k'='2'",
    "concat": "'target1'='x'",
    "const": "'value'='7', 'type'='INT32'",
    "endswith": "'target'='a'",
    "equal_size_bucket_agg_sample": "'proportion'='0.5', 'type'='avg'",
    "equal_size_bucket_m4_sample": "'proportion'='1'",
    "equal_size_bucket_outlier_sample": "'proportion'='0.5', 'type'='avg', 'number'='1'",
    "in_range": "'lower'='0', 'upper'='10'",
    "locate": "'target'='a'",
    "m4": "'windowSize'='2'",
    "max_by": "i32",
    "min_by": "i32",
    "on_off": "'threshold'='1'",
    "replace": "'a', 'b'",
    "round": "1",
    "startswith": "'target'='a'",
    "strcmp": "s",
    "string_contains": "'s'='a'",
    "string_matches": "'regex'='a.*'",
    "substring": "2",
    "top_k": "'k'='2'",
}
"""What follows the series in a call."""
NOT_CALLED: Final = frozenset(("count_if", "count_time", "equal_size_bucket_random_sample", "jexl", "master_repair"))
"""Functions of conditions, of times, of chance, of code, and of several series of a kind."""
CALLED: Final = [name for name in language("iotdb").functions if name not in NOT_CALLED]


def accepted(house: House, device: str, function: str) -> Iterator[str]:
    """Yield the calls of a function with each series, unless EXPLAIN refuses it for its type."""
    for type_ in TREE:
        call = f"{function}({', '.join(filter(None, (type_.name, ARGUMENTS.get(function))))})"
        try:
            house.tree.execute(f"explain select {call} from {device}")
        except headrace.ProgrammingError:
            continue
        yield call


@pytest.mark.drawn(2)
@pytest.mark.parametrize("function", drawn(CALLED, "functions of types of IoTDB", 6))
def test_functions_compute_the_same_as_duckdb(devices: House, function: str) -> None:
    calls = list(accepted(devices, "root.m.literals", function))
    assert calls
    assert not differences(devices.tree, "root.m.literals", calls)
