from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.catalog import Catalog
from headrace.catalog import executions as module
from headrace.catalog.processes import process_identity
from headrace.errors import FencedError, NotFoundError, TransientError
from headrace.model.clock import ManualClock
from headrace.model.continuous_queries import ContinuousQuery, Execution, ExecutionState, Schedule
from headrace.model.tree_statements import TimeoutPolicy
from headrace.queries.kind import CONTINUOUS_QUERY
from tests.catalog.samples import definition

EVERY_10S = Schedule(10_000, 0, 10_000, 0, TimeoutPolicy.BLOCKED, first=20_000)


@pytest.fixture
def query(catalog: Catalog) -> str:
    """Return the id of a continuous query that is executed every ten seconds over the last ten."""
    return create(catalog, "cq1", EVERY_10S)


def create(catalog: Catalog, name: str, schedule: Schedule) -> str:
    details = ContinuousQuery(schedule, "UTC", ("root.plant.**",), ("root.agg.::",))
    job = definition(name, kind=CONTINUOUS_QUERY, database="", sources=(), target=None, continuous_query=details)
    catalog.jobs.create(job)
    return job.id


def test_a_continuous_query_is_recorded_with_its_schedule_and_without_a_database(catalog: Catalog, query: str) -> None:
    record = catalog.jobs.get("", "cq1", CONTINUOUS_QUERY)
    assert (record.definition.id, record.definition.schedule, str(record.definition)) == (query, EVERY_10S, "cq1")
    assert record.definition.databases == frozenset()
    with pytest.raises(NotFoundError, match="continuous query cq2 does not exist") as refused:
        catalog.jobs.get("", "cq2", CONTINUOUS_QUERY)
    assert refused.value.hint == "did you mean cq1?"


def test_an_execution_is_claimed_once_and_done_once(catalog: Catalog, clock: ManualClock, query: str) -> None:
    claimed = catalog.executions.claim(query, EVERY_10S, 20_000, "airflow")
    assert (claimed.start, claimed.end, claimed.state, claimed.attempt) == (10_000, 20_000, ExecutionState.RUNNING, 1)
    with pytest.raises(TransientError, match="airflow"):
        catalog.executions.claim(query, EVERY_10S, 20_000, "snode")
    clock.advance(250)
    catalog.executions.finish(claimed, 7)
    done = catalog.executions.claim(query, EVERY_10S, 20_000, "snode")
    assert (done.state, done.attempt, done.rows, done.duration_ms, done.holder) == (ExecutionState.DONE, 1, 7, 250, "airflow")
    record = catalog.jobs.by_id(query)
    assert (record.progress.counters.rows_out, record.progress.counters.batches, record.progress.updated) == (7, 1, 1_000_250)


def test_a_claim_of_a_process_that_has_ended_is_taken_over_at_once(catalog: Catalog, query: str) -> None:
    prefix, _, start = process_identity().rpartition(".")
    dead, alive = f"backfill {prefix}.{int(start) - 1}", f"backfill {process_identity()}"
    catalog.executions.claim(query, EVERY_10S, 20_000, dead)
    taken = catalog.executions.claim(query, EVERY_10S, 20_000, alive)
    assert (taken.attempt, taken.holder, taken.replaces) == (2, alive, True)
    with pytest.raises(TransientError, match="is being worked on by backfill"):
        catalog.executions.claim(query, EVERY_10S, 20_000, "snode")


def test_a_claim_of_a_process_elsewhere_is_not_taken_over(catalog: Catalog, query: str) -> None:
    prefix, _, start = process_identity().rpartition(".")
    catalog.executions.claim(query, EVERY_10S, 20_000, f"backfill other-{prefix}.{int(start) - 1}")
    with pytest.raises(TransientError, match="is being worked on by backfill other-"):
        catalog.executions.claim(query, EVERY_10S, 20_000, f"backfill {process_identity()}")


def test_a_failed_execution_says_why_and_is_claimed_again(catalog: Catalog, query: str) -> None:
    catalog.executions.fail(catalog.executions.claim(query, EVERY_10S, 20_000, "a"), "no space")
    (failed,) = catalog.executions.unfinished(query)
    assert (failed.state, failed.message) == (ExecutionState.FAILED, "no space")
    second = catalog.executions.claim(query, EVERY_10S, 20_000, "b")
    assert (second.attempt, second.holder, second.message, second.replaces) == (2, "b", None, True)
    catalog.executions.finish(second, 1)
    assert catalog.executions.unfinished(query) == []


def test_a_done_execution_is_repeated_on_request(catalog: Catalog, query: str) -> None:
    catalog.executions.finish(catalog.executions.claim(query, EVERY_10S, 20_000, "a"), 3)
    again = catalog.executions.claim(query, EVERY_10S, 20_000, "b", again=True)
    assert (again.state, again.attempt, again.replaces) == (ExecutionState.RUNNING, 2, True)


def test_what_was_done_for_a_holder_is_not_repeated_for_it(catalog: Catalog, query: str) -> None:
    """Two processes may have found it undone and claim it one after the other."""
    first = catalog.executions.claim(query, EVERY_10S, 20_000, "x/by/a", again=True)
    catalog.executions.finish(first, 3)
    for holder in ("x/by/b", "x"):
        found = catalog.executions.claim(query, EVERY_10S, 20_000, holder, again=True)
        assert (found.state, found.holder, found.attempt) == (ExecutionState.DONE, "x/by/a", 1)
    assert catalog.executions.claim(query, EVERY_10S, 20_000, "x/2", again=True).attempt == 2


def test_a_done_attempt_cannot_fail_afterwards(catalog: Catalog, query: str) -> None:
    """A process that takes another one for dead may mark its execution FAILED just when it was done."""
    claimed = catalog.executions.claim(query, EVERY_10S, 20_000, "a")
    catalog.executions.finish(claimed, 3)
    with pytest.raises(FencedError, match="attempt 1 of a is done"):
        catalog.executions.fail(claimed, "the process ended before it was done")
    assert catalog.executions.unfinished(query) == []


def test_a_newer_attempt_fences_an_older_one(catalog: Catalog, clock: ManualClock, query: str) -> None:
    old = catalog.executions.claim(query, EVERY_10S, 20_000, "a")
    clock.advance(module.ABANDONED_MS)
    new = catalog.executions.claim(query, EVERY_10S, 20_000, "b")
    catalog.executions.check(new)
    with pytest.raises(FencedError, match="superseded by attempt 2 of b"):
        catalog.executions.check(old)
    with pytest.raises(FencedError, match="superseded by attempt 2 of b"):
        catalog.executions.finish(old, 1)
    catalog.executions.finish(new, 2)
    assert catalog.jobs.by_id(query).progress.counters.rows_out == 2


def test_the_holder_of_a_claim_may_repeat_it(catalog: Catalog, query: str) -> None:
    catalog.executions.claim(query, EVERY_10S, 20_000, "a")
    assert catalog.executions.claim(query, EVERY_10S, 20_000, "a").attempt == 2


def test_only_executions_that_move_on_to_a_new_range_replace_nothing(catalog: Catalog, query: str) -> None:
    replaced = [catalog.executions.claim(query, EVERY_10S, at, "a").replaces for at in (30_000, 40_000, 20_000, 40_000, 50_000)]
    assert replaced == [True, False, True, True, False]
    overlapping = replace(EVERY_10S, start_offset=15_000)
    job = create(catalog, "cq2", overlapping)
    assert [catalog.executions.claim(job, overlapping, at, "a").replaces for at in (20_000, 30_000)] == [True, True]


def test_dropping_the_query_drops_its_executions_and_fails_those_that_run(catalog: Catalog, query: str) -> None:
    claimed = catalog.executions.claim(query, EVERY_10S, 20_000, "a")
    catalog.jobs.drop(query)
    assert catalog.executions.all(query) == []
    for use in (
        lambda: catalog.executions.check(claimed),
        lambda: catalog.executions.finish(claimed, 1),
        lambda: catalog.executions.claim(query, EVERY_10S, 30_000, "a"),
    ):
        with pytest.raises(NotFoundError, match="dropped"):
            use()


def test_queries_of_one_name_are_counted_when_they_are_dropped(catalog: Catalog, query: str) -> None:
    assert catalog.jobs.dropped_queries("cq1") == 0
    for number in (1, 2):
        catalog.jobs.drop(query)
        assert catalog.jobs.dropped_queries("cq1") == number
        create(catalog, "cq1", EVERY_10S)
    assert catalog.jobs.dropped_queries("cq2") == 0


def test_the_last_instant_counts_whatever_became_of_it(catalog: Catalog, query: str) -> None:
    assert catalog.executions.last(query, 20_000) is None
    catalog.executions.claim(query, EVERY_10S, 10_000, "a")
    assert catalog.executions.last(query, 20_000) is None
    catalog.executions.fail(catalog.executions.claim(query, EVERY_10S, 30_000, "a"), "no space")
    assert catalog.executions.last(query, 20_000) == 30_000


def test_only_the_newest_executions_are_kept(catalog: Catalog, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 3)
    monkeypatch.setattr(module, "PRUNED_EVERY", 5)
    for number in range(2, 11):
        catalog.executions.finish(catalog.executions.claim(query, EVERY_10S, number * 10_000, "a"), 1)
    assert [execution.scheduled for execution in catalog.executions.all(query)] == [100_000, 90_000, 80_000]
    assert [execution.scheduled for execution in catalog.executions.all(query, limit=1)] == [100_000]


def finish(catalog: Catalog, job_id: str, schedule: Schedule, *instants: int) -> None:
    """Execute a continuous query at instants of its schedule."""
    for instant in instants:
        catalog.executions.finish(catalog.executions.claim(job_id, schedule, instant, "a", again=True), 1)


def test_an_old_execution_that_runs_again_is_not_forgotten(catalog: Catalog, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT", 3)
    monkeypatch.setattr(module, "PRUNED_EVERY", 1)
    finish(catalog, query, EVERY_10S, *range(20_000, 80_000, 10_000))
    again = catalog.executions.claim(query, EVERY_10S, 20_000, "b", again=True)
    catalog.executions.finish(again, 5)
    assert catalog.jobs.by_id(query).progress.counters.batches == 7


def test_the_histories_of_all_queries_have_the_newest_and_the_unfinished_executions(catalog: Catalog, query: str) -> None:
    other = create(catalog, "cq2", EVERY_10S)
    create(catalog, "cq3", EVERY_10S)
    finish(catalog, query, EVERY_10S, 20_000, 30_000, 40_000)
    catalog.executions.fail(catalog.executions.claim(query, EVERY_10S, 20_000, "b", again=True), "no space")
    finish(catalog, other, EVERY_10S, 20_000)
    catalog.executions.claim(other, EVERY_10S, 30_000, "a")
    histories = catalog.executions.histories(2)
    assert {job: [execution.scheduled for execution in history.newest] for job, history in histories.items()} == {
        query: [40_000, 30_000],
        other: [30_000, 20_000],
    }
    assert {
        job: [(execution.scheduled, execution.state) for execution in history.unfinished] for job, history in histories.items()
    } == {
        query: [(20_000, ExecutionState.FAILED)],
        other: [(30_000, ExecutionState.RUNNING)],
    }


def test_failed_attempts_are_counted(catalog: Catalog, query: str) -> None:
    for _ in range(2):
        catalog.executions.fail(catalog.executions.claim(query, EVERY_10S, 20_000, "a"), "no space")
    finish(catalog, query, EVERY_10S, 20_000)
    counters = catalog.jobs.by_id(query).progress.counters
    assert (counters.failures, counters.batches) == (2, 1)


def test_instants_are_left_out_if_a_later_one_was_executed(catalog: Catalog, query: str) -> None:
    ledger = catalog.executions
    assert ledger.left_out(query, EVERY_10S) == []
    for instant in (10_000, 50_000, 70_000):
        ledger.claim(query, EVERY_10S, instant, "a")
    assert ledger.left_out(query, EVERY_10S) == [20_000, 30_000, 40_000, 60_000]
    for instant in (20_000, 30_000, 40_000, 60_000):
        ledger.claim(query, EVERY_10S, instant, "a")
    assert ledger.left_out(query, EVERY_10S) == []


def test_executions_that_the_ledger_has_forgotten_are_not_left_out(
    catalog: Catalog, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT", 3)
    monkeypatch.setattr(module, "PRUNED_EVERY", 5)
    ledger, second = catalog.executions, 10_000
    finish(catalog, query, EVERY_10S, *(number * second for number in range(2, 12)))
    finish(catalog, query, EVERY_10S, 3 * second)
    assert ledger.left_out(query, EVERY_10S) == [], "an old one was executed again"
    claimed = ledger.claim_all([(query, EVERY_10S, number * second) for number in range(12, 17)], "a")
    executions = [claim for claim in claimed if isinstance(claim, Execution)]
    ledger.fail(executions[0], "no space")
    ledger.release(executions[1:])
    assert [execution.scheduled for execution in ledger.all(query)] == [12 * second]
    assert ledger.left_out(query, EVERY_10S) == []
    assert ledger.first_known(query, EVERY_10S) == 13 * second
    finish(catalog, query, EVERY_10S, 15 * second)
    assert ledger.left_out(query, EVERY_10S) == [13 * second, 14 * second]
