"""Reads of the schema that many writes share.

A write of a few rows needs its database, table and devices, which takes longer to read than to write the rows. Every change of the
schema counts up a revision, so what was read at a revision need not be read again while it is the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from sqlalchemy import Connection, select

from headrace.catalog.revisions import NO_REVISION, RevisionKind, count_up, revision_of
from headrace.catalog.rows.metadata import REVISIONS
from headrace.catalog.store import Store

Value = TypeVar("Value")
Name = TypeVar("Name", bound=Hashable)
MAX_OBJECTS: Final = 200_000
"""Databases, tables and devices in memory."""
_ABSENT: Final = object()


@dataclass(slots=True)
class _Generation:
    """All revisions at one time, and what was read of the schema since, while its revision was the same.

    `commits` is that of the store just before.
    """

    revisions: Mapping[str, int]
    objects: dict[Hashable, Any]
    commits: int | None = None


@dataclass(slots=True)
class _Pin(threading.local):
    """What a thread has pinned."""

    is_set: bool = False
    generation: _Generation | None = None


class PinnedReads:
    """Remembers what was read of the schema. Thread-safe.

    A thread within `pinned` reads the revisions at its first read, and whatever it finds in memory as of these revisions not at
    all; after a change of its own it reads them again. Other threads read the catalog every time.
    """

    def __init__(self, store: Store) -> None:
        """Have the changes of a store count up the revision of the schema."""
        self._store = store
        self._latest = _Generation({}, {})
        self._pin = _Pin()
        store.before_schema_commit = self._count_up
        store.after_schema_commit = self._forget

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Let what this thread reads in the block be as of its start, or newer: a change of another process may go unnoticed."""
        outer, self._pin.is_set = self._pin.is_set, True
        try:
            yield
        finally:
            self._pin.is_set = outer
            self._pin.generation = self._pin.generation if outer else None

    @property
    def are_pinned(self) -> bool:
        """Whether this thread is in such a block."""
        return self._pin.is_set

    def revision(self, kind: RevisionKind) -> int:
        """Return the revision of a kind."""
        if self._pin.is_set:
            return self._generation().revisions.get(kind, NO_REVISION)
        with self._store.read() as connection:
            return connection.scalar(revision_of(kind)) or NO_REVISION

    def get(self, key: Hashable, read: Callable[[], Value]) -> Value:
        """Return an object of the schema, which `read` reads."""
        if not self._pin.is_set:
            return read()
        objects = self._generation().objects
        value = objects.get(key, _ABSENT)
        if value is _ABSENT:
            value = read()
            self._keep(objects, {key: value})
        return cast(Value, value)

    def get_each(
        self,
        kind: Hashable,
        names: Collection[Name],
        read: Callable[[Collection[Name]], Mapping[Name, Value]],
        *,
        keeps_absence: bool = True,
    ) -> dict[Name, Value]:
        """Return those objects of a kind that exist, by what identifies them; `read` reads several.

        Unless `keeps_absence`, those that do not exist are looked for again: to create one does not count as a change.
        """
        if not self._pin.is_set:
            return dict(read(names))
        objects = self._generation().objects
        values = {name: objects.get((kind, name), _ABSENT) for name in names}
        unknown = [name for name, value in values.items() if value is _ABSENT]
        if unknown:
            found = read(unknown)
            new = {name: found.get(name) for name in unknown if keeps_absence or name in found}
            self._keep(objects, {(kind, name): value for name, value in new.items()})
            values |= dict.fromkeys(unknown) | new
        return {name: value for name, value in values.items() if value is not None}

    def _generation(self) -> _Generation:
        pinned = self._pin.generation
        if pinned is None:
            pinned = self._pin.generation = self._current()
        return pinned

    def _current(self) -> _Generation:
        commits = self._store.commits()
        if commits is not None and commits == self._latest.commits:
            return self._latest
        # Before the objects, so that they may be newer than the revision, never older.
        with self._store.read() as connection:
            revisions = {row.kind: row.value for row in connection.execute(select(REVISIONS.c.kind, REVISIONS.c.value))}
        latest, schema = self._latest, RevisionKind.SCHEMA
        is_same = revisions.get(schema, NO_REVISION) == latest.revisions.get(schema, NO_REVISION)
        self._latest = _Generation(revisions, latest.objects if is_same else {}, commits)
        return self._latest

    @staticmethod
    def _keep(objects: dict[Hashable, Any], new: Mapping[Any, Any]) -> None:
        if len(objects) > MAX_OBJECTS:
            objects.clear()
        objects.update(new)

    @staticmethod
    def _count_up(connection: Connection) -> None:
        count_up(connection, RevisionKind.SCHEMA)

    def _forget(self) -> None:
        self._pin.generation = None
