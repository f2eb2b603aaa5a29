"""The durable key-value store of a processor."""

from __future__ import annotations

from headrace.trigger.store import TriggerStore


class PipeStore(TriggerStore):
    """A small durable key-value store. Keys are texts, values are whatever JSON can represent, 1 MiB in all.

    What the calls for a batch put or remove becomes durable before the results of the batch are delivered: all of it or nothing.
    After a crash the processor continues with the store as it was before the first batch that has perhaps not been delivered.
    """
