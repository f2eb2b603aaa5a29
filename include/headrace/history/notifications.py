"""Notifications about a stream's history (`NOTIFY_HISTORY 1`): messages of each chunk, delivered once the stream is live."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import STATE, WSTART
from headrace.compute.windows import key_columns
from headrace.compute.windows.fill import IS_FILLED
from headrace.context import Context
from headrace.history.chunks import MAX_CHUNKS
from headrace.model.ledger import Chunk
from headrace.model.positions import Position
from headrace.storage import Commit
from headrace.storage.delta.commits import chunk_app
from headrace.streams.definition.define import StreamPlan
from headrace.streams.notifications.events import WindowEvents, add_neighbor_states
from headrace.streams.notifications.messages import MessageEncoder
from headrace.streams.sinks.target import TargetTable

MAX_PARTS: Final = 1_000_000


def notify_chunk(context: Context, target: TargetTable, chunk: Chunk, parts: Iterable[pa.Table]) -> None:
    """Add the messages about a chunk's windows to the stream's outbox, before the chunk is committed.

    Repeating a chunk adds nothing: the outbox records its parts. Messages of history have negative micro-batch numbers, in the
    order of chunks, so that they precede all others.
    """
    plan = target.plan
    if plan.notification is None or not plan.notification.history:
        return
    encoder, outbox = MessageEncoder(plan, target), context.tables.outbox(plan.id)
    outbox.open()
    for number, windows in enumerate(parts):
        position = Position((chunk.number - MAX_CHUNKS) * MAX_PARTS + number, {})
        messages = encoder.encode(history_events(plan, windows), position, context.clock.now())
        if messages:
            app = f"{chunk_app(chunk.job_id, chunk.run, chunk.number)}.{number}"
            outbox.append(messages, Commit(app, 1), position.batch)


def history_events(plan: StreamPlan, windows: pa.Table) -> WindowEvents:
    """Return the events of finished windows: each opens and closes. Windows that FILL has added have none."""
    assert plan.notification is not None
    if IS_FILLED in windows.column_names:
        windows = windows.filter(pc.invert(windows[IS_FILLED]))
    if plan.conditions.state:
        if STATE not in windows.column_names:  # Kernels name it, Spark does not.
            windows = windows.append_column(STATE, windows[plan.conditions.state])
        windows = add_neighbor_states(windows, [windows], [*key_columns(plan.query), WSTART])
    return WindowEvents({event: windows for event in plan.notification.events if windows.num_rows})
