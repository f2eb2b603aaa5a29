"""The result of a benchmark: a row of the table, and whether it is within its limit."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.measure import Peak, Timings, format_duration


@dataclass(frozen=True, slots=True)
class Limit:
    """An upper limit on the ratio of Headrace's time to the hand-written job's, or on Headrace's seconds."""

    ratio: float | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        return f"≤ {self.ratio:.2f} ×" if self.ratio is not None else f"≤ {format_duration(self.seconds or 0)}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A row of the report.

    Attributes:
        name: What was measured.
        ours: Samples of Headrace.
        theirs: Samples of the hand-written job, if there is one.
        limit: What Headrace should achieve.
        parts: Parts of Headrace's time, by name.
        others: Other sides, by name.
        other_limits: Upper limits of the ratio to other sides, by their name. A side without one is for information.
        peaks: Peak memory by side.
        note: Remark on the figures.
    """

    name: str
    ours: Timings
    theirs: Timings | None = None
    limit: Limit | None = None
    parts: Mapping[str, Timings] = field(default_factory=dict)
    others: Mapping[str, Timings] = field(default_factory=dict)
    other_limits: Mapping[str, float] = field(default_factory=dict)
    peaks: Mapping[str, Peak] = field(default_factory=dict)
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Headrace's time divided by the hand-written job's; below 1, Headrace is faster."""
        return None if self.theirs is None else self.ratio_to(self.theirs)

    def ratio_to(self, side: Timings) -> float:
        """Return Headrace's time divided by that of a side: the median over pairs of samples, which are of the same round."""
        if len(self.ours.samples) != len(side.samples):
            return self.ours.median / side.median
        return statistics.median(ours / theirs for ours, theirs in zip(self.ours.samples, side.samples, strict=True))

    @property
    def is_met(self) -> bool | None:
        """Whether the time is within all limits; None without a limit."""
        if any(self.ratio_to(self.others[name]) > limit for name, limit in self.other_limits.items()):
            return False
        if self.limit is None:
            return None
        if self.limit.ratio is not None:
            return self.ratio is not None and self.ratio <= self.limit.ratio
        return self.ours.median <= (self.limit.seconds or 0)

    def as_json(self) -> dict[str, Any]:
        """Return all fields and samples as JSON values, in seconds and bytes."""
        return {
            "name": self.name,
            "headrace": self.ours.samples,
            "hand-written": None if self.theirs is None else self.theirs.samples,
            "ratio": self.ratio,
            "limit": None if self.limit is None else str(self.limit),
            "met": self.is_met,
            "ratios to others": {name: self.ratio_to(timings) for name, timings in self.others.items()},
            "parts": {name: timings.samples for name, timings in self.parts.items()},
            "others": {name: timings.samples for name, timings in self.others.items()},
            "peaks": {name: asdict(peak) for name, peak in self.peaks.items()},
            "note": self.note,
        }
