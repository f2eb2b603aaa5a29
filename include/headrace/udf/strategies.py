"""Access strategies: how a function receives the points of its inputs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from headrace.udf.parameters import ParameterError


class AccessStrategyError(ParameterError):
    """The sizes of an access strategy are not valid."""


@dataclass(frozen=True, slots=True)
class AccessStrategy:
    """How a function receives its points."""

    def check(self) -> None:
        """Raise `ParameterError` if the strategy is not valid."""


@dataclass(frozen=True, slots=True)
class RowByRowAccessStrategy(AccessStrategy):
    """`transform` receives one row at a time."""


@dataclass(frozen=True, slots=True)
class MappableRowByRowAccessStrategy(AccessStrategy):
    """`transform` receives one row at a time, and returns its value at the time of the row."""


@dataclass(frozen=True, slots=True)
class SlidingSizeWindowAccessStrategy(AccessStrategy):
    """`transform` receives windows of `window_size` rows, which begin every `sliding_step` rows. The last may be shorter."""

    window_size: int
    sliding_step: int | None = None

    @property
    def step(self) -> int:
        """The rows from the beginning of a window to that of the next."""
        return self.window_size if self.sliding_step is None else self.sliding_step

    def check(self) -> None:
        """Raise `ParameterError` unless size and step are positive."""
        require_positive("windowSize", self.window_size)
        require_positive("slidingStep", self.step)


@dataclass(frozen=True, slots=True)
class SlidingTimeWindowAccessStrategy(AccessStrategy):
    """`transform` receives windows of `time_interval` ticks, which begin every `sliding_step` ticks.

    The first begins at `display_window_begin`, by default at the first row. Rows from `display_window_end` on are left out.
    `transform` also receives windows without rows, unless `skips_empty` is set.
    """

    time_interval: int
    sliding_step: int | None = None
    display_window_begin: int | None = None
    display_window_end: int | None = None
    skips_empty: bool = field(default=False, kw_only=True)

    @property
    def step(self) -> int:
        """The ticks from the beginning of a window to that of the next."""
        return self.time_interval if self.sliding_step is None else self.sliding_step

    def check(self) -> None:
        """Raise `ParameterError` unless interval and step are positive, and the display window does not end before it begins."""
        require_positive("timeInterval", self.time_interval)
        require_positive("slidingStep", self.step)
        check_display_window(self.display_window_begin, self.display_window_end)


@dataclass(frozen=True, slots=True, init=False)
class SessionTimeWindowAccessStrategy(AccessStrategy):
    """`transform` receives sessions: rows of which none is more than `session_time_gap` ticks after the one before.

    It is created by `(gap)`, by `(begin, end, gap)` with a display window, or by names.
    """

    session_time_gap: int
    display_window_begin: int | None
    display_window_end: int | None

    def __init__(
        self,
        *arguments: int | None,
        session_time_gap: int | None = None,
        display_window_begin: int | None = None,
        display_window_end: int | None = None,
    ) -> None:
        """Create a strategy. Raise `TypeError` for another number of arguments, or without a gap."""
        match arguments:
            case (gap,):
                session_time_gap = gap
            case (begin, end, gap):
                display_window_begin, display_window_end, session_time_gap = begin, end, gap
            case (_, *_):
                raise TypeError("SessionTimeWindowAccessStrategy takes (gap) or (begin, end, gap)")
        if session_time_gap is None:
            raise TypeError("SessionTimeWindowAccessStrategy takes a gap")
        set_fields(self, session_time_gap, display_window_begin, display_window_end)

    def check(self) -> None:
        """Raise `ParameterError` for a negative gap, or a display window that ends before it begins."""
        if self.session_time_gap < 0:
            message = f"Parameter sessionTimeGap({self.session_time_gap}) should be equal to or greater than zero."
            raise AccessStrategyError(message)
        check_display_window(self.display_window_begin, self.display_window_end)


@dataclass(frozen=True, slots=True, init=False)
class StateWindowAccessStrategy(AccessStrategy):
    """`transform` receives windows whose values differ by at most `delta` from the first one; BOOLEAN and TEXT must be equal.

    It is created by `()`, `(delta)`, `(begin, end)` or `(begin, end, delta)`, or by names. The delta is 0 by default.
    """

    delta: float
    display_window_begin: int | None
    display_window_end: int | None

    def __init__(
        self,
        *arguments: float | None,
        delta: float = 0.0,
        display_window_begin: int | None = None,
        display_window_end: int | None = None,
    ) -> None:
        """Create a strategy. Raise `TypeError` for another number of arguments."""
        window: tuple[Any, ...] = (display_window_begin, display_window_end)
        match arguments:
            case (float() | int() as delta,):
                pass
            case (begin, end):
                window = (begin, end)
            case (begin, end, float() | int() as delta):
                window = (begin, end)
            case (_, *_):
                raise TypeError("StateWindowAccessStrategy takes (), (delta), (begin, end) or (begin, end, delta)")
        set_fields(self, delta, *window)

    def check(self) -> None:
        """Raise `ParameterError` for a negative delta, or a display window that ends before it begins."""
        if self.delta < 0:
            raise AccessStrategyError(f"Parameter delta({self.delta:f}) should be positive or equal to 0.")
        check_display_window(self.display_window_begin, self.display_window_end)


def set_fields(strategy: AccessStrategy, *values: Any) -> None:
    """Set the fields of a new strategy, which is frozen."""
    for one, value in zip(fields(strategy), values, strict=True):
        object.__setattr__(strategy, one.name, value)


def require_positive(name: str, value: int) -> None:
    if value <= 0:
        raise AccessStrategyError(f"Parameter {name}({value}) should be positive.")


def check_display_window(begin: int | None, end: int | None) -> None:
    if begin is not None and end is not None and end < begin:
        raise AccessStrategyError(f"displayWindowEnd({end}) < displayWindowBegin({begin})")
