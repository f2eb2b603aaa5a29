"""Compacting and vacuuming beside streams."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.model.positions import Position, source_id
from headrace.model.streams import StreamProgress
from headrace.runtime.context import Context, open_context
from headrace.runtime.maintenance import maintain
from headrace.settings import Settings
from tests.runtime.meters import METERS, START, Meters, readings


@pytest.fixture
def context(settings: Settings) -> Iterator[Context]:
    opened = open_context(settings)
    yield opened
    opened.tables.close()
    opened.catalog.close()


@pytest.fixture
def meters(context: Context) -> Meters:
    made = Meters.create(context)
    for number in range(6):
        made.write(readings(5, seed=number, start=START + number * 100_000))
    return made


def test_many_small_files_become_few_and_the_old_ones_go(meters: Meters) -> None:
    (done,) = maintain(meters.context, "db", retention_hours=0)
    assert (done.table, done.compacted) == ("db.meters", 6)
    assert done.removed >= 6
    rows = meters.context.tables.scan(METERS, meters.context.catalog.databases.get("db"))
    assert rows.num_rows == len(meters.stored)


def test_nothing_is_removed_that_a_stream_has_still_to_read(meters: Meters) -> None:
    stream = meters.create_stream("FILL_HISTORY 1")
    done = {each.table: each for each in maintain(meters.context, retention_hours=0)}
    assert done["db.meters"].removed == 0
    assert "stream s" in done["db.meters"].kept
    written = 6
    assert meters.context.tables.version(METERS) > written
    meters.context.catalog.streams.set_progress(stream, StreamProgress(Position(1, {source_id("db", "meters"): written})))
    done = {each.table: each for each in maintain(meters.context, retention_hours=0)}
    assert done["db.meters"].removed >= 6


def test_a_table_that_cannot_be_maintained_is_passed_over(meters: Meters) -> None:
    meters.context.tables.drop(METERS)
    assert maintain(meters.context) == []
