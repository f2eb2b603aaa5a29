"""Processors of users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from headrace import pipe as api
from headrace.code.answers import Changes
from headrace.code.hosts import MAX_ATTEMPTS, lost_hosts
from headrace.code.pipes import PluginInstance, ProcessedEvents
from headrace.pipes.events import Event
from headrace.pipes.hosted.events import from_plugin, to_plugin
from headrace.pipes.plugins import Processor, Tables

STORE: Final = "store"


class HostedProcessor(Processor):
    """Lets a plugin process events. Its state is what the plugin has stored: JSON texts by key.

    An instance that fails or whose host dies is created again, from the store after the last batch that was processed.
    """

    def __init__(self, instance: PluginInstance) -> None:
        """Create a processor; the instance is started by the first batch."""
        self._instance = instance
        self._entries: dict[str, str] = {}
        self._is_started = False
        self._has_state = False

    def process(self, events: Sequence[Event], now: int) -> Sequence[Event]:  # noqa: ARG002
        """Return what the plugin makes of events; raise `UserCodeError` if it fails."""
        if not events:
            return ()
        entries, has_state = dict(self._entries), self._has_state
        processed = self._ask(to_plugin(events), entries)
        results = from_plugin(processed.events, self._instance.name)
        apply(processed.changes, entries)
        self._has_state = has_state or bool(entries)
        self._entries = entries
        return results

    def state(self) -> Tables | None:
        """Return the store after the last batch; None if the plugin has never stored anything."""
        if not self._has_state:
            return None
        entries = sorted(self._entries.items())
        columns = {"key": [key for key, _ in entries], "value": [value for _, value in entries]}
        return {STORE: pa.table(columns, pa.schema([("key", pa.string()), ("value", pa.string())]))}

    def restore(self, state: Tables) -> None:
        """Continue from a store; the next batch gets a new instance."""
        rows = state[STORE]
        self._entries = dict(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))
        self._has_state, self._is_started = True, False

    def close(self) -> None:
        """End the instance."""
        self._instance.close()

    def _ask(self, events: Sequence[api.Event], entries: dict[str, str]) -> ProcessedEvents:
        """Return what the plugin makes of events. What a new instance stores when it begins becomes a part of `entries`."""
        is_started, self._is_started = self._is_started, False  # until the call has succeeded
        for _ in range(MAX_ATTEMPTS):
            if not is_started:
                begun = dict(self._entries)
                apply(self._instance.start(begun), begun)
                entries.clear()
                entries.update(begun)
            processed = self._instance.process(events)
            if processed is not None:
                self._is_started = True
                return processed
            is_started = False
        raise lost_hosts(self._instance.name)


def apply(changes: Changes, entries: dict[str, str]) -> None:
    """Change what is stored; None removes a key."""
    for key, value in changes.items():
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value
