"""Finding the rows with which a micro-batch cannot be computed, by trying halves of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from headrace.errors import DataError, Error
from headrace.streams.failures import to_error
from headrace.streams.windows.change_batch import Int64s

MAX_TRIALS: Final = 2_000
"""Trials for one micro-batch. If more are needed, it is not a few rows that are wrong."""


def value_error(error: Exception) -> DataError | None:
    """Return the error that says which value cannot be computed; None if the error has another cause."""
    translated = to_error(error)
    return translated if isinstance(translated, DataError) else None


@dataclass
class FailingRows:
    """The search for at most `max_rows` failing rows.

    Each trial adds rows to those that can be computed together. If it fails, its halves are tried, in the order of the rows: a row
    fails alone, or together with rows before it, as with the last row of a sum that is out of range. `compute` computes only some
    of the written rows of the micro-batch, and discards the results.
    """

    compute: Callable[[Int64s], object]
    max_rows: int
    errors: dict[int, Error] = field(default_factory=dict)
    accepted: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    trials: int = 0

    def search(self, rows: Int64s) -> dict[int, Error]:
        """Return the failing rows among some that may fail."""
        error = failure(self.compute, rows)
        return {} if error is None else self.find(rows, error)

    def find(self, rows: Int64s, error: Error) -> dict[int, Error]:
        """Return the failing rows among some that fail together with an error.

        Raises:
            Error: There are too many of them: the first error.
        """
        for part in halves(rows) if len(rows) > 1 else [rows]:
            self._try(part, error)
        return self.errors

    def _try(self, rows: Int64s, first_error: Error) -> None:
        if self.trials >= MAX_TRIALS or len(self.errors) > self.max_rows:
            raise first_error
        self.trials += 1
        tried = np.sort(np.concatenate((self.accepted, rows)))
        error = failure(self.compute, tried)
        if error is None:
            self.accepted = tried
        elif len(rows) == 1:
            self.errors[int(rows[0])] = error
        else:
            for half in halves(rows):
                self._try(half, first_error)


def failure(compute: Callable[[Int64s], object], rows: Int64s) -> Error | None:
    """Return the error of a value with which rows cannot be computed together; None if they can."""
    try:
        compute(rows)
    except Exception as error:
        cause = value_error(error)
        if cause is None:
            raise
        return cause
    return None


def halves(rows: Int64s) -> list[Int64s]:
    middle = len(rows) // 2
    return [rows[:middle], rows[middle:]]
