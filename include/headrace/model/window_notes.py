"""What late and changed rows did to windows of a stream."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WindowNote:
    """A window that was computed again, or for which rows came too late.

    Attributes:
        series: The subtable of the target that has the window.
        start: The window's first instant, in ticks of the source. Of rows that came too late for other windows than INTERVAL, it is
            their own timestamp, and so is `end`.
        end: The window's last instant, in ticks.
        recalculated: How often it was computed again after it was closed, or from the stored rows: for late, updated, deleted rows.
        late_rows: Expired rows that were left out of it.
        time: When that happened last, in epoch milliseconds.
    """

    series: str
    start: int
    end: int
    recalculated: int
    late_rows: int
    time: int
