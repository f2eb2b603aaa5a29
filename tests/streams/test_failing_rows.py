"""The search for the rows with which a micro-batch cannot be computed: what it finds, and what it may cost."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from headrace.errors import DataError, Error, FunctionTimeoutError
from headrace.streams.quarantine import failing_rows
from headrace.streams.quarantine.failing_rows import MAX_TIMEOUTS, Budget, FailingRows
from headrace.streams.windows.change_batch import Int64s

LOAD = np.arange(98_728)


class Computation:
    """Fails with the first of some rows, and counts how often it is tried."""

    def __init__(self, failing: Iterable[int], error: type[Error] = DataError) -> None:
        self.failing = np.array(sorted(failing), np.int64)
        self.error = error
        self.trials = self.failures = 0

    def __call__(self, rows: Int64s) -> None:
        self.trials += 1
        found = np.intersect1d(rows, self.failing)
        if len(found):
            self.failures += 1
            raise self.error(f"row {found[0]}")


def test_a_load_of_which_all_rows_fail_is_set_aside_whole_after_a_few_trials() -> None:
    compute = Computation(LOAD.tolist())
    errors = FailingRows(compute, 1_000_000).find(LOAD, DataError("row 0"))
    assert sorted(errors) == LOAD.tolist()
    assert compute.trials < 20


@pytest.mark.parametrize("failing", [[0], [98_727], [5, 6, 7], [3, 50_000, 98_000], range(1000, 1100)])
def test_the_rows_that_fail_among_many_are_found(failing: Iterable[int]) -> None:
    compute = Computation(failing)
    errors = FailingRows(compute, 1_000).find(LOAD, DataError("some row"))
    assert {index: error.message for index, error in errors.items()} == {index: f"row {index}" for index in failing}


def test_a_search_without_trials_left_counts_what_it_has_not_tried_as_failing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failing_rows, "MAX_TRIALS", 40)
    monkeypatch.setattr(failing_rows, "MIN_TRIALS", 40)
    compute = Computation(range(1, 400, 2))
    search = FailingRows(compute, 1_000)
    errors = search.find(np.arange(400), DataError("row 1"))
    assert sorted({*errors, *search.accepted.tolist()}) == list(range(400))
    assert set(range(1, 400, 2)) <= set(errors)
    assert compute.trials <= 40


@pytest.mark.parametrize(("failing", "found"), [([700], [700]), (range(1000), range(1000))])
def test_a_function_that_does_not_return_is_not_called_many_times(failing: Iterable[int], found: Iterable[int]) -> None:
    compute = Computation(failing, FunctionTimeoutError)
    errors = FailingRows(compute, 1_000).find(np.arange(1000), FunctionTimeoutError("some row"))
    assert sorted(errors) == list(found)
    assert compute.failures <= MAX_TIMEOUTS


def test_the_first_row_on_which_a_function_does_not_return_is_found_with_few_calls() -> None:
    compute = Computation(range(700, 4000), FunctionTimeoutError)
    first = FailingRows(compute, 1).first(np.arange(4000), FunctionTimeoutError("some row"))
    assert first is not None
    assert first[0] == 700
    assert compute.failures <= MAX_TIMEOUTS


def test_a_search_without_time_left_ends_after_its_first_trials() -> None:
    compute = Computation(range(1, 100_000, 2))
    errors = FailingRows(compute, 100_000, Budget(ends_at=0.0)).find(LOAD, DataError("row 1"))
    assert set(range(1, len(LOAD), 2)) <= set(errors)
    assert compute.trials <= failing_rows.MIN_TRIALS


def test_more_failing_rows_than_there_is_room_for_end_the_search() -> None:
    compute = Computation(range(0, 2_000, 2))
    errors = FailingRows(compute, 3).find(np.arange(2_000), DataError("row 0"))
    assert len(errors) > 3
    assert compute.trials < 60


@pytest.mark.parametrize("first", [0, 1, 49_999, 98_727])
def test_the_first_failing_row_is_found_by_halving(first: int) -> None:
    compute = Computation([first, 98_727])
    found = FailingRows(compute, 1).first(LOAD, DataError("some row"))
    assert found is not None
    row, error = found
    assert (row, isinstance(error, Error)) == (first, True)
    assert compute.trials <= 17
