"""Finding the rows with which a micro-batch cannot be computed, by trying halves of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from headrace.errors import DataError, Error, FunctionTimeoutError
from headrace.streams.failures import to_error
from headrace.streams.windows.change_batch import Int64s

MAX_TRIALS: Final = 2_000
"""Trials for one micro-batch."""
MAX_SECONDS: Final = 20.0
"""How long the trials for one micro-batch may take, beyond the first few."""
MIN_TRIALS: Final = 64
"""Trials that are made however long they take: enough to find a row or two."""
MAX_TIMEOUTS: Final = 12
"""Trials that may end because a function does not return: enough to find one row among thousands."""
SAMPLES: Final = 16
"""If this many rows, spread over a micro-batch, fail one by one, all of its rows do."""
MIN_SAMPLED_ROWS: Final = 256


@dataclass
class Budget:
    """What the search in one micro-batch has cost, and may cost."""

    trials: int = 0
    timeouts: int = 0
    ends_at: float = field(default_factory=lambda: time.monotonic() + MAX_SECONDS)

    def take(self) -> bool:
        """Return whether another trial may be made, and count it."""
        self.trials += 1
        if self.timeouts >= MAX_TIMEOUTS:
            return False
        return self.trials <= MIN_TRIALS or (self.trials <= MAX_TRIALS and time.monotonic() < self.ends_at)

    def note(self, error: Error | None) -> None:
        """Count the error of a trial if the trial took long."""
        self.timeouts += isinstance(error, FunctionTimeoutError)


def value_error(error: Exception) -> DataError | None:
    """Return the error that says which value cannot be computed; None if the error has another cause."""
    translated = to_error(error)
    return translated if isinstance(translated, DataError) else None


@dataclass
class FailingRows:
    """The search for failing rows, within a budget. It ends early once there are more than `max_rows`.

    Each trial adds rows to those that can be computed together. If it fails, its halves are tried, in the order of the rows: a row
    fails alone, or together with rows before it, as with the last row of a sum that is out of range. `compute` computes only some
    of the written rows of the micro-batch, and discards the results. Rows that the search has no more trials for count as failing:
    each was in a trial that failed.
    """

    compute: Callable[[Int64s], object]
    max_rows: int
    budget: Budget = field(default_factory=Budget)
    errors: dict[int, Error] = field(default_factory=dict)
    accepted: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    def search(self, rows: Int64s) -> dict[int, Error]:
        """Return the failing rows among some that may fail."""
        error = self._failure(rows)
        return {} if error is None else self.find(rows, error)

    def find(self, rows: Int64s, error: Error) -> dict[int, Error]:
        """Return the failing rows among some that fail together with an error."""
        self.budget.note(error)
        if self._all_fail(rows):
            self._give_up(rows, error)
        else:
            for part in halves(rows) if len(rows) > 1 else [rows]:
                self._try(part, error)
        return self.errors

    def first(self, rows: Int64s, error: Error) -> tuple[int, Error] | None:
        """Return the first row with which rows that fail together cannot be computed, and its error; None if it is not found."""
        passing, failing = 0, len(rows)
        while failing - passing > 1:
            if not self.budget.take():
                return None
            middle = (passing + failing) // 2
            earlier = self._failure(rows[:middle])
            passing, failing, error = (passing, middle, earlier) if earlier is not None else (middle, failing, error)
        return int(rows[failing - 1]), error

    def _all_fail(self, rows: Int64s) -> bool:
        """Return whether each row of a sample fails, and it is the rows that do: that can be computed without any."""
        if len(rows) < MIN_SAMPLED_ROWS or self.budget.timeouts:
            return False
        sample = rows[np.linspace(0, len(rows) - 1, SAMPLES, dtype=np.int64)]
        is_failing = all(self.budget.take() and self._failure(sample[[number]]) is not None for number in range(SAMPLES))
        return is_failing and self._failure(rows[:0]) is None

    def _try(self, rows: Int64s, error: Error) -> None:
        if len(self.errors) > self.max_rows or not self.budget.take():
            self._give_up(rows, error)
            return
        tried = np.sort(np.concatenate((self.accepted, rows)))
        failed = self._failure(tried)
        if failed is None:
            self.accepted = tried
        elif len(rows) == 1:
            self.errors[int(rows[0])] = failed
        else:
            for half in halves(rows):
                self._try(half, failed)

    def _failure(self, rows: Int64s) -> Error | None:
        error = failure(self.compute, rows)
        self.budget.note(error)
        return error

    def _give_up(self, rows: Int64s, error: Error) -> None:
        self.errors |= dict.fromkeys(rows.tolist(), error)


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
