"""The quality functions count what is missing, redundant, late and implausible."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pytest

from headrace.library.quality import FUNCTIONS, TimeErrors, find_time_errors
from headrace.udf import ParameterError, Type
from tests.library.calls import Points, call, compute, rows_of

SEED: Final = 20261124
COMPLETENESS, CONSISTENCY = FUNCTIONS["UDTFCompleteness"], FUNCTIONS["UDTFConsistency"]
TIMELINESS, VALIDITY = FUNCTIONS["UDTFTimeliness"], FUNCTIONS["UDTFValidity"]


def score(name: str, times: list[int], values: list[float] | None = None, **attributes: str) -> Points:
    return compute(FUNCTIONS[name], [1.0] * len(times) if values is None else values, times, **attributes)


def count_one_by_one(times: list[int], downtime: bool) -> TimeErrors:
    """Return the errors of times as the algorithm is written, with the next ten points in a list."""
    normal, errors = float(np.median(np.diff(times))), TimeErrors()
    ahead, rest = times[:10], times[10:]
    while len(ahead) > 1:
        ratio = (ahead[1] - ahead[0]) / normal
        if ratio <= 0.5:
            del ahead[1]
            errors.redundant += 1
        elif ratio >= 2 and (not downtime or ratio <= 9):
            lacking, late, index = math.floor(ratio - 1 + 0.5), 0, 2
            while index < len(ahead) and (ahead[index] - ahead[index - 1]) / normal < 2 and late < lacking:
                if (ahead[index] - ahead[index - 1]) / normal <= 0.5:
                    del ahead[index]
                    late += 1
                else:
                    index += 1
            errors.late += late
            errors.missing += lacking - late
        del ahead[0]
        while len(ahead) < 10 and rest:
            ahead.append(rest.pop(0))
    return errors


@pytest.mark.parametrize("rows", [11, 12, 13, 25, 400])
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("downtime", [True, False])
def test_skipping_regular_stretches_changes_nothing(seed: int, downtime: bool, rows: int) -> None:
    generator = np.random.default_rng(SEED + seed)
    share = generator.random()
    intervals = np.where(generator.random(rows) < share, 1000, generator.choice([100, 400, 2000, 3100, 5000, 20_000], rows))
    times = intervals.cumsum()
    assert find_time_errors(times, downtime) == count_one_by_one(times.tolist(), downtime)


def test_a_gap_lacks_points_unless_it_is_downtime() -> None:
    times = [*range(0, 20_000, 1000), *range(24_000, 44_000, 1000)]
    assert score("UDTFCompleteness", times) == [(0, pytest.approx(1 - 4 / 44))]
    times = [*range(0, 20_000, 1000), *range(124_000, 144_000, 1000)]
    assert score("UDTFCompleteness", times) == [(0, 1.0)]
    assert score("UDTFCompleteness", times, downtime="false") == [(0, pytest.approx(1 - 104 / 144))]


def test_special_values_are_incomplete() -> None:
    values = [1.0] * 18 + [math.nan, math.inf]
    assert score("UDTFCompleteness", list(range(0, 20_000, 1000)), values) == [(0, 0.9)]


def test_points_that_follow_too_closely_are_redundant_or_late() -> None:
    times = sorted([*range(0, 20_000, 1000), 5100])
    assert score("UDTFConsistency", times) == [(0, pytest.approx(1 - 1 / 21))]
    late = sorted({*range(0, 20_000, 1000), 9100} - {8000})
    assert score("UDTFTimeliness", late) == [(0, pytest.approx(1 - 1 / 20))]
    assert score("UDTFCompleteness", late) == [(0, 1.0)]


def test_an_outlier_is_invalid() -> None:
    values = np.random.default_rng(SEED).uniform(0, 1, 100)
    assert compute(VALIDITY, values) == [(0, 1.0)]
    values[50] = 1000
    ((_, validity),) = compute(VALIDITY, values)
    assert validity == pytest.approx(1 - (1 + 2 + 2 + 3) / 400)


def test_windows_are_rows_or_durations_and_need_more_than_ten_rows() -> None:
    values = [1.0] * 30
    assert compute(CONSISTENCY, values, window="12") == [(0, 1.0), (12_000, 1.0)]
    assert compute(CONSISTENCY, values, window="15s") == [(0, 1.0), (15_000, 1.0)]
    assert compute(CONSISTENCY, values, window="10s") == []
    with pytest.raises(ParameterError, match="windowSize"):
        compute(CONSISTENCY, values, window="0")
    with pytest.raises(ParameterError, match="not a duration"):
        compute(CONSISTENCY, values, window="soon")


def test_texts_have_no_quality() -> None:
    rows = rows_of(list(range(20)), [["a"] * 20], [Type.TEXT])
    assert call(TIMELINESS, rows, [Type.TEXT], {}) == []
