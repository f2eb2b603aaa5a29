"""What a measurement gives: a line of the table, and whether it is as wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.measure import Peak, Timings, duration


@dataclass(frozen=True, slots=True)
class Wanted:
    """A bound: on our time divided by the hand-written one, or on our seconds."""

    ratio: float | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        return f"≤ {self.ratio:.2f} ×" if self.ratio is not None else f"≤ {duration(self.seconds or 0)}"


@dataclass(frozen=True, slots=True)
class Line:
    """One thing measured.

    Attributes:
        parts: Where our time goes, by name.
        others: Further sides that no bound is about, by name.
        peaks: Memory by side.
        note: What a reader must know to judge the figures.
    """

    what: str
    ours: Timings
    theirs: Timings | None = None
    wanted: Wanted | None = None
    parts: Mapping[str, Timings] = field(default_factory=dict)
    others: Mapping[str, Timings] = field(default_factory=dict)
    peaks: Mapping[str, Peak] = field(default_factory=dict)
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Our median divided by the hand-written one: below 1 we are faster."""
        return None if self.theirs is None else self.ours.median / self.theirs.median

    @property
    def met(self) -> bool | None:
        """Whether the median is as wanted; None where nothing is wanted."""
        if self.wanted is None:
            return None
        if self.wanted.ratio is not None:
            return self.ratio is not None and self.ratio <= self.wanted.ratio
        return self.ours.median <= (self.wanted.seconds or 0)

    def as_json(self) -> dict[str, Any]:
        """Everything, all samples included; seconds and bytes."""
        return {
            "what": self.what,
            "headrace": self.ours.samples,
            "hand-written": None if self.theirs is None else self.theirs.samples,
            "ratio": self.ratio,
            "wanted": None if self.wanted is None else str(self.wanted),
            "met": self.met,
            "parts": {name: each.samples for name, each in self.parts.items()},
            "others": {name: each.samples for name, each in self.others.items()},
            "peaks": {name: asdict(each) for name, each in self.peaks.items()},
            "note": self.note,
        }
