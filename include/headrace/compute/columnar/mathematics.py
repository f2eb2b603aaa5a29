"""Functions whose last digit may differ from that of Java: queries over few rows use them, micro-batches do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.arrays import Numbers, Values, apply_code, by_array, to_numbers

ALLOWED: Final = ContextVar("allowed", default=False)
DOUBLE: Final = pa.float64()


@contextmanager
def allowing_last_digits() -> Iterator[None]:
    """Compute functions near although the last digit of a result may differ from Java's."""
    token = ALLOWED.set(True)
    try:
        yield
    finally:
        ALLOWED.reset(token)


def real(function: Callable[[Numbers], Numbers]) -> Callable[[Values], Values]:
    return by_array(lambda numbers: function(numbers.astype(np.float64)), DOUBLE)


def logarithm(function: Callable[[Numbers], Numbers]) -> Callable[[Values], Values]:
    """Return a logarithm, which is NULL for what is not positive."""

    def apply(values: pa.Array) -> pa.Array:
        numbers = to_numbers(values).astype(np.float64)
        with np.errstate(all="ignore"):
            return pa.array(function(numbers), DOUBLE, mask=(numbers <= 0) | ~values.is_valid().to_numpy(zero_copy_only=False))

    return lambda values: apply_code(apply, [values])


def power(bases: Numbers, exponents: Numbers) -> Numbers:
    """Raise numbers to powers; of 1 and -1 to a power that is no number or infinite, Java says NaN."""
    bases, exponents = bases.astype(np.float64), exponents.astype(np.float64)
    is_undefined = (np.isnan(exponents) & (bases == 1)) | (np.isinf(exponents) & (np.abs(bases) == 1))
    return np.where(is_undefined, np.nan, np.power(bases, exponents))


FUNCTIONS: Final[dict[str, tuple[str, Callable[..., Values]]]] = {
    **{
        name: ("n", real(function))
        for name, function in {
            "sin": np.sin,
            "cos": np.cos,
            "tan": np.tan,
            "asin": np.arcsin,
            "acos": np.arccos,
            "atan": np.arctan,
            "sinh": np.sinh,
            "cosh": np.cosh,
            "tanh": np.tanh,
            "exp": np.exp,
            "cbrt": np.cbrt,
        }.items()
    },
    **{name: ("n", logarithm(function)) for name, function in {"ln": np.log, "log10": np.log10, "log2": np.log2}.items()},
    "power": ("n", by_array(power, DOUBLE)),
    "atan2": ("n", by_array(lambda y, x: np.arctan2(y.astype(np.float64), x.astype(np.float64)), DOUBLE)),
}
"""The types of the operands and the kernel of each function, as in `expressions.FUNCTIONS`."""
