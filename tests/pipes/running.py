"""Plugins of pipes as the tests of this folder create them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from headrace.egress import EgressPolicy
from headrace.model.positions import Offsets
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.builtin import BY_NAME
from headrace.pipes.events import DeviceRows, Event, InsertEvent
from headrace.pipes.plugins import Delivery, PipeContext, Source, SourceBatch
from headrace.settings import load
from tests.support.waiting import wait_until

PIPE_ID = "pipe-1"


def created(
    plugin: str, settings: dict[str, str], pipe_id: str = PIPE_ID, timeout_ms: int = 60_000, egress: EgressPolicy | None = None
) -> Any:
    """Return a source or sink with these attributes, which are checked first, in a home with this time limit of sinks."""
    attributes = PipeAttributes(settings)
    BY_NAME[plugin].validate()(attributes)
    loaded = load(pipe_sink_timeout_ms=timeout_ms)
    context = cast(Any, SimpleNamespace(settings=loaded, egress=egress or EgressPolicy(loaded, lambda: True)))
    return BY_NAME[plugin].create()(attributes, PipeContext(context, pipe_id, "p"))


def delivery(*events: Event | DeviceRows, batch: int = 0, pipe_id: str = PIPE_ID) -> Delivery:
    """Return a delivery; rows are inserted."""
    return Delivery(pipe_id, batch, [InsertEvent(one) if isinstance(one, DeviceRows) else one for one in events])


def read_all(source: Source, offsets: Offsets, rows: int) -> tuple[list[SourceBatch], Offsets]:
    """Return batches from a source until there are a number of rows, and the offsets after them."""
    batches: list[SourceBatch] = []

    def is_complete() -> bool:
        nonlocal offsets
        batch = source.read(offsets)
        if batch is not None:
            offsets = batch.offsets
            batches.append(batch)
            source.acknowledge(offsets)
        return sum(map(row_count, batches)) >= rows

    wait_until(is_complete, f"{rows} rows", pause_s=0.01)
    return batches, offsets


def row_count(batch: SourceBatch) -> int:
    """Return the number of rows of a batch."""
    return sum(data.rows.num_rows for data in data_of(batch.events))


def data_of(events: Sequence[Event]) -> list[DeviceRows]:
    """Return the rows of the insertions among events."""
    return [event.data for event in events if isinstance(event, InsertEvent)]
