from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.catalog import Catalog
from headrace.catalog.processes import process_identity
from headrace.errors import FencedError, NotFoundError, TransientError
from headrace.model.clock import ManualClock
from headrace.model.ledger import EARLIER, ChunkState, RunSummary
from tests.catalog.samples import chunks, with_stream


@pytest.fixture
def planned(catalog: Catalog) -> str:
    """Return the id of a stream with a run `history` of three chunks of 100 rows each."""
    stream = with_stream(catalog)
    catalog.ledger.plan(stream.id, "history", chunks(3))
    return stream.id


def states(catalog: Catalog, job_id: str) -> list[ChunkState]:
    return [chunk.state for chunk in catalog.ledger.chunks(job_id, "history")]


def test_a_plan_is_kept_as_pending_chunks_of_its_stream_and_run(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    planned_chunks = [replace(chunk, state=ChunkState.DONE) for chunk in reversed(chunks(3))]
    expected = [replace(chunk, job_id=stream.id, run="history") for chunk in chunks(3)]
    assert catalog.ledger.plan(stream.id, "history", planned_chunks) == expected
    assert catalog.ledger.chunks(stream.id) == expected


def test_a_run_is_planned_only_once(catalog: Catalog, planned: str) -> None:
    catalog.ledger.claim(planned, "history", 1)
    again = catalog.ledger.plan(planned, "history", chunks(5))
    assert [chunk.state for chunk in again] == [ChunkState.PENDING, ChunkState.RUNNING, ChunkState.PENDING]
    assert len(catalog.ledger.plan(planned, "manual", chunks(5))) == 5
    assert len(catalog.ledger.chunks(planned)) == 8


def test_a_plan_needs_its_stream(catalog: Catalog) -> None:
    with pytest.raises(NotFoundError):
        catalog.ledger.plan("none", "history", chunks(1))


def test_a_chunk_goes_from_pending_to_running_to_done(catalog: Catalog, planned: str) -> None:
    claimed = catalog.ledger.claim(planned, "history", 1)
    assert claimed == replace(chunks(3)[1], job_id=planned, run="history", state=ChunkState.RUNNING)
    catalog.ledger.finish(planned, "history", 1, rows=97)
    assert states(catalog, planned) == [ChunkState.PENDING, ChunkState.DONE, ChunkState.PENDING]


def test_a_chunk_that_is_done_is_not_done_again(catalog: Catalog, planned: str) -> None:
    catalog.ledger.claim(planned, "history", 0)
    catalog.ledger.finish(planned, "history", 0, rows=1)
    catalog.ledger.finish(planned, "history", 0, rows=1)
    assert catalog.ledger.claim(planned, "history", 0, "another").state is ChunkState.DONE
    with pytest.raises(FencedError):
        catalog.ledger.fail(planned, "history", 0, "too late", "another")


def test_a_failed_chunk_says_why_and_can_be_claimed_by_anyone(catalog: Catalog, planned: str) -> None:
    catalog.ledger.claim(planned, "history", 0, "a")
    catalog.ledger.fail(planned, "history", 0, "disk full", "a")
    failed = catalog.ledger.chunks(planned, "history")[0]
    assert (failed.state, failed.message) == (ChunkState.FAILED, "disk full")
    claimed = catalog.ledger.claim(planned, "history", 0, "b")
    assert (claimed.state, claimed.message) == (ChunkState.RUNNING, None)


def test_a_chunk_being_worked_on_is_kept_from_others_until_it_counts_as_abandoned(
    catalog: Catalog, planned: str, clock: ManualClock
) -> None:
    catalog.ledger.claim(planned, "history", 0, "a")
    clock.advance(4_999)
    with pytest.raises(TransientError, match="by a, since 4 s"):
        catalog.ledger.claim(planned, "history", 0, "b", abandoned_ms=5_000)
    assert catalog.ledger.claim(planned, "history", 0, "a").state is ChunkState.RUNNING
    clock.advance(5_000)
    assert catalog.ledger.claim(planned, "history", 0, "b", abandoned_ms=5_000).state is ChunkState.RUNNING


def test_a_chunk_of_a_process_that_has_ended_is_taken_over_at_once(catalog: Catalog, planned: str) -> None:
    prefix, _, start = process_identity().rpartition(".")
    catalog.ledger.claim(planned, "history", 0, f"{prefix}.{int(start) - 1}")
    assert catalog.ledger.claim(planned, "history", 0, "b").state is ChunkState.RUNNING
    catalog.ledger.finish(planned, "history", 0, 1, "b")


def test_a_holder_that_lost_its_chunk_can_neither_finish_nor_fail_it(catalog: Catalog, planned: str, clock: ManualClock) -> None:
    catalog.ledger.claim(planned, "history", 0, "a")
    clock.advance(10)
    catalog.ledger.claim(planned, "history", 0, "b", abandoned_ms=10)
    with pytest.raises(FencedError, match="RUNNING by b"):
        catalog.ledger.finish(planned, "history", 0, 1, "a")
    with pytest.raises(FencedError):
        catalog.ledger.fail(planned, "history", 0, "no", "a")
    assert states(catalog, planned)[0] is ChunkState.RUNNING


def test_a_chunk_that_was_not_claimed_cannot_be_finished(catalog: Catalog, planned: str) -> None:
    with pytest.raises(FencedError, match="PENDING"):
        catalog.ledger.finish(planned, "history", 0)
    for call in (catalog.ledger.claim, catalog.ledger.finish):
        with pytest.raises(NotFoundError, match="chunk 3"):
            call(planned, "history", 3)


def test_a_dropped_stream_takes_its_ledger_along(catalog: Catalog, planned: str) -> None:
    catalog.jobs.drop(planned)
    assert catalog.ledger.chunks(planned) == []


def test_the_summary_has_progress_and_remaining_chunks(catalog: Catalog, planned: str, clock: ManualClock) -> None:
    started = clock.now()
    assert catalog.ledger.summary(planned, "history") == RunSummary(planned, "history", 3, 0, 0, 0, 300, 0, 0)
    for number in (0, 1, 2):
        catalog.ledger.claim(planned, "history", number)
        clock.advance(1_000)
    catalog.ledger.finish(planned, "history", 0, rows=97)
    catalog.ledger.fail(planned, "history", 1, "no")
    summary = catalog.ledger.summary(planned, "history")
    assert summary == RunSummary(planned, "history", 3, 1, 1, 1, 300, 100, 97, started, started + 3_000)
    assert (summary.fraction, summary.complete, summary.eta_ms(clock.now())) == (1 / 3, False, 6_000)


def test_a_run_of_unknown_rows_is_measured_in_chunks(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    catalog.ledger.plan(stream.id, "history", chunks(2, rows=0))
    assert catalog.ledger.summary(stream.id, "history").eta_ms(0) is None
    for number in (0, 1):
        catalog.ledger.claim(stream.id, "history", number)
        catalog.ledger.finish(stream.id, "history", number)
        assert catalog.ledger.summary(stream.id, "history").fraction == (number + 1) / 2
    assert catalog.ledger.summary(stream.id, "history").complete


def test_a_run_without_chunks_is_complete(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    assert catalog.ledger.plan(stream.id, "history", []) == []
    summary = catalog.ledger.summary(stream.id, "history")
    assert (summary.complete, summary.fraction, summary.eta_ms(0)) == (True, 1.0, 0)


def test_the_rate_of_all_chunks_is_known_once_one_is_done(catalog: Catalog, clock: ManualClock) -> None:
    stream = with_stream(catalog)
    catalog.ledger.plan(stream.id, "history", chunks(2))
    assert catalog.ledger.rows_per_second() is None
    for number, rows in enumerate((3_000, 5_000)):
        catalog.ledger.claim(stream.id, "history", number)
        clock.advance(2_000)
        catalog.ledger.finish(stream.id, "history", number, rows)
    assert catalog.ledger.rows_per_second() == 2_000


def test_runs_that_have_ended_long_ago_are_forgotten_but_no_history(catalog: Catalog, planned: str, clock: ManualClock) -> None:
    for run in ("done", "failed", "waiting", "late"):
        catalog.ledger.plan(planned, run, chunks(2))
    catalog.ledger.claim(planned, "waiting", 0)
    catalog.ledger.finish(planned, "waiting", 0)
    for number in range(2):
        for run in ("history", "done", "failed"):
            catalog.ledger.claim(planned, run, number)
            catalog.ledger.finish(planned, run, number) if run != "failed" else catalog.ledger.fail(
                planned, run, number, "no space"
            )
    clock.advance(10_000)
    for number in range(2):
        catalog.ledger.claim(planned, "late", number)
        catalog.ledger.finish(planned, "late", number)
    assert catalog.ledger.forget(clock.now() - 1) == 4
    assert {chunk.run for chunk in catalog.ledger.chunks(planned)} == {"history", "waiting", "late", EARLIER}
    (kept,) = catalog.ledger.chunks(planned, EARLIER)
    assert (kept.start, kept.end, kept.state) == (0, 20, ChunkState.DONE)
    assert len(catalog.ledger.plan(planned, "done", chunks(3))) == 3


def test_the_ranges_of_forgotten_runs_are_joined(catalog: Catalog, planned: str, clock: ManualClock) -> None:
    for numbers in ((0, 1), (1, 2), (4,)):
        run = str(numbers)
        for chunk in catalog.ledger.plan(planned, run, [chunks(5)[number] for number in numbers]):
            catalog.ledger.claim(planned, run, chunk.number)
            catalog.ledger.finish(planned, run, chunk.number)
        clock.advance(1_000)
        catalog.ledger.forget(clock.now())
    assert [(chunk.start, chunk.end) for chunk in catalog.ledger.chunks(planned, EARLIER)] == [(0, 30), (40, 50)]
    assert catalog.ledger.forget(clock.now() + 1_000) == 0
