"""The frequency domain: Fourier and wavelet transforms, filters, convolution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from scipy import fft

from headrace.library.convolution import convolve
from headrace.library.series import NO_POINTS, Points, SeriesFunction, Times, Values, parse_duration
from headrace.library.steps import StepLimit
from headrace.library.wavelets import InverseWaveletTransform, WaveletTransform
from headrace.udf import UDTF, ParameterError, Parameters, Validator

MAX_POINTS: Final = 100_000_000

Spectrum = npt.NDArray[np.complex128]


class Convolution(SeriesFunction):
    """The convolution (x * y)ₙ = Σₘ xₘ yₙ₋ₘ of two series, at the times 0, 1, 2, ….

    Each series is taken without its NULL and non-finite values. For n and m points the cost is (n + m) · log(n + m).
    """

    number_of_inputs = 2

    def compute(self, times: Times, *values: Any) -> Points:  # noqa: ARG002
        """Return the convolution."""
        x, y = (series[np.isfinite(series)] for series in values)
        if not len(x) or not len(y):
            return NO_POINTS
        return numbered(convolve(x, y))


class Deconvolution(SeriesFunction):
    """The quotient or remainder of two series as polynomials, such that x = quotient * y + remainder, at the times 0, 1, 2, ….

    Each series is taken without its NULL and non-finite values; its last value is the coefficient of the highest power. For n and m
    points the cost is (n - m) · m.

    Attributes:
        result: `quotient` (default), also spelled `quotinent` as in IoTDB, or `remainder`.
    """

    number_of_inputs = 2

    def read_attributes(self, parameters: Parameters) -> None:
        """Read and check the attributes."""
        result = parameters.get_string_or_default("result", "quotient").lower()
        if result not in {"quotient", "quotinent", "remainder"}:
            raise ParameterError("Result should be 'quotient' or 'remainder'.")
        self._returns_remainder = result == "remainder"
        self._limit = StepLimit.of("deconv", parameters)

    def compute(self, times: Times, *values: Any) -> Points:  # noqa: ARG002
        """Return the quotient or the remainder."""
        dividend, divisor = (series[np.isfinite(series)] for series in values)
        divisor = np.trim_zeros(divisor, "b")
        if not len(divisor):
            raise ParameterError("deconvolution by a series without values other than 0")
        quotient = divide_polynomials(dividend, divisor, self._limit)
        if not self._returns_remainder:
            return numbered(quotient if len(quotient) else np.zeros(1))
        return numbered(subtract_product(dividend, quotient, divisor))


class FourierTransform(SeriesFunction):
    """The discrete Fourier transform Xₖ = Σₙ xₙ exp(-2πi k n / N) of the finite values, at the times k = 0, 1, ….

    Attributes:
        result: `abs` (default), `real`, `imag` or `angle`.
        compress: A share of the energy Σ |Xₖ|². The transform is cut off after the frequency with which that share is exceeded,
            and its last point follows, so that the number of points is kept.
        method: `uniform` or `nonuniform`; both take the points as equidistant.

    For n points the cost is n · log n.
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read and check the attributes."""
        self._result = parameters.get_string_or_default("result", "abs").lower()
        self._share = parameters.get_double("compress")
        if parameters.get_string_or_default("method", "uniform").lower() not in {"uniform", "nonuniform"}:
            raise ParameterError("Type should be 'uniform' or 'nonuniform'.")
        if self._result not in PARTS:
            raise ParameterError("Result should be 'real', 'imag', 'abs' or 'angle'.")
        if self._share is not None and not 0 < self._share <= 1:
            raise ParameterError("Compress should be within (0,1].")

    def compute(self, times: Times, values: Values) -> Points:  # noqa: ARG002
        """Return the transform."""
        finite = values[np.isfinite(values)]
        if not len(finite):
            return NO_POINTS
        spectrum = fft.fft(finite)
        part = PARTS[self._result](spectrum)
        if self._share is None:
            return numbered(part)
        indexes = np.append(np.arange(count_frequencies(spectrum, self._share)), len(finite) - 1)
        return indexes, part[indexes]


def angle(spectrum: Spectrum) -> Values:
    """Return angles from -π, exclusive, to π."""
    angles: Values = np.angle(spectrum + 0)
    return angles


PARTS: Final[dict[str, Callable[[Any], Any]]] = {"abs": np.abs, "real": np.real, "imag": np.imag, "angle": angle}


class InverseFourierTransform(SeriesFunction):
    """The inverse Fourier transform of a real series: the inputs are the real and the imaginary part of its spectrum.

    The time of a point is its index: 0, 1, 2, …. The last one determines the number of points. Points that are missing are 0 or, in
    the upper half, those of the lower half, conjugated. The result begins at `start`, with a point every `interval`.

    Attributes:
        interval: A duration, `1s` by default.
        start: A time in UTC as `yyyy-MM-dd HH:mm:ss`, by default 1970-01-01 00:00:00.

    For n points the cost is n · log n; n is at most 100 million.
    """

    number_of_inputs = 2

    def read_attributes(self, parameters: Parameters) -> None:
        """Read and check the attributes."""
        self._interval = parse_duration(parameters.get_string_or_default("interval", "1s"), parameters)
        if self._interval <= 0:
            raise ParameterError("interval should be a time period whose unit is ms, s, m, h, d.")
        try:
            start = datetime.strptime(parameters.get_string_or_default("start", "1970-01-01 00:00:00"), "%Y-%m-%d %H:%M:%S")
        except ValueError:
            raise ParameterError("start should conform to the format yyyy-MM-dd HH:mm:ss.") from None
        self._start = int(start.replace(tzinfo=UTC).timestamp()) * parameters.ticks_per_second

    def compute(self, times: Times, *values: Any) -> Points:
        """Return the series."""
        real, imaginary = values
        is_finite = np.isfinite(real) & np.isfinite(imaginary)
        indexes = times[is_finite]
        if not len(indexes):
            return NO_POINTS
        if indexes[0] < 0 or indexes[-1] >= MAX_POINTS:
            message = f"times are indexes of the spectrum, from 0 to {MAX_POINTS - 1}; the series has {indexes[0]} to {indexes[-1]}"
            raise ParameterError(message)
        spectrum = half_spectrum(indexes, real[is_finite] + 1j * imaginary[is_finite])
        series = fft.irfft(spectrum, int(indexes[-1]) + 1)
        return self._start + self._interval * np.arange(len(series)), series


class PassFilter(SeriesFunction, ABC):
    """A filter of frequencies, which are given as a share of the highest one. Non-finite values are left out.

    For n points the cost is n · log n.
    """

    def validate(self, validator: Validator) -> None:
        """Require one numeric input, and a frequency between 0 and 1."""
        super().validate(validator)
        validator.validate_required_attribute("wpass")
        frequency = validator.get_parameters().get_double("wpass")
        validator.validate(lambda frequency: 0 < frequency < 1, "Wpass should be within (0,1).", frequency)

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the frequency."""
        self._frequency = parameters.get_double_or_default("wpass", 0.5)

    def compute(self, times: Times, values: Values) -> Points:
        """Return the filtered series."""
        is_finite = np.isfinite(values)
        count = int(is_finite.sum())
        if not count:
            return NO_POINTS
        spectrum = fft.rfft(values[is_finite])
        self.filter(spectrum, self._frequency * count / 2)
        return times[is_finite], fft.irfft(spectrum, count)

    @abstractmethod
    def filter(self, spectrum: Spectrum, limit: float) -> None:
        """Set the frequencies to 0 that do not pass. `limit` is the index that belongs to `wpass`."""


class HighPass(PassFilter):
    """The part of a series above a frequency.

    Attributes:
        wpass: The frequency, as a share of the highest one, between 0 and 1; required.
    """

    def filter(self, spectrum: Spectrum, limit: float) -> None:
        """Clear the frequencies up to the limit."""
        spectrum[: int(np.floor(limit)) + 1] = 0


class LowPass(PassFilter):
    """The part of a series below a frequency.

    Attributes:
        wpass: The frequency, as a share of the highest one, between 0 and 1; required.
    """

    def filter(self, spectrum: Spectrum, limit: float) -> None:
        """Clear the frequencies from the limit on."""
        spectrum[int(np.ceil(limit)) :] = 0


class EnvelopeSpectrum(SeriesFunction):
    """The spectrum of the envelope of a signal: |FFT(|x + i H(x)|)| / n, with the Hilbert transform H.

    The time of a point is its frequency in Hz, times `amplification`, without decimals; of several points at one time the first one
    counts.

    Attributes:
        frequency: The points in a second; by default that of the most frequent interval of the first 10 points.
        amplification: A factor for the frequencies, 1 by default, which keeps more of them apart.

    For n points the cost is n · log n.
    """

    def read_attributes(self, parameters: Parameters) -> None:
        """Read and check the attributes."""
        self._frequency = parameters.get_double("frequency")
        self._amplification = parameters.get_int_or_default("amplification", 1)
        self._ticks_per_second = parameters.ticks_per_second
        if self._frequency is not None and not self._frequency > 0:
            raise ParameterError("The param 'frequency' must > 0.")
        if self._amplification < 1:
            raise ParameterError("The param 'amplification' must >= 1.")

    def compute(self, times: Times, values: Values) -> Points:
        """Return the lower half of the spectrum."""
        count = len(values)
        if count < 2:
            return NO_POINTS
        frequency = self._frequency or self._ticks_per_second / most_frequent(np.diff(times[:10]))
        envelope = np.abs(analytic_signal(values))
        amplitudes = np.abs(fft.rfft(envelope))[: count // 2] / count
        frequencies = (np.arange(count // 2) * (frequency * self._amplification / count)).astype(np.int64)
        is_first = np.append(True, np.diff(frequencies) > 0)
        return frequencies[is_first], amplitudes[is_first]


def numbered(values: Values) -> Points:
    """Return values at the times 0, 1, 2, …."""
    return np.arange(len(values)), values


def divide_polynomials(dividend: Values, divisor: Values, limit: StepLimit) -> Values:
    """Return the quotient of polynomials with coefficients in ascending order, empty if the divisor has more of them."""
    from scipy import signal

    count = len(dividend) - len(divisor) + 1
    if count <= 0:
        return np.empty(0)
    limit.add(count * len(divisor), f"{len(dividend)} and {len(divisor)} points")
    quotient: Values = signal.lfilter([1.0], divisor[::-1], dividend[::-1][:count])[::-1]
    return quotient


def subtract_product(dividend: Values, quotient: Values, divisor: Values) -> Values:
    """Return the remainder of a division."""
    if not len(quotient):
        return dividend
    remainder: Values = dividend - convolve(quotient, divisor)
    remainder[len(divisor) - 1 :] = 0
    return remainder


def count_frequencies(spectrum: Spectrum, share: float) -> int:
    """Return how many of the frequencies, from 0 on, have more than a share of the energy, at most the lower half."""
    energy = spectrum.real**2 + spectrum.imag**2
    half = len(spectrum) // 2
    sums = energy[0] + np.concatenate([[0.0], 2 * energy[1 : half + 1].cumsum()])
    exceeded = np.flatnonzero(sums[1:] > share * energy.sum())
    return int(exceeded[0]) + 2 if len(exceeded) else half + 1


def half_spectrum(indexes: Times, values: Spectrum) -> Spectrum:
    """Return the lower half of the spectrum of a real series. The upper half counts where both are there."""
    count = int(indexes[-1]) + 1
    spectrum = np.zeros(count, np.complex128)
    spectrum[indexes] = values
    is_upper = indexes > count // 2
    spectrum[count - indexes[is_upper]] = values[is_upper].conj()
    return spectrum[: count // 2 + 1]


def analytic_signal(values: Values) -> Spectrum:
    """Return x + i H(x): the signal without its negative frequencies, and the positive ones doubled."""
    spectrum = fft.fft(values)
    count = len(values)
    spectrum[1 : (count + 1) // 2] *= 2
    spectrum[count // 2 + 1 :] = 0
    signal: Spectrum = fft.ifft(spectrum)
    return signal


def most_frequent(gaps: Times) -> int:
    """Return the most frequent interval; of several, the one that is the first to occur that often."""
    counts: dict[int, int] = {}
    for gap in gaps.tolist():
        counts[gap] = counts.pop(gap, 0) + 1
    return max(counts, key=lambda gap: counts[gap])


FUNCTIONS: Final[dict[str, type[UDTF]]] = {
    "UDFEnvelopeAnalysis": EnvelopeSpectrum,
    "UDTFConv": Convolution,
    "UDTFDeconv": Deconvolution,
    "UDTFDWT": WaveletTransform,
    "UDTFIDWT": InverseWaveletTransform,
    "UDTFFFT": FourierTransform,
    "UDTFIFFT": InverseFourierTransform,
    "UDTFHighPass": HighPass,
    "UDTFLowPass": LowPass,
}
