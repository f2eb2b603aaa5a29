"""The parameters of `iotdb-source` and `table-source`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.model.instants import nanoseconds
from headrace.model.time import Precision
from headrace.pipes import inclusion
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.selection import Pattern, TicksRange
from headrace.pipes.sources.patterns import has_only_prefix, pattern_of
from headrace.sql.iotdb.words import canonical_instant

SNAPSHOT_MODES: Final = ("query", "snapshot")
MODES: Final = (*SNAPSHOT_MODES, "subscribe", "live")
LOOSE_RANGES: Final = frozenset({"time", "path", "all"})


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound of a range of time: epoch ticks of whatever precision a database has, or nanoseconds of a written instant."""

    value: int
    is_written: bool = False

    def ticks(self, precision: Precision) -> int:
        """Return the bound in ticks."""
        return self.value // precision.nanoseconds if self.is_written else self.value


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A range of time, both ends inclusive; None is unbounded."""

    start: Bound | None = None
    end: Bound | None = None

    def ticks(self, precision: Precision) -> TicksRange:
        """Return the range in ticks."""
        return TicksRange(*(None if bound is None else bound.ticks(precision) for bound in (self.start, self.end)))


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a source of tables transfers.

    Attributes:
        pattern: The series.
        included: The kinds of events.
        history: The range of time of the history; None without history.
        realtime: The range of time of what is written later; None without that.
        is_snapshot: Whether the pipe ends with its history.
    """

    pattern: Pattern
    included: frozenset[str]
    history: TimeWindow | None
    realtime: TimeWindow | None
    is_snapshot: bool = False

    @property
    def deletes(self) -> bool:
        """Whether deleted points are transferred."""
        return inclusion.DELETE in self.included

    @property
    def statements(self) -> bool:
        """Whether statements that change the schema or rights are transferred."""
        return not self.included <= {inclusion.INSERT, inclusion.DELETE}

    @property
    def inserts(self) -> bool:
        """Whether written points are transferred."""
        return inclusion.INSERT in self.included


def read_options(attributes: PipeAttributes, timezone: str) -> SourceOptions:
    """Return the options of a source; times without a zone are in `timezone`.

    Raises:
        ProgrammingError: A parameter is not valid.
    """
    pattern, included = pattern_of(attributes), inclusion.included(attributes)
    if inclusion.DELETE in included and not has_only_prefix(pattern):
        text = attributes.text("path", "pattern")
        raise pipe_error(f"The path pattern {text} is not valid for the source. Only prefix or full path is allowed.")
    _check_loose_ranges(attributes)
    common = _window(attributes, "", timezone)
    with_history = common is not None or attributes.boolean("extractor.history.enable", "source.history.enable", default=True)
    with_realtime = attributes.boolean("extractor.realtime.enable", "source.realtime.enable", default=True)
    if not with_history and not with_realtime:
        raise pipe_error("Should not set both history.enable and realtime.enable to false.")
    for key in ("forwarding-pipe-requests", "mods.enable", "mods"):
        attributes.boolean(f"extractor.{key}", f"source.{key}", default=True)
    history = common or _window(attributes, "history.", timezone) or TimeWindow()
    is_snapshot = attributes.choice("extractor.mode", "source.mode", options=MODES, default="live") in SNAPSHOT_MODES
    realtime = (common or TimeWindow()) if with_realtime and not is_snapshot else None
    return SourceOptions(pattern, included, history if with_history or is_snapshot else None, realtime, is_snapshot)


def _check_loose_ranges(attributes: PipeAttributes) -> None:
    """Check what rows outside of the ranges may be transferred too. None are."""
    for key in ("history.loose-range", "realtime.loose-range"):
        text = attributes.text(f"extractor.{key}", f"source.{key}")
        unknown = sorted({part.strip().lower() for part in text.split(",") if part.strip()} - LOOSE_RANGES)
        if unknown:
            raise pipe_error(f"Parameters in set [{', '.join(unknown)}] are not allowed in '{key}'", hint="use time, path or all")


def _window(attributes: PipeAttributes, prefix: str, timezone: str) -> TimeWindow | None:
    """Return the range of time of `start-time` and `end-time`; None if neither is there."""
    names = [f"{prefix}{end}-time" for end in ("start", "end")]
    start, end = (bound_of(attributes, (f"extractor.{name}", f"source.{name}"), timezone) for name in names)
    if start is None and end is None:
        return None
    if start is not None and end is not None and _position(start) > _position(end):
        first, second = ("extractor", "source") if prefix else ("source", "extractor")
        texts = [
            f"{first}.{name} ({second}.{name}) [{bound.value if not bound.is_written else bound.value // 1_000_000}]"
            for name, bound in zip(names, (start, end), strict=True)
        ]
        raise pipe_error(f"{texts[0]} should be less than or equal to {texts[1]}.")
    return TimeWindow(start, end)


def _position(bound: Bound) -> int:
    """Return a bound in nanoseconds for comparison, as if epoch numbers were milliseconds."""
    return bound.value if bound.is_written else bound.value * Precision.MILLISECOND.nanoseconds


def bound_of(attributes: PipeAttributes, keys: Sequence[str], timezone: str) -> Bound | None:
    """Return the bound of the first of some keys that there is; None without one. Times without a zone are in `timezone`.

    Raises:
        ProgrammingError: It is no time.
    """
    text = attributes.first(*keys)
    if text is None:
        return None
    try:
        return Bound(int(text))
    except ValueError:
        written = canonical_instant(text)
        instant = None if written is None else nanoseconds(written, timezone)
    if instant is None:
        hint = "write an ISO time such as 2024-05-01T00:00:00+02:00, or an epoch time as a whole number"
        raise pipe_error(f"{attributes.typed_key(*keys)}: {text!r} is not a time", hint=hint)
    return Bound(instant, is_written=True)
