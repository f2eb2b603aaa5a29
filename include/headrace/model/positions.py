"""Positions: how far a job has come, as a micro-batch number and an offset for each of its sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SourceId = str
"""Names a source table, as `source_id` makes it."""

Offsets = Mapping[SourceId, int]
"""For each source the last Delta version that has been read."""

STATEMENTS: Final = "#statements"
"""In offsets of pipes: the last statement of the log of schema changes that has been read."""


def is_behind(offsets: Offsets, others: Offsets) -> bool:
    """Return True if a source has not been read up to one of the other offsets."""
    return any(offsets.get(source, -1) < offset for source, offset in others.items())


def is_ahead(offsets: Offsets, latest: Offsets) -> bool:
    """Return True if a source has been read further than it goes."""
    return any(offset > latest[source] for source, offset in offsets.items() if source in latest)


def furthest(one: Offsets, other: Offsets) -> Offsets:
    """Return the larger offset of each source."""
    return {source: max(one.get(source, -1), other.get(source, -1)) for source in {**one, **other}}


def source_id(database: str, table: str) -> SourceId:
    """Return the id of a source table: `database.table`, with dots inside names escaped."""
    return ".".join(name.replace("\\", "\\\\").replace(".", "\\.") for name in (database, table))


@dataclass(frozen=True, slots=True)
class Position:
    """The last micro-batch of a job: its number, counted from 0, and the offsets after it.

    The number orders positions: several micro-batches may have the same offsets, since a clock starts some of them.
    """

    batch: int
    offsets: Offsets

    def next(self, offsets: Offsets | None = None) -> Position:
        """Return the position after one more micro-batch, with these offsets replaced."""
        return Position(self.batch + 1, {**self.offsets, **(offsets or {})})

    def is_behind(self, offsets: Offsets) -> bool:
        """Return True if a source has not been read up to one of these offsets."""
        return is_behind(self.offsets, offsets)


def latest(*positions: Position | None) -> Position | None:
    """Return the position with the largest micro-batch number, the first of equal ones; None if there is none."""
    return max((position for position in positions if position is not None), key=lambda position: position.batch, default=None)
