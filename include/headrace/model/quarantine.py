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
        message: What happened, for the user.
        values: The row's columns by name, in a form that JSON has.
        batch: The micro-batch that set it aside.
        since: When, in epoch milliseconds.
        replay: Whether the user has asked for it to be processed again.
        released: The micro-batch that released it; None while it is in quarantine.
    """

    key: RowKey
    version: int
    code: QuarantineCode
    message: str
    values: dict[str, Any]
    batch: int = 0
    since: int = 0
    replay: bool = False
    released: int | None = None

    def is_held_after(self, batch: int) -> bool:
        """Return whether it was in quarantine after a micro-batch."""
        return self.batch <= batch and (self.released is None or self.released > batch)


@dataclass(frozen=True, slots=True)
class QuarantineChange:
    """What a micro-batch changes: rows that it sets aside, and keys of rows that leave the quarantine."""

    added: tuple[QuarantinedRow, ...] = ()
    released: tuple[RowKey, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.released)
