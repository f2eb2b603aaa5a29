"""Deleted points as DELETE statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.model.time import Precision
from headrace.pipes.events import TIME, DeleteEvent
from headrace.pipes.iotdb.columns import to_precision

MAX_PATHS: Final = 500
"""Paths in a statement."""
MAX_TIME: Final = 2**63 - 1

Integers = npt.NDArray[np.int64]
TimeRange = tuple[int, int]


def delete_statements(event: DeleteEvent, precision: Precision) -> Iterator[str]:
    """Yield statements that delete the points of an event, and no others that the source has.

    Points in a range in which there are no others need one statement. Otherwise, instants that follow each other without a gap
    become a range. Series with the same range share a statement.
    """
    for (first, last), series in series_by_range(event, precision).items():
        for start in range(0, len(series), MAX_PATHS):
            yield f"DELETE FROM {', '.join(series[start : start + MAX_PATHS])}{condition(first, last)}"


def series_by_range(event: DeleteEvent, precision: Precision) -> dict[TimeRange, list[str]]:
    """Return the series to delete for each range of times, both ends inclusive."""
    data = event.data
    encoded = data.devices
    devices = encoded.indices.to_numpy().astype(np.int64)
    paths = encoded.dictionary.to_pylist()
    series: dict[TimeRange, dict[str, None]] = defaultdict(dict)
    for column, measurement in data.columns.items():
        valid = data.rows[column].combine_chunks().is_valid().to_numpy(zero_copy_only=False)
        for device, first, last in ranges(devices[valid], data.rows[TIME].to_numpy()[valid], event, precision):
            series[first, last][f"{paths[device]}.{measurement.name}"] = None
    return {key: list(named) for key, named in series.items()}


def ranges(devices: Integers, times: Integers, event: DeleteEvent, precision: Precision) -> Iterator[tuple[int, int, int]]:
    """Yield device, first and last time, in the unit of the receiver, of what covers the instants of devices."""
    others = np.ones(len(times), np.bool_)
    for low, high in event.ranges:
        is_inside = (times >= low) & (times <= high)
        others &= ~is_inside
        span = converted((low, high), event.data.precision, precision)
        yield from ((device, *span) for device in np.unique(devices[is_inside]).tolist())
    yield from ranges_without_gaps(devices[others], to_precision(times[others], event.data.precision, precision))


def converted(span: TimeRange, precision: Precision, receiver: Precision) -> TimeRange:
    """Return a range in the unit of the receiver; an end that it cannot have is its least or greatest one."""
    low, high = (end * precision.nanoseconds // receiver.nanoseconds for end in span)
    return max(low, -MAX_TIME), min(high, MAX_TIME)


def ranges_without_gaps(devices: Integers, times: Integers) -> Iterator[tuple[int, int, int]]:
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
    """Return the WHERE clause for a range; an end without a bound is left out."""
    if first == last:
        return f" WHERE time = {first}"
    bounds = []
    if first > -MAX_TIME:
        bounds.append(f"time >= {first}")
    if last < MAX_TIME:
        bounds.append(f"time <= {last}")
    return f" WHERE {' AND '.join(bounds)}" if bounds else ""
