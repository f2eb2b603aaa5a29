"""What is to be seen of executions: lag, the next one, and those that the ledger does not have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.model.continuous_queries import Execution, ExecutionState, Schedule
from headrace.model.execution_history import NO_HISTORY, ExecutionHistory, absent_executions, next_execution
from headrace.model.tree_statements import TimeoutPolicy

BLOCKED = Schedule(10, 0, 10, 0, TimeoutPolicy.BLOCKED, first=100)
DISCARD = replace(BLOCKED, policy=TimeoutPolicy.DISCARD)
DONE, FAILED, RUNNING = ExecutionState.DONE, ExecutionState.FAILED, ExecutionState.RUNNING
PENDING, MISSED = ExecutionState.PENDING, ExecutionState.MISSED


def execution(scheduled: int, state: ExecutionState = DONE) -> Execution:
    return Execution("cq", scheduled, *BLOCKED.range_at(scheduled), state)


def history(*executions: Execution) -> ExecutionHistory:
    """Return the history of executions in the order of their instants."""
    unfinished = tuple(execution for execution in executions if execution.state is not DONE)
    return ExecutionHistory(executions[::-1], unfinished, is_complete=True)


@pytest.mark.parametrize("schedule", [BLOCKED, DISCARD])
@pytest.mark.parametrize(
    ("executions", "now", "lag"),
    [
        ((), 99, 0),
        ((), 100, 0),
        ((), 134, 34),
        ((execution(100),), 109, 0),
        ((execution(100),), 134, 24),
        ((execution(100), execution(110, RUNNING)), 117, 7),
        ((execution(100), execution(110, FAILED)), 134, 24),
        ((execution(100, RUNNING), execution(110)), 119, 0),
        ((execution(50, RUNNING),), 99, 0),
        ((execution(50, RUNNING),), 134, 34),
    ],
)
def test_lag_is_the_age_of_the_oldest_execution_that_is_due_and_not_done(
    schedule: Schedule, executions: tuple[Execution, ...], now: int, lag: int
) -> None:
    assert history(*executions).lag_ms(schedule, now) == lag


def test_an_old_execution_that_failed_counts_if_it_will_be_repeated() -> None:
    failed_again = history(execution(100, FAILED), execution(110))
    assert failed_again.lag_ms(BLOCKED, 119) == 19
    assert failed_again.lag_ms(DISCARD, 119) == 0


@pytest.mark.parametrize(("now", "instant"), [(0, 100), (99, 100), (100, 110), (105, 110)])
def test_the_next_execution_lies_in_the_future(now: int, instant: int) -> None:
    assert next_execution(BLOCKED, now) == instant


def absent(schedule: Schedule, recorded: list[Execution], since: int, now: int) -> list[tuple[int, ExecutionState]]:
    return [(e.scheduled, e.state) for e in absent_executions("cq", schedule, recorded, since, now)]


def test_of_a_blocked_query_all_executions_that_are_due_are_pending() -> None:
    assert absent(BLOCKED, [execution(100)], 0, 125) == [(120, PENDING), (110, PENDING)]
    assert absent(BLOCKED, [], 0, 105) == [(100, PENDING)]
    assert absent(BLOCKED, [], 0, 99) == []


def test_of_a_query_that_discards_only_the_latest_execution_is_pending() -> None:
    assert absent(DISCARD, [], 0, 125) == [(120, PENDING), (110, MISSED), (100, MISSED)]
    assert absent(DISCARD, [execution(120)], 0, 135) == [(130, PENDING), (110, MISSED), (100, MISSED)]
    assert absent(DISCARD, [execution(120)], 110, 125) == [(110, MISSED)]


def test_executions_that_the_ledger_may_have_forgotten_are_left_out() -> None:
    assert absent(BLOCKED, [execution(150)], 150, 165) == [(160, PENDING)]


def test_a_query_without_executions_has_no_last_one() -> None:
    assert NO_HISTORY.last is None
    assert NO_HISTORY.last_scheduled(BLOCKED) is None
    assert history(execution(50)).last_scheduled(BLOCKED) is None


@pytest.mark.parametrize(
    ("instants", "is_complete", "count", "oldest"),
    [
        ((), True, 0, None),
        ((50,), True, 0, None),
        ((100, 110), True, 0, None),
        ((120, 150), True, 4, 100),
        ((120, 150), False, 2, 130),
        ((50, 100, 120), True, 1, 110),
    ],
)
def test_instants_before_the_last_one_may_be_left_out(
    instants: tuple[int, ...], is_complete: bool, count: int, oldest: int | None
) -> None:
    recorded = replace(history(*map(execution, instants)), is_complete=is_complete)
    assert recorded.left_out(BLOCKED) == (count, oldest)
    assert recorded.lag_ms(DISCARD, 150) == (0 if 150 in instants else 150 - max((100, *(at + 10 for at in instants))))
    if oldest is not None:
        assert recorded.lag_ms(BLOCKED, 150) == 150 - oldest
