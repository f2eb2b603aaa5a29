"""The bound of a chunk's windows, before it is computed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.context import Context
from headrace.history import backfill
from headrace.history.chunk_evaluation import ChunkEvaluation
from headrace.model.ledger import Chunk
from headrace.runtime.context import open_context
from headrace.settings import Settings
from tests.runtime.meters import START, Meters

MINUTE = 60_000


@pytest.fixture
def context(settings: Settings) -> Iterator[Context]:
    settings.home_path.mkdir(parents=True)
    context = open_context(settings)
    yield context
    context.catalog.close()


@pytest.mark.parametrize(
    ("rest", "rows", "most"),
    [
        ("PARTITION BY tbname", 1_000, 3 * 10),
        ("PARTITION BY tbname, upper(tbname)", 1_000, 3 * 10),
        ("", 1_000, 10),
        ("PARTITION BY area", 1_000, 1_000),
        ("PARTITION BY v", 1_000, 1_000),
        ("PARTITION BY tbname", 7, 7),
    ],
)
def test_a_chunk_has_no_more_windows_than_its_rows_or_its_subtables_and_range_allow(
    context: Context, rest: str, rows: int, most: int
) -> None:
    meters = Meters.create(context)
    stream = meters.create_stream(rest=rest)
    record = context.catalog.jobs.by_id(stream)
    plan = backfill.plan_of(context, record)
    grid = backfill.grid_of(record, plan, backfill.HISTORY)
    evaluation = ChunkEvaluation(context, plan, dict.fromkeys(plan.source_ids, 0), grid)
    start = START - START % MINUTE
    assert evaluation.max_windows(Chunk(stream, "history", 0, start, start + 10 * MINUTE, rows)) == most
