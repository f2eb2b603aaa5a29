"""Discovery of stretches in which points follow each other at a fixed interval."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.library.series import NO_POINTS, Points, RowsFunction, Times, parse_duration
from headrace.udf import UDTF, ParameterError, Parameters, Type, Validator

MAX_ROWS_FOR_GAP: Final = 128
Flags = npt.NDArray[np.bool_]
Indexes = npt.NDArray[np.int64]


class ConsecutiveSequences(RowsFunction):
    """Runs of at least two rows that are `gap` apart and have no NULL: the number of rows, at the time of the first.

    Takes any number of inputs of any type.

    Attributes:
        gap: The interval, such as `5m`. By default the most frequent one of the first 128 rows; if several are, the one that comes
            first.
    """

    output_data_type = Type.INT32

    def validate(self, validator: Validator) -> None:
        """Require a positive gap, if there is one."""
        require_duration(validator, "gap", "1ms")

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the gap."""
        self._gap = parse_duration(parameters.get_string_or_default("gap", "0ms"), parameters)

    def compute_rows(self, rows: pa.RecordBatch) -> Points:
        """Return the runs."""
        times = rows["time"].to_numpy()
        is_complete = np.ones(len(times), np.bool_)
        for column in rows.columns[1:]:
            is_complete &= column.is_valid().to_numpy(zero_copy_only=False)
        gap = self._gap or most_frequent_gap(times)
        return self.find(times, is_complete, gap) if len(times) and gap else NO_POINTS

    def find(self, times: Times, is_complete: Flags, gap: int) -> Points:
        """Return the runs of at least one row."""
        starts, counts = find_runs(times, is_complete, gap)
        return times[starts][counts > 1], counts[counts > 1]


class ConsecutiveWindows(ConsecutiveSequences):
    """Windows of `length` in which rows are `gap` apart and have no NULL: the number of rows, at the time of the first.

    As in IoTDB 1.3.4, windows are only distinguished in the run at the end of the series, each with the number of rows of that run;
    for the runs before, the result is that of `ConsecutiveSequences`. If `gap` is set and not longer than `length`, a first point
    at time -gap has the number of rows that a window should have.

    Attributes:
        gap: As for `ConsecutiveSequences`.
        length: The length of a window, such as `10m`; required.
    """

    def validate(self, validator: Validator) -> None:
        """Require a length, and a positive gap if there is one."""
        super().validate(validator)
        validator.validate_required_attribute("length")
        require_duration(validator, "length", "")

    def read_attributes(self, parameters: Parameters) -> None:
        """Read the attributes."""
        super().read_attributes(parameters)
        self._length = parse_duration(parameters.get_string_or_default("length", ""), parameters)

    def find(self, times: Times, is_complete: Flags, gap: int) -> Points:
        """Return the windows, and the runs before them."""
        starts, counts = find_runs(times, is_complete, gap)
        leading: Points = ([-gap], [self._length // gap + 1]) if 0 < self._gap <= self._length else ([], [])
        trailing: Points = ([], [])
        if is_complete[-1]:
            last_starts = np.arange(times[starts[-1]], times[-1] - self._length + 1, gap)
            trailing = last_starts, np.full(len(last_starts), counts[-1])
            starts, counts = starts[:-1], counts[:-1]
        runs = times[starts][counts > 1], counts[counts > 1]
        return np.concatenate([leading[0], runs[0], trailing[0]]), np.concatenate([leading[1], runs[1], trailing[1]])


def find_runs(times: Times, is_complete: Flags, gap: int) -> tuple[Indexes, Indexes]:
    """Return the rows that begin runs of complete rows which are `gap` apart, and the number of rows of each."""
    follows = np.zeros(len(times), np.bool_)
    follows[1:] = (np.diff(times) == gap) & is_complete[1:] & is_complete[:-1]
    starts = np.flatnonzero(is_complete & ~follows)
    ends = np.flatnonzero(is_complete & ~np.append(follows[1:], False))
    return starts, ends - starts + 1


def most_frequent_gap(times: Times) -> int:
    """Return the most frequent interval of the first rows, 0 if there is only one row."""
    gaps, firsts, counts = np.unique(np.diff(times[:MAX_ROWS_FOR_GAP]), return_index=True, return_counts=True)
    return int(gaps[np.lexsort((firsts, -counts))[0]]) if len(gaps) else 0


def require_duration(validator: Validator, attribute: str, default: str) -> None:
    """Require an attribute to be a positive duration."""
    parameters = validator.get_parameters()
    if parse_duration(parameters.get_string_or_default(attribute, default), parameters) <= 0:
        raise ParameterError(f"{attribute} should be a time period whose unit is ms, s, m, h.")


FUNCTIONS: Final[dict[str, type[UDTF]]] = {
    "UDTFConsecutiveSequences": ConsecutiveSequences,
    "UDTFConsecutiveWindows": ConsecutiveWindows,
}
