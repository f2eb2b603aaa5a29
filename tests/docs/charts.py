"""Small charts of series as SVG, for light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final
from xml.sax.saxutils import escape

Points = dict[int, float]
"""Values by time. Of a level it is one value, and of a band its bounds, whatever the time."""

WIDTH: Final = 480
LEFT: Final = 56
RIGHT: Final = 452
LEGEND_HEIGHT: Final = 17
AXIS_HEIGHT: Final = 32
TOP: Final = 10
STYLE: Final = (
    ".card{fill:#fff;stroke:#d0d7de}.axis{stroke:#8c959f}.grid{stroke:#d8dee4}.soft{fill:#59636e}.ink{fill:#1f2328}"
    ".blue{stroke:#0969da;color:#0969da}.green{stroke:#1a7f37;color:#1a7f37}.violet{stroke:#8250df;color:#8250df}"
    ".orange{stroke:#bc4c00;color:#bc4c00}.none{stroke:#cf222e}path,circle{fill:none;stroke-width:1.5}"
    ".dot{fill:currentColor;stroke:none!important}.area{fill:currentColor;fill-opacity:.18;stroke:none!important}"
    "text{font:11px ui-sans-serif,system-ui,sans-serif}.code{font:11px ui-monospace,Menlo,Consolas,monospace}"
    "@media(prefers-color-scheme:dark){.card{fill:#161b22;stroke:#30363d}.axis{stroke:#7d8590}.grid{stroke:#2a313a}"
    ".soft{fill:#9198a1}.ink{fill:#e6edf3}.blue{stroke:#4493f8;color:#4493f8}.green{stroke:#3fb950;color:#3fb950}"
    ".violet{stroke:#ab7df8;color:#ab7df8}.orange{stroke:#f0883e;color:#f0883e}.none{stroke:#f85149}}"
)


class Style(Enum):
    """How points are drawn."""

    DOTS = "dots on a thin line"
    LINE = "a line"
    RINGS = "rings around points"
    STEMS = "stems from 0"
    AREA = "the area from 0"
    LEVEL = "a horizontal line"
    BAND = "the area between two levels"
    BRACKET = "a distance at the right"


ANYWHERE: Final = (Style.LEVEL, Style.BAND, Style.BRACKET)
"""Styles whose points have no time."""
FROM_ZERO: Final = (Style.STEMS, Style.AREA)


@dataclass(frozen=True, slots=True)
class Curve:
    """Points with a label, which is empty for none, and a color. Those that are not finite are crosses at the bottom."""

    label: str
    points: Points
    color: str
    style: Style

    @property
    def finite(self) -> Points:
        """The points with a finite value."""
        return {time: value for time, value in sorted(self.points.items()) if math.isfinite(value)}


@dataclass(frozen=True, slots=True)
class Panel:
    """Curves over common axes.

    Attributes:
        notes: Lines of text below the labels.
        height: The height of the curves in pixels.
        times: Times that the axis has in any case.
    """

    curves: Sequence[Curve]
    notes: Sequence[str] = ()
    height: int = 84
    times: Sequence[int] = ()

    @property
    def labels(self) -> list[Curve]:
        """The curves that have a label."""
        return [curve for curve in self.curves if curve.label]

    @property
    def total_height(self) -> int:
        """The height with labels and axis."""
        return LEGEND_HEIGHT * (len(self.labels) + len(self.notes)) + self.height + AXIS_HEIGHT + 12


@dataclass(frozen=True, slots=True)
class Axes:
    """Times and values to pixels."""

    times: tuple[int, int]
    values: tuple[float, float]
    top: float
    height: float

    @classmethod
    def of(cls, panel: Panel, top: float) -> Axes:
        """Return the axes on which all curves of a panel fit."""
        times = [*panel.times, *(time for curve in panel.curves if curve.style not in ANYWHERE for time in curve.points)]
        values = [value for curve in panel.curves for value in curve.finite.values()] or [0.0]
        values += [0.0 for curve in panel.curves if curve.style in FROM_ZERO]
        return cls((min(times), max(times)), (min(values), max(values)), top, panel.height)

    def x(self, time: int) -> float:
        first, last = self.times
        return (LEFT + RIGHT) / 2 if first == last else LEFT + 6 + (RIGHT - LEFT - 12) * (time - first) / (last - first)

    def y(self, value: float) -> float:
        low, high = self.values
        return self.top + self.height / 2 if low == high else self.top + self.height * (high - value) / (high - low)

    @property
    def bottom(self) -> float:
        return self.top + self.height


def draw(title: str, panels: Sequence[Panel]) -> str:
    """Return panels, one below the other, as SVG."""
    parts: list[str] = []
    y = float(TOP)
    for panel in panels:
        parts += draw_panel(panel, y)
        y += panel.total_height
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:g}" width="{WIDTH}" height="{y:g}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
        f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{y - 1:g}" rx="6"/>\n{body}\n</svg>\n'
    )


def draw_panel(panel: Panel, top: float) -> Iterator[str]:
    """Yield the labels, the axes and the curves of a panel."""
    for curve in panel.labels:
        yield from draw_key(curve, top + 8)
        yield text("code ink", LEFT + 26, top + 12, curve.label, "start")
        top += LEGEND_HEIGHT
    for note in panel.notes:
        yield text("code ink", LEFT, top + 12, note, "start")
        top += LEGEND_HEIGHT
    axes = Axes.of(panel, top + 12)
    yield from draw_axes(axes)
    for curve in panel.curves:
        yield from draw_curve(curve, axes)


def draw_axes(axes: Axes) -> Iterator[str]:
    """Yield the axes, with the first and last time, and the least and greatest value."""
    bottom = axes.bottom + 8
    yield path("axis", f"M{LEFT} {bottom:g}H{RIGHT}")
    for time in sorted(set(axes.times)):
        yield path("axis", f"M{axes.x(time):.1f} {bottom:g}v4")
        yield text("soft", axes.x(time), bottom + 15, f"{time}")
    low, high = axes.values
    for value in sorted({low, high, *([0.0] if low < 0 < high else [])}):
        yield path("grid", f"M{LEFT} {axes.y(value):.1f}H{RIGHT}")
        if value in (low, high) or min(abs(axes.y(value) - axes.y(end)) for end in (low, high)) > 11:
            yield text("soft", LEFT - 6, axes.y(value) + 4, f"{value:.3g}", "end")


def draw_key(curve: Curve, y: float) -> Iterator[str]:
    """Yield how the curve is drawn, beside its label."""
    if curve.style in (Style.AREA, Style.BAND):
        yield f'<rect class="{curve.color} area" x="{LEFT}" y="{y - 5:g}" width="18" height="10"/>'
    elif curve.style is Style.BRACKET:
        yield path(curve.color, f"M{LEFT + 6} {y - 5:g}h6m-3 0v10m-3 0h6")
    elif curve.style is Style.RINGS:
        yield f'<circle class="{curve.color}" cx="{LEFT + 9}" cy="{y:g}" r="5"/>'
    else:
        dash = ' stroke-dasharray="4 3"' if curve.style is Style.LEVEL else ""
        yield f'<path class="{curve.color}" d="M{LEFT} {y:g}h18"{dash}/>'
        if curve.style in (Style.DOTS, Style.STEMS):
            yield f'<circle class="{curve.color} dot" cx="{LEFT + 9}" cy="{y:g}" r="3"/>'


def draw_curve(curve: Curve, axes: Axes) -> Iterator[str]:
    """Yield the points of a curve."""
    values = list(curve.finite.values())
    places = [(axes.x(time), axes.y(value)) for time, value in curve.finite.items()]
    polyline = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    match curve.style:
        case Style.LEVEL:
            yield f'<path class="{curve.color}" d="M{LEFT} {axes.y(values[0]):.1f}H{RIGHT}" stroke-dasharray="4 3"/>'
        case Style.BAND:
            low, high = axes.y(values[0]), axes.y(values[1])
            yield f'<rect class="{curve.color} area" x="{LEFT}" y="{high:.1f}" width="{RIGHT - LEFT}" height="{low - high:.1f}"/>'
        case Style.BRACKET:
            low, high = axes.y(values[0]), axes.y(values[1])
            yield path(curve.color, f"M{RIGHT + 6} {high:.1f}h6m-3 0V{low:.1f}m-3 0h6")
        case Style.AREA:
            base = axes.y(0)
            yield f'<path class="{curve.color} area" d="{polyline}V{base:.1f}H{places[0][0]:.1f}Z"/>'
        case Style.STEMS:
            base = axes.y(0)
            yield path(curve.color, "".join(f"M{x:.1f} {base:.1f}V{y:.1f}" for x, y in places))
            yield from (circle(f"{curve.color} dot", x, y, 3) for x, y in places)
        case Style.RINGS:
            yield from (circle(curve.color, x, y, 6) for x, y in places)
        case Style.LINE:
            yield path(curve.color, polyline)
            yield from (circle(curve.color, x, y, 4) for x, y in places)
        case Style.DOTS:
            yield f'<path class="{curve.color}" d="{polyline}" stroke-opacity=".4"/>'
            yield from (circle(f"{curve.color} dot", x, y, 3) for x, y in places)
    for time in curve.points.keys() - curve.finite.keys():
        yield path("none", f"M{axes.x(time) - 4:.1f} {axes.bottom - 4:.1f}l8 8m0 -8l-8 8")


def path(kind: str, steps: str) -> str:
    return f'<path class="{kind}" d="{steps}"/>'


def circle(kind: str, x: float, y: float, radius: float) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>'


def text(kind: str, x: float, y: float, content: str, anchor: str = "middle") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'
