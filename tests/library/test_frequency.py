"""The frequency domain: inverses, definitions written out as sums, and edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.library.frequency import (
    Convolution,
    Deconvolution,
    EnvelopeSpectrum,
    FourierTransform,
    HighPass,
    InverseFourierTransform,
    LowPass,
)
from headrace.library.series import Values
from headrace.library.wavelets import InverseWaveletTransform, WaveletTransform
from headrace.udf import UDTF, ParameterError, Type
from tests.library.calls import Points, call, compute, rows_of
from tests.library.series import random

TWO = [Type.DOUBLE, Type.DOUBLE]


def compute_two(function: type[UDTF], x: Values, y: Values, **attributes: str) -> Points:
    """Return the points of a call over two series, of which the shorter ends with NULL."""
    count = max(len(x), len(y))
    columns = [[*series.tolist(), *[None] * (count - len(series))] for series in (x, y)]
    return call(function, rows_of(list(range(count)), columns, TWO), TWO, attributes)


def values_of(points: Points) -> Values:
    return np.array([value for _, value in points])


@pytest.mark.parametrize(
    ("function", "attributes"),
    [
        (EnvelopeSpectrum, {}),
        (FourierTransform, {}),
        (FourierTransform, {"compress": "0.5"}),
        (HighPass, {"wpass": "0.3"}),
        (LowPass, {"wpass": "0.3"}),
        (WaveletTransform, {"method": "haar"}),
        (InverseWaveletTransform, {"method": "haar"}),
    ],
)
def test_an_empty_series_has_no_points(function: type[UDTF], attributes: dict[str, Any]) -> None:
    assert compute(function, [], **attributes) == []


@pytest.mark.parametrize("function", [Convolution, InverseFourierTransform])
def test_two_empty_series_have_no_points(function: type[UDTF]) -> None:
    assert compute_two(function, np.empty(0), np.empty(0)) == []


@pytest.mark.parametrize(
    ("function", "attributes"),
    [
        (EnvelopeSpectrum, {"frequency": "0"}),
        (EnvelopeSpectrum, {"amplification": "0"}),
        (FourierTransform, {"method": "other"}),
        (FourierTransform, {"result": "other"}),
        (FourierTransform, {"compress": "0"}),
        (HighPass, {}),
        (LowPass, {"wpass": "1"}),
        (WaveletTransform, {}),
        (WaveletTransform, {"method": "haar", "layer": "0"}),
        (WaveletTransform, {"method": "db8"}),
    ],
)
def test_invalid_attributes_are_refused(function: type[UDTF], attributes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        compute(function, [1.0, 2.0], **attributes)


@pytest.mark.parametrize("count", [3, 6, 12])
def test_a_wavelet_transform_needs_a_power_of_two(count: int) -> None:
    with pytest.raises(ParameterError, match=f"the series has {count}"):
        compute(WaveletTransform, [1.0] * count, method="haar")


@pytest.mark.parametrize("method", ["haar", "db2", "DB4", "db6", "db8"])
@pytest.mark.parametrize("layer", ["1", "3"])
def test_a_wavelet_transform_is_undone_and_keeps_the_energy(method: str, layer: str) -> None:
    values = random().normal(size=64)
    transformed = values_of(compute(WaveletTransform, values.tolist(), method=method, layer=layer))
    restored = values_of(compute(InverseWaveletTransform, transformed.tolist(), method=method, layer=layer))
    assert np.allclose(restored, values)
    assert np.isclose((transformed**2).sum(), (values**2).sum())


@pytest.mark.parametrize("count", [1, 2, 9, 16, 31])
def test_a_fourier_transform_is_the_sum_and_is_undone(count: int) -> None:
    values = random().normal(size=count)
    real, imaginary = (values_of(compute(FourierTransform, values.tolist(), result=part)) for part in ("real", "imag"))
    turns = np.outer(np.arange(count), np.arange(count)) / count
    assert np.allclose(real + 1j * imaginary, np.exp(-2j * np.pi * turns) @ values)
    points = compute_two(InverseFourierTransform, real, imaginary, interval="1m", start="1970-01-02 00:00:00")
    assert [time for time, _ in points] == [86_400_000 + 60_000 * index for index in range(count)]
    assert np.allclose(values_of(points), values)


def test_a_spectrum_is_completed_by_its_lower_half() -> None:
    values = random().normal(size=10)
    spectrum = np.fft.fft(values)
    times = [0, 1, 2, 3, 4, 5, 9]
    columns = [spectrum.real[times].tolist(), spectrum.imag[times].tolist()]
    assert np.allclose(values_of(call(InverseFourierTransform, rows_of(times, columns, TWO), TWO, {})), values)


def test_a_time_that_is_no_index_is_refused() -> None:
    rows = rows_of([1_577_808_000_000], [[1.0], [1.0]], TWO)
    with pytest.raises(ParameterError, match="indexes of the spectrum"):
        call(InverseFourierTransform, rows, TWO, {})


def test_a_compressed_transform_has_the_share_of_the_energy_and_the_last_point() -> None:
    waves = np.cos(2 * np.pi * 3 * np.arange(32) / 32)
    assert [time for time, _ in compute(FourierTransform, waves.tolist(), compress="0.9")] == [0, 1, 2, 3, 31]


@pytest.mark.parametrize("count", [20, 21])
def test_low_and_high_pass_add_up(count: int) -> None:
    generator = random()
    values, frequency = generator.normal(size=count), str(round(generator.uniform(0.05, 0.95), 3))
    low, high = (values_of(compute(function, values.tolist(), wpass=frequency)) for function in (LowPass, HighPass))
    assert np.allclose(low + high, values)


def test_filters_leave_out_what_is_not_finite() -> None:
    assert [time for time, _ in compute(LowPass, [1.0, float("nan"), 2.0], wpass="0.9")] == [0, 2000]


@pytest.mark.parametrize(("first", "second"), [(1, 1), (7, 3), (3, 7), (300, 200)])
def test_convolution_multiplies_polynomials_and_is_undone(first: int, second: int) -> None:
    generator = random()
    x, y = generator.normal(size=first), generator.normal(size=second)
    y[-1] = 5 * second
    product = values_of(compute_two(Convolution, x, y))
    assert np.allclose(product, np.convolve(x, y))
    assert np.allclose(values_of(compute_two(Deconvolution, product, y)), x)
    assert np.allclose(values_of(compute_two(Deconvolution, product, y, result="remainder")), 0, atol=1e-8)


def test_quotient_and_remainder_give_the_dividend() -> None:
    x, y = np.array([1.0, 7.0, 0.0, 2.0, 3.0]), np.array([2.0, 1.0, 4.0, 0.0])
    quotient, remainder = (values_of(compute_two(Deconvolution, x, y, result=result)) for result in ("quotient", "remainder"))
    assert np.allclose(np.convolve(quotient, np.trim_zeros(y)) + remainder, x)
    assert remainder[2:].tolist() == [0.0, 0.0, 0.0]


def test_a_longer_divisor_divides_zero_times() -> None:
    x, y = np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0])
    assert compute_two(Deconvolution, x, y) == [(0, 0.0)]
    assert compute_two(Deconvolution, x, y, result="remainder") == [(0, 1.0), (1, 2.0)]


def test_zero_does_not_divide() -> None:
    with pytest.raises(ParameterError):
        compute_two(Deconvolution, np.ones(3), np.zeros(2))


def test_the_envelope_of_beats_has_their_frequency() -> None:
    seconds = np.arange(1000) / 100
    beats = (1 + 0.5 * np.cos(2 * np.pi * 3 * seconds)) * np.cos(2 * np.pi * 20 * seconds)
    times = (seconds * 1000).astype(np.int64).tolist()
    spectrum = dict(compute(EnvelopeSpectrum, beats.tolist(), times, amplification="10"))
    assert np.isclose(spectrum[0], 1)
    assert max((time for time in spectrum if time), key=spectrum.__getitem__) == 30
