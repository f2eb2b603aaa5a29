"""Durations of attributes are read in the precision of times."""

from __future__ import annotations

import pytest

from headrace.library.series import parse_duration
from headrace.udf import ParameterError, Parameters, Type


@pytest.mark.parametrize(
    ("text", "precision", "ticks"),
    [
        ("1s", "ms", 1_000),
        ("250ms", "ms", 250),
        ("1.5 H", "ms", 5_400_000),
        ("2d", "us", 172_800_000_000),
        ("7us", "us", 7),
        ("3m", "ns", 180_000_000_000),
        ("15", "ms", 0),
    ],
)
def test_a_duration_is_a_number_of_ticks(text: str, precision: str, ticks: int) -> None:
    assert parse_duration(text, Parameters([Type.DOUBLE], timestamp_precision=precision)) == ticks


@pytest.mark.parametrize(
    ("text", "precision"),
    [("1us", "ms"), ("1ns", "us"), ("1w", "ms"), ("", "ms"), ("s", "ms"), ("1ss", "ms"), ("nans", "ms"), ("infs", "ms")],
)
def test_other_texts_and_finer_units_are_refused(text: str, precision: str) -> None:
    with pytest.raises(ParameterError):
        parse_duration(text, Parameters([Type.DOUBLE], timestamp_precision=precision))
