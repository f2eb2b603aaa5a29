"""Rows that a stream has set aside, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class QuarantineCode(StrEnum):
    """Why a row is in quarantine."""

    FUTURE = "FUTURE"
    """Its timestamp is further ahead of the clock than MAX_AHEAD."""
    DATA = "DATA"
    """The results that it belongs to cannot be computed with it."""


class QuarantineRequest(StrEnum):
    """What the user has asked to do with a row in quarantine."""

    REPLAY = "REPLAY"
    """Process it again."""
    DROP = "DROP"
    """Leave it out for good."""


@dataclass(frozen=True, slots=True)
class RowKey:
    """What identifies a row of a source: its series, its timestamp in ticks, and its composite key if there is one."""

    series: str
    time: int
    key: int | str | None = None


@dataclass(frozen=True, slots=True)
class QuarantinedRow:
    """One row in quarantine.

    Attributes:
        version: The version of the source that wrote the row.
        values: The row's columns by name, in a form that JSON has.
        batch: The micro-batch that set it aside.
        since: When, in epoch milliseconds.
        released: The micro-batch that released it; None while it is left out.
        dropped: The micro-batch that removed it from quarantine and still leaves it out; None if none did.
    """

    key: RowKey
    version: int
    code: QuarantineCode
    message: str
    values: dict[str, Any]
    batch: int = 0
    since: int = 0
    requested: QuarantineRequest | None = None
    released: int | None = None
    dropped: int | None = None

    def is_held_after(self, batch: int) -> bool:
        """Return whether it was left out after a micro-batch."""
        return self.batch <= batch and (self.released is None or self.released > batch)

    def is_dropped_after(self, batch: int) -> bool:
        """Return whether it was left out after a micro-batch, but not in quarantine."""
        return self.is_held_after(batch) and self.dropped is not None and self.dropped <= batch


@dataclass(frozen=True, slots=True)
class QuarantineChange:
    """What a micro-batch changes: rows set aside, keys of rows released, and keys of rows that are left out for good."""

    added: tuple[QuarantinedRow, ...] = ()
    released: tuple[RowKey, ...] = ()
    dropped: tuple[RowKey, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.released or self.dropped)
