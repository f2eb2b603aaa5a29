"""The windows of a plan, and what their clauses refer to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.compute.nodes import Node
from headrace.model.calendar_windows import CalendarGrid
from headrace.model.instants import PresentInstant
from headrace.model.queries import FillMode
from headrace.model.time import Duration, Precision
from headrace.model.types import DataType
from headrace.model.windows import WindowGrid

DAY: Final = Duration(1, "d")


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range of instants, inclusive: `ticks`, added to what follows from the present if `present` is set."""

    ticks: int
    present: PresentInstant | None = None

    @property
    def relative(self) -> bool:
        """Whether it is known only when the plan runs."""
        return self.present is not None

    def at(self, now: int) -> int:
        """Return the bound in ticks; `now` is the present in ticks."""
        return self.ticks if self.present is None else self.ticks + self.present.at(now)


@dataclass(frozen=True, slots=True)
class Argument:
    """An expression over source columns that is the argument of an aggregate or window."""

    column: str
    node: Node
    type: DataType


@dataclass(frozen=True, slots=True)
class FillPlan:
    """`FILL`.

    Attributes:
        values: For mode VALUE, one constant per filled output, hidden outputs last.
        keeps_nulls: Whether existing windows keep their NULLs, and the windows next to them take these over, as in streams.
        between: Whether only windows between two existing ones are added: the FILL of a stream that does not follow the clock.
    """

    mode: FillMode
    values: tuple[Node, ...] = ()
    keeps_nulls: bool = False
    between: bool = False


@dataclass(frozen=True, slots=True)
class IntervalWindow:
    """`INTERVAL`, and its `FILL`. `zone` is set if windows follow the calendar of a zone other than UTC."""

    length: Duration
    sliding: Duration
    offset: Duration
    zone: str | None = None
    fill: FillPlan | None = None

    @property
    def slides(self) -> bool:
        """Whether windows overlap."""
        return self.sliding != self.length

    def grid(self, precision: Precision) -> WindowGrid | None:
        """Return the windows in ticks; None if they follow a calendar."""
        durations = (self.sliding, self.offset, self.length)
        if self.zone is not None or any(duration.is_calendar for duration in durations):
            return None
        return WindowGrid(*(duration.ticks(precision) for duration in durations))

    def sequence(self, precision: Precision) -> WindowGrid | CalendarGrid:
        """Return the windows one after another, whether they follow a calendar or not."""
        calendar = CalendarGrid(self.length, self.sliding, self.offset, self.zone or "UTC", precision)
        return self.grid(precision) or calendar

    def max_windows_per_instant(self, precision: Precision) -> int:
        """Return the maximum number of windows that contain one instant."""
        if not self.slides:
            return 1
        return -(-self.length.max_ticks(precision) // self.sliding.min_ticks(precision))

    def max_span(self, precision: Precision) -> int:
        """Return an upper bound of the distance between two instants of one window, in ticks."""
        return self.length.max_ticks(precision) + (DAY.ticks(precision) if self.zone is not None else 0)


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """`SESSION`. `gap` is in ticks."""

    gap: int


@dataclass(frozen=True, slots=True)
class StateWindow:
    """`STATE_WINDOW`: runs of rows with equal `_state`. `true_for` is in ticks."""

    state: Argument
    true_for: int | None = None


@dataclass(frozen=True, slots=True)
class EventWindow:
    """`EVENT_WINDOW`. The conditions are never NULL. `true_for` is in ticks."""

    start: Node
    end: Node
    true_for: int | None = None


@dataclass(frozen=True, slots=True)
class CountWindow:
    """`COUNT_WINDOW` of `count` rows; a new window starts every `sliding` rows."""

    count: int
    sliding: int


@dataclass(frozen=True, slots=True)
class RangeWindow:
    """Windows that start at `first` and every `step` after it, before `end`; each is cut there. Those without rows count too.

    Attributes:
        first, end: Ticks; `end` is exclusive.
        length, step: Ticks, in addition to the calendar months in `months`; `zone` is that of the calendar.
        right: Windows are open on the left and closed on the right, and are called by their end.
    """

    first: Bound
    end: Bound
    length: int
    step: int
    months: tuple[int, int] = (0, 0)
    zone: str = "UTC"
    right: bool = False


@dataclass(frozen=True, slots=True)
class RunWindow:
    """Consecutive rows that belong together by the value of `control`.

    Attributes:
        kind: `variation` (within `delta` of the first row's value), `condition` (true), or `count` (`size` rows).
        keep: Operator and number of rows that a window must have.
        ignore_null: Rows whose control is NULL are passed over.
    """

    kind: str
    control: Argument
    delta: float = 0.0
    size: int = 0
    keep: tuple[str, int] | None = None
    ignore_null: bool = True


WindowPlan = IntervalWindow | SessionWindow | StateWindow | EventWindow | CountWindow | RangeWindow | RunWindow
