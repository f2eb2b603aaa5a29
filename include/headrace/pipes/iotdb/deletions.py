"""Deleted points as DELETE statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.model.time import Precision
from headrace.pipes.events import DEVICE, TIME, DeviceRows
from headrace.pipes.iotdb.columns import to_precision

MAX_PATHS: Final = 500
"""Paths in a statement."""

Integers = npt.NDArray[np.int64]
TimeRange = tuple[int, int]


def delete_statements(data: DeviceRows, precision: Precision) -> Iterator[str]:
    """Yield statements that delete the points of values that are not NULL, and no others.

    Instants that follow each other without a gap become a range, and series with the same range share a statement.
    """
    for (first, last), series in series_by_range(data, precision).items():
        for start in range(0, len(series), MAX_PATHS):
            yield f"DELETE FROM {', '.join(series[start : start + MAX_PATHS])} WHERE {condition(first, last)}"


def series_by_range(data: DeviceRows, precision: Precision) -> dict[TimeRange, list[str]]:
    """Return the series to delete for each range of times, both ends inclusive."""
    encoded = data.rows[DEVICE].combine_chunks()
    if not pa.types.is_dictionary(encoded.type):
        encoded = encoded.dictionary_encode()
    devices = encoded.indices.to_numpy().astype(np.int64)
    times = to_precision(data.rows[TIME].to_numpy(), data.precision, precision)
    paths = encoded.dictionary.to_pylist()
    series: dict[TimeRange, dict[str, None]] = defaultdict(dict)
    for column, measurement in data.columns.items():
        valid = data.rows[column].combine_chunks().is_valid().to_numpy(zero_copy_only=False)
        for device, first, last in ranges(devices[valid], times[valid]):
            series[first, last][f"{paths[device]}.{measurement.name}"] = None
    return {key: list(named) for key, named in series.items()}


def ranges(devices: Integers, times: Integers) -> Iterator[tuple[int, int, int]]:
    """Yield device, first and last time of instants without gaps."""
    if not len(devices):
        return
    order = np.lexsort((times, devices))
    devices, times = devices[order], times[order]
    follows = (devices[1:] == devices[:-1]) & (times[1:] - times[:-1] <= 1)
    firsts = np.flatnonzero(np.append(True, ~follows))
    lasts = np.append(firsts[1:], len(devices)) - 1
    yield from zip(devices[firsts].tolist(), times[firsts].tolist(), times[lasts].tolist(), strict=True)


def condition(first: int, last: int) -> str:
    return f"time = {first}" if first == last else f"time >= {first} AND time <= {last}"
