"""The sink of a stream with a notification: its target table, and an outbox with the messages about its windows."""

from __future__ import annotations

from dataclasses import replace

from headrace.compute.plan import WSTART
from headrace.compute.windows import key_columns
from headrace.context import Context
from headrace.errors import Error
from headrace.model.notifications import Notification
from headrace.model.positions import Position, latest
from headrace.streams.batches import BatchResult
from headrace.streams.definition.define import StreamPlan
from headrace.streams.filling.filler import table_sink_of
from headrace.streams.notifications.events import confirm_evicted
from headrace.streams.notifications.messages import MessageEncoder
from headrace.streams.sinks.outbox import OutboxSink
from headrace.streams.sinks.sink import Sink
from headrace.streams.state.checkpoints import StreamState

FAILED_EVENT = "NOTIFY_FAILED"


class NotifyingSink(Sink):
    """Commits results to the target, then messages to the outbox.

    If a driver dies in between, the next one finds the messages in the checkpoint of the micro-batch and commits them. So a message
    is sent if and only if its micro-batch is committed.
    """

    def __init__(self, context: Context, plan: StreamPlan, notification: Notification) -> None:
        from headrace.streams.notifications.sender import NotificationSender

        self._context = context
        self._plan = plan
        self._table = table_sink_of(context, plan)
        sender = NotificationSender(notification, context.egress)
        self._outbox = OutboxSink(
            context, plan.id, plan.source_ids, lambda result: result.messages, sender, report=self._report, disconnect=sender.close
        )
        self._table_batch: int | None = None
        self._outbox_batch: int | None = None

    def fence(self) -> None:
        self._table.fence()
        self._outbox.fence()

    def position(self) -> Position | None:
        table, outbox = self._table.position(), self._outbox.position()
        self._table_batch = None if table is None else table.batch
        self._outbox_batch = None if outbox is None else outbox.batch
        return latest(table, outbox)

    def has_room(self) -> bool:
        """See `Sink`. False while the receivers do not keep up."""
        return self._outbox.has_room()

    def is_busy(self) -> bool:
        return self._outbox.is_busy()

    def failure(self) -> Error | None:
        return self._outbox.failure()

    def prepare(self, result: BatchResult, position: Position) -> BatchResult:
        if result.events is None:
            return result
        target, key = self._table.target, [*key_columns(self._plan.query), WSTART]
        events = confirm_evicted(result.events, target.has_rows, key)
        encoder = MessageEncoder(self._plan, target)
        return replace(result, messages=tuple(encoder.encode(events, position, self._context.clock.now())))

    def resume(self, state: StreamState) -> None:
        if self._outbox_batch is None or self._outbox_batch < state.position.batch:
            self._append(state.messages, state.position)

    def commit(self, result: BatchResult, position: Position, expected: int | None) -> bool:
        """See `Sink`. The table and the outbox have their own last micro-batches, so `expected` is not used."""
        del expected
        has_rows = self._table.commit(result, position, self._table_batch)
        if has_rows:
            self._table_batch = position.batch
        return self._append(result.messages, position) or has_rows

    def close(self, grace_s: float) -> None:
        self._outbox.close(grace_s)

    def _append(self, messages: tuple[bytes, ...], position: Position) -> bool:
        has_messages = self._outbox.append(messages, position, self._outbox_batch)
        if has_messages:
            self._outbox_batch = position.batch
        return has_messages

    def _report(self, error: str) -> None:
        self._context.catalog.events.record("job", self._plan.id, FAILED_EVENT, f"retrying a notification: {error}")


def sink_of(context: Context, plan: StreamPlan) -> Sink:
    if plan.notification is None:
        return table_sink_of(context, plan)
    return NotifyingSink(context, plan, plan.notification)
