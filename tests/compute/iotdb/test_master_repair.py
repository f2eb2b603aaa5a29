"""MASTER_REPAIR: the figures are what a running server 1.3.4 answers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.errors import DataError, TypeMismatchError
from tests.compute.iotdb.test_whole_series import applied, points_of_series

TIMES = [1, 2, 3, 4, 7, 8, 9, 10]
SERIES = [
    [1704.0, 1702.0, 1702.0, 1701.0, 1703.0, 1694.0, 1705.0, 1706.0],
    [1154.55, 1152.30, 1148.65, 1145.20, 1150.55, 1151.55, 1153.55, 1152.30],
    [0.195, 0.193, 0.192, 0.194, 0.195, 0.193, 0.194, 0.190],
]
MASTER = [[1704.0 if value == 1694.0 else value for value in SERIES[0]], *SERIES[1:]]


def repaired(series: list[list[float | None]], times: list[int], **attributes: object) -> list[tuple[int, float]]:
    rule = applied("master_repair", *["DOUBLE"] * len(series), **attributes)
    columns = {f"x{number}": pa.array(values, pa.float64()) for number, values in enumerate(series)}
    results = points_of_series(rule, pa.table({"time": pa.array(times, pa.int64()), **columns}))
    return list(zip(results["time"].to_pylist(), results["value"].to_pylist(), strict=True))


def test_a_value_far_from_the_master_data_is_repaired() -> None:
    columns: list[list[float | None]] = [*SERIES, *MASTER]  # type: ignore[list-item]
    first, second = repaired(columns, TIMES), repaired(columns, TIMES, output_column=2)
    assert [value for _, value in first] == [1704.0, 1702.0, 1702.0, 1701.0, 1703.0, 1702.0, 1705.0, 1706.0]
    assert [value for _, value in second] == [1154.55, 1152.30, 1148.65, 1145.20, 1150.55, 1152.30, 1153.55, 1152.30]
    third = repaired(columns, TIMES, omega=2, eta=3.0, k=5, output_column=3)
    assert third == list(zip(TIMES, SERIES[2], strict=True))


def test_missing_values_are_those_before_and_master_data_has_instants_of_its_own() -> None:
    data: list[float | None] = [1.0, 2.0, None, None, 9.0]
    master: list[float | None] = [None, None, 1.0, 2.0, 3.0]
    other: list[float | None] = [1.0, 2.0, 5.0, None, 9.0]
    results = repaired([data, other, master, master], [1, 2, 3, 4, 5], k=3, eta=100, omega=100)
    assert results == [(1, 1.0), (2, 2.0), (3, 3.0), (5, 3.0)]
    assert repaired([[], []], []) == []


def test_what_cannot_be_repaired_is_an_error() -> None:
    with pytest.raises(DataError, match="a series is constant"):
        repaired([[1.0, 1.0], [1.0, 2.0]], [1, 2])
    with pytest.raises(DataError, match="the master data is incomplete"):
        repaired([[1.0, 2.0], [1.0, 2.0], [None, None], [None, 1.0]], [1, 2])
    with pytest.raises(DataError, match="no value at the first instant"):
        repaired([[None, 1.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]], [1, 2])
    assert repaired([[0.0, 10.0, 90.0], [0.0, None, 100.0]], [1, 2, 3], eta=0.001, k=1, omega=9) == [(1, 0.0), (2, 0.0), (3, 0.0)]


@pytest.mark.parametrize(
    ("count", "attributes", "message"),
    [
        (1, {}, "the number of the input series is not valid"),
        (3, {}, "expected: an even number. actual: 3."),
        (2, {"k": 0}, "Parameter k should be a positive integer."),
        (2, {"eta": 0}, "Parameter eta should be larger than 0."),
        (2, {"omega": -1}, "Parameter omega should be non-negative."),
        (2, {"output_column": 2}, "Parameter output_column should be a positive integer."),
    ],
)
def test_attributes_are_checked(count: int, attributes: dict[str, object], message: str) -> None:
    with pytest.raises(TypeMismatchError, match=message):
        applied("master_repair", *["DOUBLE"] * count, **attributes)
