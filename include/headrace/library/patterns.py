"""Aggregates that find a pattern in the points of a group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from headrace.library.pattern_sections import cut_sections, match_sections, scale
from headrace.library.series import NUMERIC, Times, Values
from headrace.library.steps import StepLimit
from headrace.udf import UDAF, BitMap, Column, ParameterError, Parameters, ResultValue, Type, UDAFConfigurations, Validator

MAX_PATTERN: Final = 1000
MAX_CELLS_AT_ONCE: Final = 2_000_000
STEPS_PER_CELL: Final = 3
STEPS_PER_SECTION: Final = 50_000

Match = tuple[float, int, int]
"""A distance, and the times of the first and last point."""


class PointAggregate(UDAF, ABC):
    """An aggregate of all points of a group. Its state is a list of arrays of times and values."""

    def validate(self, validator: Validator) -> None:
        """Require one input of numbers or Booleans, and a threshold."""
        validator.validate_input_series_number(1)
        validator.validate_input_series_data_type(0, *NUMERIC, Type.BOOLEAN)
        validator.validate_required_attribute("threshold")

    def before_start(self, parameters: Parameters, configurations: UDAFConfigurations) -> None:
        """Read the threshold."""
        self._threshold = np.float32(parameters.get_double_or_default("threshold", 0))
        self._parameters = parameters
        configurations.set_output_data_type(Type.TEXT)

    def create_state(self) -> Any:
        """Return the state of no points."""
        return []

    def add_input(self, state: Any, columns: Sequence[Column], bit_map: BitMap) -> None:  # noqa: ARG002
        """Add points."""
        values, times = (column.array for column in columns)
        rows = pa.RecordBatch.from_arrays([times, values.cast(pa.float64())], ["time", "value"])
        rows = rows.filter(values.is_valid())
        state.append((rows["time"].to_numpy(), rows["value"].to_numpy()))

    def combine_state(self, state: Any, other: Any) -> None:
        """Add the points of another state."""
        state.extend(other)

    def output_final(self, state: Any, result_value: ResultValue) -> None:
        """Set the matches as JSON, NULL if there are none."""
        times = np.concatenate([np.empty(0, np.int64), *(times for times, _ in state)])
        values = np.concatenate([np.empty(0), *(values for _, values in state)])
        order = np.argsort(times[np.isfinite(values)], kind="stable")
        result_value.set(self.find(times[np.isfinite(values)][order], values[np.isfinite(values)][order]))

    @abstractmethod
    def find(self, times: Times, values: Values) -> str | None:
        """Return the matches in points in order of time as JSON, None if there are none."""


class DtwMatch(PointAggregate):
    """The places where a series looks like a pattern if time may stretch.

    Every window of as many points as the pattern has is compared with it: its distance is the least Σ |vᵢ - pⱼ| over all paths of
    steps (i + 1, j), (i, j + 1) or (i + 1, j + 1), where the first values are not compared. The windows within the threshold are
    returned as JSON: `[{"distance":0.500000,"startTime":1,"endTime":3}]`.

    Attributes:
        pattern: The values of the pattern, separated by commas, at most 1000.
        threshold: The largest distance.

    For n points and m values the cost is n · m².
    """

    def validate(self, validator: Validator) -> None:
        """Require one input, a pattern and a threshold."""
        super().validate(validator)
        validator.validate_required_attribute("pattern")

    def before_start(self, parameters: Parameters, configurations: UDAFConfigurations) -> None:
        """Read the attributes."""
        super().before_start(parameters, configurations)
        self._pattern = read_numbers(parameters, "pattern")

    def find(self, times: Times, values: Values) -> str | None:
        """Return the matches."""
        return format_matches(
            find_warped(times, values, self._pattern, self._threshold, StepLimit.of("dtw_match", self._parameters)), digits=6
        )


class PatternMatch(PointAggregate):
    """The places where a series has the shape of a pattern, whatever its length and height.

    Pattern and series are cut into sections that rise or fall. As many sections in a row as the pattern has are stretched to its
    size; their distance is the mean difference of their values, as a share of their height, plus the squared logarithms of the
    factors by which each section had to be stretched beyond the others. If there is no match, the result is that of `DtwMatch`.

    Attributes:
        timePattern: The times of the pattern, integers in ascending order, separated by commas.
        valuePattern: As many values.
        threshold: The largest distance.

    For n points the cost is n, and as much for each section as the pattern has points.
    """

    def validate(self, validator: Validator) -> None:
        """Require one input, a pattern and a threshold."""
        times = read_numbers(validator.get_parameters(), "timePattern", "timePattern must be long,long...")
        values = read_numbers(validator.get_parameters(), "valuePattern", "valuePattern must be double,double...")
        super().validate(validator)
        for is_valid, problem in (
            (len(times) > 1, "timePattern size must larger 1."),
            (bool((np.diff(times) > 0).all()), "timePattern value must be in ascending order."),
            (len(times) == len(values), "timePattern size must equals valuePattern size."),
        ):
            validator.validate(bool, f"Illegal parameter, {problem}", is_valid)

    def before_start(self, parameters: Parameters, configurations: UDAFConfigurations) -> None:
        """Read the attributes."""
        super().before_start(parameters, configurations)
        self._times, self._values = read_numbers(parameters, "timePattern"), read_numbers(parameters, "valuePattern")

    def find(self, times: Times, values: Values) -> str | None:
        """Return the matches."""
        limit = StepLimit.of("pattern_match", self._parameters)
        pattern = self._times - self._times[0], self._values - self._values.min()
        matches: list[Match] = []
        if len(times) > 1 and values.min() < values.max():
            series = scale(times, 1000), scale(values, 500)
            sections = cut_sections(*series)
            limit.add(STEPS_PER_SECTION * len(sections), f"{len(sections)} sections of the series")
            for distance, first, last in match_sections(cut_sections(*pattern), sections):
                if distance <= self._threshold:
                    matches.append((distance, int(times[first]), int(times[last])))
        if matches:
            return format_matches(matches, digits=2)
        return format_matches(find_warped(times, values, self._values, self._threshold, limit), digits=6)


def find_warped(times: Times, values: Values, pattern: Values, threshold: np.float32, limit: StepLimit) -> Iterator[Match]:
    """Yield the windows within a distance of a pattern."""
    size = len(pattern)
    if len(values) < size:
        return
    windows = sliding_window_view(values, size)
    limit.add(STEPS_PER_CELL * len(windows) * size**2, f"{len(values)} points and a pattern of {size}")
    rows = max(MAX_CELLS_AT_ONCE // size, 1)
    for first in range(0, len(windows), rows):
        distances = warped_distances(windows[first : first + rows], pattern).astype(np.float32)
        for row in np.flatnonzero(distances <= threshold).tolist():
            yield float(distances[row]), int(times[first + row]), int(times[first + row + size - 1])


def warped_distances(windows: Values, pattern: Values) -> Values:
    """Return the distance of windows, one a row, from a pattern. The first values are not compared."""
    columns = np.ascontiguousarray(windows.T)
    last = np.full(columns.shape, np.inf)
    last[0] = 0
    for column in columns[1:]:
        current = np.full_like(last, np.inf)
        for index in range(1, len(pattern)):
            nearest = np.minimum(np.minimum(last[index], last[index - 1]), current[index - 1])
            current[index] = np.abs(column - pattern[index]) + nearest
        last = current
    distances: Values = last[-1]
    return distances


def read_numbers(parameters: Parameters, attribute: str, problem: str = "") -> Values:
    """Return the numbers of an attribute, which commas separate."""
    try:
        numbers = np.array([float(number) for number in parameters.get_string_or_default(attribute, "").split(",")])
    except ValueError:
        problem = problem or f"{attribute} must be double,double..."
        raise ParameterError(f"Illegal parameter, {problem}") from None
    if len(numbers) > MAX_PATTERN:
        raise ParameterError(f"{attribute} has {len(numbers)} values, of at most {MAX_PATTERN}")
    return numbers


def format_matches(matches: Iterator[Match] | list[Match], digits: int) -> str | None:
    """Return matches as JSON, None if there are none."""
    texts = [
        f'{{"distance":{round_half_up(distance, digits)},"startTime":{first},"endTime":{last}}}'
        for distance, first, last in matches
    ]
    return f"[{', '.join(texts)}]" if texts else None


def round_half_up(number: float, digits: int) -> str:
    """Return a number with some decimals. Halves are rounded up, as Java does."""
    return str(Decimal(repr(number)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
