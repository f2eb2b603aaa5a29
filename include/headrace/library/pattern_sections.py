"""Matches of a pattern with a series by sections that rise or fall."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from headrace.library.series import Values

MIN_HEIGHT: Final = 0.01
"""The height of a section, as a share of the whole series, from which on another one may follow."""
MAX_DIFFERENT_SIGNS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Section:
    """Points that rise (sign 1), fall (-1) or do neither (0), of which the first has the index `first` in the series."""

    sign: float
    first: int
    x: Values
    y: Values

    @property
    def width(self) -> float:
        """The extent in time."""
        return float(self.x[-1] - self.x[0])

    @property
    def height(self) -> float:
        """The extent of the values."""
        return float(self.y.max() - self.y.min())

    def first_points(self, width: float) -> Section:
        """Return the beginning that is at least as wide as this, or the whole section."""
        is_behind = self.x - self.x[0] >= width
        end = int(is_behind.argmax()) + 1 if is_behind.any() else len(self.x)
        return Section(self.sign, self.first, self.x[:end], self.y[:end])

    def last_points(self, width: float) -> Section:
        """Return the end that is at least as wide as this, or the whole section."""
        is_before = np.flatnonzero(self.x[-1] - self.x >= width)
        start = int(is_before[-1]) if len(is_before) else 0
        return Section(self.sign, self.first + start, self.x[start:], self.y[start:])


def scale(values: npt.NDArray[np.int64] | Values, size: float) -> Values:
    """Return values as numbers from 0 to a size."""
    scaled: Values = size * (values - values.min()) / (values.max() - values.min())
    return scaled


def match_sections(wanted: list[Section], sections: list[Section]) -> Iterator[tuple[float, int, int]]:
    """Yield a distance, and the indexes of the first and last point, for all places where the signs of most sections agree."""
    for start in range(len(sections) - len(wanted) + 1):
        candidates = sections[start : start + len(wanted)]
        if are_compatible(wanted, candidates):
            with np.errstate(divide="ignore", invalid="ignore"):
                match = compare_sections(wanted, candidates)
            if match is not None:
                yield match


def cut_sections(x: Values, y: Values) -> list[Section]:
    """Return the sections of a series of at least two points.

    A section ends where the sign of the slope changes, once it is high enough: each but the first begins with the last point of the
    section before.
    """
    slopes = np.sign(np.diff(y) / np.diff(x))
    signs = [float(slopes[0]), *slopes.tolist()]
    min_height = MIN_HEIGHT * float(y.max() - y.min())
    starts, section_signs = [0], [signs[0]]
    low = high = float(y[0])
    for index, value in enumerate(y.tolist()):
        if signs[index] not in {0, section_signs[-1]} and index - starts[-1] > 1 and high - low > min_height:
            starts.append(index - 1)
            section_signs.append(signs[index])
            low = high = float(y[index - 1])
        low, high = min(low, value), max(high, value)
    ends = [*(start + 1 for start in starts[1:]), len(y)]
    return [Section(sign, start, x[start:end], y[start:end]) for sign, start, end in zip(section_signs, starts, ends, strict=True)]


def are_compatible(wanted: Sequence[Section], sections: Sequence[Section]) -> bool:
    """Return whether at most half of the sections have another sign than wanted."""
    different = sum(want.sign not in {0, section.sign} for want, section in zip(wanted, sections, strict=True))
    return different <= MAX_DIFFERENT_SIGNS * len(wanted)


def compare_sections(wanted: Sequence[Section], sections: Sequence[Section]) -> tuple[float, int, int] | None:
    """Return the distance of sections from those wanted, and the indexes of the first and last point; None if all are flat."""
    width, height = (have / want for have, want in zip(inner_size(sections), inner_size(wanted), strict=True))
    distance, matched = 0.0, []
    for index, (want, section) in enumerate(zip(wanted, sections, strict=True)):
        if want.height == 0:
            continue
        if len(wanted) > 2 and index == 0:
            section = section.last_points(want.width * width)
        elif len(wanted) > 2 and index == len(wanted) - 1:
            section = section.first_points(want.width * width)
        if section.height > 0:
            distance += section_distance(want, section, width, height)
            matched.append(section)
    if not matched:
        return None
    return distance, matched[0].first, matched[-1].first + len(matched[-1].x) - 1


def section_distance(want: Section, section: Section, width: float, height: float) -> float:
    """Return the distance of a section from one that is wanted, which is stretched by `width` and `height` like all others."""
    stretch_x = np.float64(section.width) / (want.width * width)
    stretch_y = np.float64(section.height) / (want.height * height)
    stretched = want.y * height * stretch_y
    points = np.floor(np.arange(len(section.y)) * (len(want.y) / len(section.y))).astype(np.int64)
    offset = stretched[0] - section.y[0]
    difference = np.abs(stretched[points] - offset - section.y).mean() / section.height
    if stretch_x == 0 or stretch_y == 0:
        return float(difference)
    return float(difference + np.log(stretch_x) ** 2 + np.log(stretch_y) ** 2)


def inner_size(sections: Sequence[Section]) -> tuple[np.float64, np.float64]:
    """Return width and height without the first and last of more than two sections.

    As in IoTDB, the last of the sections that remain does not count for the height, which is 1 if none counts.
    """
    inner = sections[1:-1] if len(sections) > 2 else sections
    width = np.float64(inner[-1].x[-1] - inner[0].x[0])
    values = [section.y for section in inner[:-1]]
    height = max(y.max() for y in values) - min(y.min() for y in values) if values else 1.0
    return width, np.float64(height)
