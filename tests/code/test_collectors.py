"""The collector of points."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headrace.udf import PointCollector, Type


def drained(collector: PointCollector) -> list[tuple[int, object]]:
    """Return the points of a collector, whose columns must have the right types."""
    points = collector.drain()
    assert points.schema == pa.schema([("time", pa.int64()), ("value", pa.float64())])
    return list(zip(*points.to_pydict().values(), strict=True))


def test_points_come_in_the_order_in_which_they_were_added() -> None:
    collector = PointCollector(Type.DOUBLE)
    assert drained(collector) == []
    collector.put(5, 1.0)
    collector.put(4, None)
    assert drained(collector) == [(5, 1.0)]
    collector.put_double(3, 2)
    collector.put_batch([1, 2], [3, 4])
    collector.put(0, 5.5)
    assert drained(collector) == [(3, 2.0), (1, 3.0), (2, 4.0), (0, 5.5)]
    assert drained(collector) == []


@pytest.mark.parametrize(
    "times",
    [
        [1, 2],
        np.array([1, 2], np.int32),
        pa.array([1, 2], pa.int16()),
        pa.chunked_array([[1], [2]]),
        pa.array([1, 2], pa.timestamp("ms")),
    ],
)
@pytest.mark.parametrize("values", [[1, 2.0], np.array([1, 2], np.float32), pa.array([1, 2]), pa.chunked_array([[1.0], [2.0]])])
def test_a_batch_may_have_columns_of_any_kind(times: object, values: object) -> None:
    collector = PointCollector(Type.DOUBLE)
    collector.put_batch(times, values)
    assert drained(collector) == [(1, 1.0), (2, 2.0)]


def test_a_batch_of_another_type_or_of_unequal_columns_is_an_error() -> None:
    collector = PointCollector(Type.DOUBLE)
    with pytest.raises(pa.ArrowInvalid):
        collector.put_batch([1], ["a"])
    with pytest.raises(ValueError, match="same length"):
        collector.put_batch([1, 2], [1.0])
