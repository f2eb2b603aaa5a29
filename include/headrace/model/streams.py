"""What a stream is created with: the options of its statement, and the columns for which it was defined."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.model.tables import Column, ColumnReference, TableId
from headrace.model.time import Duration


class TriggerMode(StrEnum):
    """When a stream emits a window's result."""

    AT_ONCE = "AT_ONCE"
    WINDOW_CLOSE = "WINDOW_CLOSE"
    MAX_DELAY = "MAX_DELAY"
    FORCE_WINDOW_CLOSE = "FORCE_WINDOW_CLOSE"
    CONTINUOUS_WINDOW_CLOSE = "CONTINUOUS_WINDOW_CLOSE"


class ErrorPolicy(StrEnum):
    """What a stream does with a row with which its results cannot be computed."""

    QUARANTINE = "QUARANTINE"
    STOP = "STOP"


NO_WATERMARK: Final = Duration(0, "a")
MAX_PARTS: Final = 64
"""Greatest number of parts of a stream."""
MAX_STREAMS_PER_DATABASE: Final = 61
"""The default of a setting: as many as TDengine accepts."""
DEFAULT_RECALCULATION_INTERVAL: Final = Duration(60, "m")


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of `CREATE STREAM`. Without `max_ahead`, how far rows may be ahead of the clock, the settings decide."""

    trigger: TriggerMode = TriggerMode.WINDOW_CLOSE
    max_delay: Duration | None = None
    recalculate: Duration | None = None
    watermark: Duration = NO_WATERMARK
    ignore_expired: bool = True
    ignore_update: bool = True
    fill_history: bool = False
    fill_history_async: bool = False
    delete_mark: Duration | None = None
    max_ahead: Duration | None = None
    on_error: ErrorPolicy = ErrorPolicy.QUARANTINE
    partitions: int = 1

    @property
    def recalculation_interval(self) -> Duration:
        """How long CONTINUOUS_WINDOW_CLOSE may leave a marked window as it is."""
        return self.recalculate or DEFAULT_RECALCULATION_INTERVAL


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """The columns for which a stream was defined. Columns that its tables gain later do not change the stream.

    Attributes:
        columns, tags: All columns and tags of the source, as `*` means them.
        reads: The columns and tags that the query uses.
        fills: The columns and tags of the target.
        virtual: The virtual table that the query names; None if it names a stored table.
        references: Where the columns of the virtual table came from when the stream was defined, of those that the query needs.
        tags_version: The version of the source's tags when the stream was defined; None if changes of tags are of no importance.
        since: For a stream without history, the largest event time of the rows that were there, in ticks; None if there were none.
        parts: How many jobs compute the stream, each for some of the subtables.
    """

    columns: tuple[Column, ...]
    tags: tuple[Column, ...]
    reads: tuple[str, ...]
    fills: tuple[str, ...]
    virtual: TableId | None = None
    references: tuple[ColumnReference, ...] = ()
    tags_version: int | None = None
    since: int | None = None
    parts: int = 1
