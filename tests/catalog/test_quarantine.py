from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.catalog import Catalog
from headrace.errors import FencedError
from headrace.model.jobs import JobDefinition
from headrace.model.quarantine import QuarantineChange, QuarantineCode, QuarantinedRow, QuarantineRequest, RowKey
from tests.catalog.samples import with_stream

FIRST, SECOND = RowKey("m1", 1_000), RowKey("m2", 2_000, "k")
EMPTY = QuarantineChange()


def row(key: RowKey, batch: int) -> QuarantinedRow:
    return QuarantinedRow(key, 7, QuarantineCode.DATA, "too large", {"ts": "2024", "a": 1, "b": None}, batch, 5)


def keys(catalog: Catalog, stream: JobDefinition) -> list[RowKey]:
    return [held.key for held in catalog.quarantine.rows(stream.id)]


def test_rows_are_in_quarantine_from_one_micro_batch_to_another(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    catalog.quarantine.commit(stream.id, 1, QuarantineChange((row(FIRST, 1), row(SECOND, 1))))
    assert catalog.quarantine.rows(stream.id) == [row(FIRST, 1), row(SECOND, 1)]
    assert catalog.quarantine.counts() == {stream.id: 2}
    catalog.quarantine.commit(stream.id, 2, QuarantineChange(released=(FIRST,)))
    assert keys(catalog, stream) == [SECOND]
    assert catalog.quarantine.rows(stream.id, with_released=True) == [replace(row(FIRST, 1), released=2), row(SECOND, 1)]


def test_a_micro_batch_that_is_repeated_changes_nothing_twice(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    catalog.quarantine.commit(stream.id, 1, QuarantineChange((row(FIRST, 1),)))
    for _ in range(2):
        catalog.quarantine.commit(stream.id, 2, QuarantineChange((row(SECOND, 2),), (FIRST,)))
        assert keys(catalog, stream) == [SECOND]
    catalog.quarantine.commit(stream.id, 2, EMPTY)
    assert keys(catalog, stream) == [FIRST]


def test_a_stream_that_restarts_earlier_finds_what_was_in_quarantine_then(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    catalog.quarantine.commit(stream.id, 1, QuarantineChange((row(FIRST, 1),)))
    catalog.quarantine.commit(stream.id, 2, QuarantineChange((row(SECOND, 2),), (FIRST,)))
    catalog.quarantine.rewind(stream.id, 1)
    assert keys(catalog, stream) == [FIRST]
    catalog.quarantine.rewind(stream.id, 0)
    assert keys(catalog, stream) == []


def test_a_row_can_return_to_the_quarantine_in_the_micro_batch_that_replays_it(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    catalog.quarantine.commit(stream.id, 1, QuarantineChange((row(FIRST, 1),)))
    catalog.quarantine.request(stream.id, QuarantineRequest.REPLAY, 9)
    assert [held.requested for held in catalog.quarantine.rows(stream.id)] == [QuarantineRequest.REPLAY]
    assert catalog.jobs.by_id(stream.id).quarantine_requested == 9
    catalog.quarantine.commit(stream.id, 2, QuarantineChange((row(FIRST, 2),), (FIRST,)))
    assert catalog.quarantine.rows(stream.id) == [row(FIRST, 2)]


def test_a_row_that_is_dropped_is_left_out_but_not_in_quarantine(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    catalog.quarantine.commit(stream.id, 1, QuarantineChange((row(FIRST, 1), row(SECOND, 1))))
    catalog.quarantine.commit(stream.id, 2, QuarantineChange(dropped=(FIRST,)))
    assert catalog.quarantine.rows(stream.id) == [replace(row(FIRST, 1), dropped=2), row(SECOND, 1)]
    assert catalog.quarantine.counts() == {stream.id: 1}
    catalog.quarantine.request(stream.id, QuarantineRequest.REPLAY, 9)
    assert [held.requested for held in catalog.quarantine.rows(stream.id)] == [None, QuarantineRequest.REPLAY]
    catalog.quarantine.rewind(stream.id, 1)
    assert catalog.quarantine.counts() == {stream.id: 2}


def test_a_newer_request_outlives_the_one_that_was_served(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    for requested in (9, 10):
        catalog.quarantine.request(stream.id, QuarantineRequest.REPLAY, requested)
    catalog.quarantine.finish_request(stream.id, 9)
    assert catalog.jobs.by_id(stream.id).quarantine_requested == 10
    catalog.quarantine.finish_request(stream.id, 10)
    assert catalog.jobs.by_id(stream.id).quarantine_requested is None


def test_a_driver_that_was_fenced_sets_nothing_aside(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    for holder in ("a", "b"):
        lease = catalog.leases.acquire("default", holder, 1_000)
        assert lease is not None
        catalog.leases.release(lease)
    catalog.leases.acquire("default", "c", 1_000)
    with pytest.raises(FencedError):
        catalog.quarantine.commit(stream.id, 1, QuarantineChange((row(FIRST, 1),)), epoch=1)
    assert keys(catalog, stream) == []
    catalog.quarantine.commit(stream.id, 2, QuarantineChange((row(FIRST, 2),)), epoch=3)
    with pytest.raises(FencedError):
        catalog.quarantine.rewind(stream.id, 1, epoch=1)
    assert keys(catalog, stream) == [FIRST]


def test_a_dropped_stream_leaves_no_quarantine(catalog: Catalog) -> None:
    stream = with_stream(catalog)
    catalog.quarantine.commit(stream.id, 1, QuarantineChange((row(FIRST, 1),)))
    catalog.jobs.drop(stream.id)
    assert catalog.quarantine.counts() == {}
