"""The discrete wavelet transform and its inverse."""

from __future__ import annotations

from typing import Final

import numpy as np

from headrace.library.series import Points, SeriesFunction, Times, Values
from headrace.udf import ParameterError, Parameters

WAVELETS: Final = {
    "haar": (0.5**0.5, 0.5**0.5),
    "db2": (0.5**0.5, 0.5**0.5),
    "db4": (0.4829629131445341, 0.8365163037378077, 0.2241438680420134, -0.1294095225512603),
    "db6": (
        0.3326705529500825,
        0.8068915093110924,
        0.4598775021184914,
        -0.1350110200102546,
        -0.0854412738820267,
        0.0352262918857095,
    ),
    "db8": (
        0.2303778133088964,
        0.7148465705529154,
        0.6308807679398587,
        -0.0279837694168599,
        -0.1870348117190931,
        0.0308413818355607,
        0.0328830116668852,
        -0.0105974017850690,
    ),
}
"""Daubechies' wavelets by the number of their coefficients."""


class WaveletTransform(SeriesFunction):
    """The discrete wavelet transform: the lower half of the points are averages, the upper half details.

    With q coefficients hₖ and n points, averages are aᵢ = Σₖ hₖ x(2i + k + 1 - q/2 mod n), and details the same with
    gₖ = (-1)ᵏ h(q - 1 - k). Each layer transforms the whole result of the layer before, as in IoTDB. The series must have 2, 4,
    8, … points, at least q.

    Attributes:
        method: `haar` or `db2`, `db4`, `db6`, `db8`.
        coef: The coefficients, separated by commas, if no method is passed.
        layer: The number of transforms, 1 by default.

    For n points the cost is n · q · layer.
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read and check the attributes."""
        self._averages = read_wavelet(parameters)
        signs = (-1.0) ** np.arange(len(self._averages))
        self._details = -(signs * self._averages)[::-1]
        self._layers = parameters.get_int_or_default("layer", 1)
        if self._layers < 1:
            raise ParameterError("layer has to be a positive integer.")

    def compute(self, times: Times, values: Values) -> Points:
        """Return the transform."""
        count, needed = len(values), len(self._averages)
        if count and (count & (count - 1) or count < needed):
            raise ParameterError(f"a wavelet transform needs 2, 4, 8, … points, at least {needed}; the series has {count}")
        for _ in range(self._layers if count else 0):
            values = self.transform_once(values)
        return times, values

    def transform_once(self, values: Values) -> Values:
        """Return one layer of the transform."""
        averages, details = np.zeros(len(values) // 2), np.zeros(len(values) // 2)
        for average, detail, shift in self.coefficients():
            shifted = np.roll(values, -shift)[::2]
            averages += average * shifted
            details += detail * shifted
        return np.concatenate([averages, details])

    def coefficients(self) -> list[tuple[float, float, int]]:
        """Return the coefficients for averages and details, and their distance from the point."""
        shifts = range(1 - len(self._averages) // 2, len(self._averages))
        return list(zip(self._averages.tolist(), self._details.tolist(), shifts, strict=False))


class InverseWaveletTransform(WaveletTransform):
    """The inverse of the discrete wavelet transform with the same attributes: x = Σₖ hₖ aᵢ + gₖ dᵢ at 2i + k + 1 - q/2 mod n."""

    def transform_once(self, values: Values) -> Values:
        """Undo one layer of the transform."""
        averages, details = np.split(values, 2)
        series, spread = np.zeros(len(values)), np.zeros(len(values))
        for average, detail, shift in self.coefficients():
            spread[::2] = average * averages + detail * details
            series += np.roll(spread, shift)
        return series


def read_wavelet(parameters: Parameters) -> Values:
    """Return the coefficients that `method` or `coef` name."""
    method, text = (parameters.get_string_or_default(key, "") for key in ("method", "coef"))
    if method:
        if method.lower() not in WAVELETS:
            raise ParameterError("Method not supported, please input coefficient and leave method blank.")
        return np.array(WAVELETS[method.lower()])
    try:
        return np.array([float(coefficient) for coefficient in text.split(",")])
    except ValueError:
        raise ParameterError(f'set "method", or "coef" to numbers such as "0.5,0.5"; it is "{text}"') from None
