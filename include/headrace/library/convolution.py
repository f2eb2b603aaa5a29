"""Convolution of series."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import fft

from headrace.library.series import Values

MAX_DIRECT: Final = 500
"""Up to this length of the shorter series, products are added one by one."""


def convolve(x: Values, y: Values) -> Values:
    """Return Σ x(m) y(n - m) for all n, of two series that are not empty. The cost is (n + m) · log(n + m)."""
    if min(len(x), len(y)) <= MAX_DIRECT:
        return np.convolve(x, y)
    count = len(x) + len(y) - 1
    size = fft.next_fast_len(count, real=True)
    convolution: Values = fft.irfft(fft.rfft(x, size) * fft.rfft(y, size), size)[:count]
    return convolution
