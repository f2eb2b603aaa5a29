"""An estimate of the median of the distances from the median, from a histogram.

The buckets are those of a DDSketch: bucket `i` has the values from `g ** (i - 1)` to `g ** i`, with
`g = (1 + error) / (1 - error)`. The bucket `p` of the median comes first, then `q`, the last of the buckets nearest to it that
have half of the values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.library.series import Values

MAX_ZERO: Final = 1e-6
PLACE_OFFSET: Final = 2.0**40
"""More than the number of any bucket, so that a place has a sign."""


@dataclass(slots=True)
class Buckets:
    """Buckets of values in ascending order: from `low` to `high`, with `count` values."""

    low: list[float]
    high: list[float]
    count: list[int]

    @property
    def middle(self) -> float:
        """The rank of the median, from 0."""
        return 0.5 * (sum(self.count) - 1)


def estimate_median_deviation(values: Values, error: float) -> float | None:
    """Return the median distance from the median with a relative error, None if the buckets do not bound the error."""
    growth = (1 + error) / (1 - error)
    buckets = count_values(values, growth)
    p = find_median_bucket(buckets)
    q = find_deviation_bucket(buckets, p)
    low_p, high_p, low_q, high_q = buckets.low[p], buckets.high[p], buckets.low[q], buckets.high[q]
    if low_p * low_q <= 0:
        return 2 * max(abs(high_p - low_q), abs(high_q - low_p)) / (growth + 1)
    if p == q or not is_bounded(buckets, p, q, growth):
        return None
    return 2 * (high_p - low_q) * (low_p - high_q) / ((growth + 1) * abs(low_p - low_q))


def count_values(values: Values, growth: float) -> Buckets:
    """Return the buckets that have values."""
    signs = np.where(np.abs(values) > MAX_ZERO, np.sign(values), 0)
    places = np.ceil(np.log(np.where(signs, np.abs(values), 1.0)) / math.log(growth))
    keys, count = np.unique(signs * (places + PLACE_OFFSET), return_counts=True)
    signs, places = np.sign(keys), np.abs(keys) - PLACE_OFFSET
    bounds = [bucket_bounds(sign, place, growth) for sign, place in zip(signs.tolist(), places.tolist(), strict=True)]
    return Buckets([low for low, _ in bounds], [high for _, high in bounds], count.tolist())


def bucket_bounds(sign: float, place: float, growth: float) -> tuple[float, float]:
    """Return the bounds of a bucket of positive or negative values, or of zero."""
    near, far = sign * growth ** (place - 1), sign * growth**place
    return (near, far) if sign >= 0 else (far, near)


def find_median_bucket(buckets: Buckets) -> int:
    """Return the index of the bucket that has the median."""
    return int(np.flatnonzero(np.cumsum(buckets.count) > buckets.middle)[0])


def find_deviation_bucket(buckets: Buckets, p: int) -> int:
    """Return the index of the last bucket, in order of the distance from that of the median, that half of the values need."""
    low, high = buckets.low, buckets.high
    left, right, q, count = p - 1, p + 1, p, buckets.count[p]
    while count <= buckets.middle:
        has_left, has_right = left >= 0, right < len(low)
        if has_left and (not has_right or low[p] - high[left] < low[right] - high[p]):
            q, left = left, left - 1
        else:
            q, right = right, right + 1
        count += buckets.count[q]
    # A bucket on the other side that holds all of the mirrored bucket is as far.
    mirrored = low[p] + high[p] - high[q], low[p] + high[p] - low[q]
    other = right - 1 if p > q else left + 1
    is_as_far = p != q and low[other] <= mirrored[0] and high[other] >= mirrored[1]
    return other if is_as_far else q


def is_bounded(buckets: Buckets, p: int, q: int, growth: float) -> bool:
    """Return whether the two buckets bound the error of the deviation."""
    ratio = buckets.high[p] / buckets.high[q]
    ratio = max(ratio, 1 / ratio)
    if abs(buckets.low[p]) < abs(buckets.low[q]):
        deltas = ratio / growth**2 - 1 / growth + growth**-3, 1 / (growth**3 - ratio * growth + growth**2)
    else:
        deltas = growth**-2 + growth**-3 - 1 / (ratio * growth), 1 / (growth**2 / ratio + growth**3 - growth)
    return min([delta for delta in deltas if delta >= 0], default=0) > 1
