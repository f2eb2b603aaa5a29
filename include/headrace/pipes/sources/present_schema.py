"""The present schema of trees as statements: what a receiver gets before the history of a pipe that transfers schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from headrace.context import Context
from headrace.model.positions import Offsets
from headrace.model.trees import Device
from headrace.pipes.events import Event
from headrace.pipes.feeds import TableFeed
from headrace.pipes.plugins import SourceBatch
from headrace.pipes.selection import Pattern
from headrace.pipes.sources.statements import statement_events
from headrace.trees.schema_statements import (
    Change,
    additions,
    create_database,
    create_template,
    set_template,
    set_ttl,
)

SCHEMA: Final = "#schema"
"""In offsets: what of the present schema is to be read. Alone, the databases, templates and times to live; with the id of a table
behind it, the number of the last device that was read of it."""
MAX_DEVICES: Final = 1_000
"""Devices of a batch."""
MAX_SERIES: Final = 20_000
"""A batch ends with the device at which it has this many series."""


@dataclass(frozen=True, slots=True)
class PresentSchema:
    """Reads the schema of the trees of a source, as it is when a batch is read. What has changed since follows from the log.

    Attributes:
        context: The environment.
        pattern: The series that are transferred.
        included: The categories that are transferred.
        tables: Returns the tables of the trees.
    """

    context: Context
    pattern: Pattern
    included: frozenset[str]
    tables: Callable[[], list[TableFeed]]

    def read(self, offsets: Offsets) -> SourceBatch | None:
        """Return the next statements; None if all have been read."""
        if SCHEMA in offsets:
            rest = {name: offset for name, offset in offsets.items() if name != SCHEMA}
            return SourceBatch(list(self._events(self._definitions())), rest | {device_key(feed): 0 for feed in self.tables()})
        key = next((name for name in offsets if name.startswith(SCHEMA)), None)
        return None if key is None else self._read_devices(offsets, key)

    def _definitions(self) -> Iterator[Change]:
        catalog = self.context.catalog
        yield from (create_database(feed.layout.database) for feed in self.tables())
        yield from map(create_template, catalog.templates.all())
        yield from (set_template(name, path) for path, name in catalog.templates.paths().items())
        yield from (set_ttl(path, ttl_ms) for path, ttl_ms in catalog.trees.ttls().items())

    def _read_devices(self, offsets: Offsets, key: str) -> SourceBatch:
        feed = next((feed for feed in self.tables() if device_key(feed) == key), None)
        devices = [] if feed is None else self._page(feed.layout.database, offsets[key])
        if not devices:
            return SourceBatch((), {name: offset for name, offset in offsets.items() if name != key})
        events = list(self._events(additions((None, device) for device in devices)))
        return SourceBatch(events, {**offsets, key: devices[-1].number})

    def _page(self, database: str, after: int) -> list[Device]:
        devices, series = [], 0
        for device in self.context.catalog.trees.page(database, after, MAX_DEVICES):
            devices.append(device)
            series += len(device.series)
            if series >= MAX_SERIES:
                break
        return devices

    def _events(self, changes: Iterator[Change]) -> Iterator[Event]:
        for category, statement in changes:
            if category in self.included:
                yield from statement_events(category, [statement], self.pattern)


def device_key(feed: TableFeed) -> str:
    """Return the key of the devices of a tree in offsets."""
    return f"{SCHEMA} {feed.id}"


def is_read(offsets: Offsets) -> bool:
    """Return whether the present schema was read."""
    return not any(name.startswith(SCHEMA) for name in offsets)
