"""The pictures of `docs/guides/triggers.md`, drawn from what the examples in `timelines.md` do.

An image link with a block of `sql timeline` below it is a picture of that block: of its statements, and of the commits that its
streams make. `python -m tests.docs.timelines` writes the pictures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

from tests.docs.pages import ROOT, Block, parse_blocks
from tests.docs.replay import Replay

PAGE: Final = ROOT / "docs/guides/triggers.md"
EXAMPLES: Final = ROOT / "tests/docs/timelines.md"
IMAGE: Final = re.compile(r"!\[(.+)\]\((.+\.svg)\)")
TIMELINE: Final = "timeline"
"""The second word of the fence of an example."""
WINDOW_SECONDS: Final = 10

WIDTH: Final = 760
LEFT: Final = 190
RIGHT: Final = 736
AXIS_Y: Final = 32
ROWS_Y: Final = 76
LANE_HEIGHT: Final = 44
LABEL_CHARACTERS: Final = 25
BREAK_SECONDS: Final = 40
"""A longer stretch without events is cut out of the axis."""
BREAK_WIDTH: Final = 46.0
COLORS: Final = ("blue", "green", "violet", "orange")
CLOSE_PIXELS: Final = 20
"""Boxes and labels closer than this are moved apart."""

STYLE: Final = """
    .card { fill: #ffffff; stroke: #d0d7de } .line { stroke: #8c959f } .grid { stroke: #d8dee4 } .ink { fill: #1f2328 }
    .soft { fill: #59636e }
    .blue { fill: #b6d7ff; stroke: #0969da } .green { fill: #d2ecd6; stroke: #1a7f37 } .violet { fill: #e6d9fb; stroke: #8250df }
    .orange { fill: #ffe3c2; stroke: #bc4c00 } .added { stroke-dasharray: 3 2 } .gone { fill: none; stroke-dasharray: 3 2 }
    .cut { fill: none; stroke: #cf222e; stroke-width: 2 } text { font: 12px ui-sans-serif, system-ui, sans-serif }
    .code { font: 11.5px ui-monospace, Menlo, Consolas, monospace }
    @media (prefers-color-scheme: dark) {
      .card { fill: #161b22; stroke: #30363d } .line { stroke: #7d8590 } .grid { stroke: #2a313a } .ink { fill: #e6edf3 }
      .soft { fill: #9198a1 }
      .blue { fill: #16365f; stroke: #4493f8 } .green { fill: #12361f; stroke: #3fb950 } .violet { fill: #33214f; stroke: #ab7df8 }
      .orange { fill: #46280c; stroke: #f0883e } .gone { fill: none } .cut { stroke: #f85149 }
    }
  """


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of the page: its title, its file and the block that it shows."""

    title: str
    file: Path
    block: Block


@dataclass(frozen=True, slots=True)
class Axis:
    """The time axis: seconds of the clock to pixels, without the stretches in which nothing happens."""

    spans: Sequence[tuple[int, int]]

    @classmethod
    def over(cls, seconds: Sequence[int], end: int) -> Axis:
        """Return the axis from 0 to `end` for events at these seconds."""
        marks = sorted({0, *seconds, end})
        spans, first = [], 0
        for before, after in pairwise(marks):
            if after - before > BREAK_SECONDS:
                spans.append((first, before + 3))
                first = after - 3
        return cls([*spans, (first, end)])

    @property
    def scale(self) -> float:
        """Pixels of a second."""
        width = RIGHT - LEFT - BREAK_WIDTH * (len(self.spans) - 1)
        return width / sum(last - first for first, last in self.spans)

    def x(self, second: float) -> float:
        """Return the position of a second."""
        x = float(LEFT)
        for first, last in self.spans:
            if second <= last:
                return x + max(0.0, second - first) * self.scale
            x += (last - first) * self.scale + BREAK_WIDTH
        return float(RIGHT)

    def ticks(self) -> list[int]:
        """Return the seconds that have a label."""
        step = 5 if self.scale > 8 else 10
        return [second for first, last in self.spans for second in range(first, last + 1) if second % step == 0]

    def breaks(self) -> list[float]:
        """Return the middle of each stretch that is left out."""
        return [self.x(last) + BREAK_WIDTH / 2 for _, last in self.spans[:-1]]


def pictures() -> list[Picture]:
    """Return the pictures, each with the example below it."""
    blocks = [block for block in parse_blocks(EXAMPLES) if block.name == TIMELINE]
    lines = EXAMPLES.read_text().splitlines()
    found = []
    for block in blocks:
        image = next((match for line in reversed(lines[: block.line]) if (match := IMAGE.fullmatch(line))), None)
        if image is not None:
            found.append(Picture(image[1], PAGE.parent / image[2], block))
    return found


def run_examples() -> Iterator[tuple[Picture, Replay]]:
    """Run each example, and yield its picture with what happened."""
    for picture in pictures():
        yield picture, Replay(picture.block.text)


def draw(title: str, timeline: Sequence[tuple[Any, ...]]) -> str:
    """Return the timeline of an example as SVG.

    Args:
        title: Title of the picture.
        timeline: What happened: `(second, kind, …)` as a `Replay` records it.
    """
    end = max(event[0] for event in timeline if event[1] == "end")
    streams = {event[2]: event for event in timeline if event[1] == "stream"}
    rows = [event for event in timeline if event[1] in {"insert", "update", "delete"}]
    writes = [event for event in timeline if event[1] in {"write", "remove", "expired"}]
    axis = Axis.over([event[0] for event in timeline], end)
    lanes = {name: ROWS_Y + LANE_HEIGHT * (1 + index) + 12 for index, name in enumerate(streams)}
    bottom = ROWS_Y + LANE_HEIGHT * len(streams) + 34
    starts = {start for _, _, _, start, _ in rows} | {event[3] for event in writes if event[1] != "expired"}
    windows = {window: COLORS[index % len(COLORS)] for index, window in enumerate(sorted({window_of(start) for start in starts}))}
    parts = [*draw_axis(axis, bottom), *draw_rows(axis, rows, windows)]
    for name, (second, _, _, sql) in streams.items():
        parts += draw_lane(axis, lane_label(sql), second, lanes[name])
    for name, y in lanes.items():
        parts += draw_writes(axis, [event for event in writes if event[2] == name], rows, windows, y)
    legend = draw_legend(windows, writes, rows, bottom + 8)
    return document(title, bottom + 32, [*parts, *legend])


def lane_label(sql: str) -> str:
    """Return the options of a CREATE STREAM statement, and how it fills."""
    options = sql.partition(" INTO ")[0].split()[3:]
    fill = re.search(r"FILL\([^)]*\)", sql)
    words = [*(word for word in options if word != "TRIGGER"), *([fill[0]] if fill else [])]
    return " ".join(words) or "without options"


def window_of(start: int) -> int:
    """Return the start of the window of an instant, in seconds."""
    return start // WINDOW_SECONDS * WINDOW_SECONDS


def clock(second: int) -> str:
    """Return a second as minutes and seconds, without minutes if there are none."""
    minutes, seconds = divmod(second % 3600, 60)
    return f"{minutes}:{seconds:02}" if minutes else f":{seconds:02}"


def is_added(event: tuple[Any, ...], rows: Sequence[tuple[Any, ...]]) -> bool:
    """Return True if a window was written without any row, by FILL."""
    if event[1] != "write":
        return False
    return not any(second <= event[0] and kind != "delete" and window_of(start) == event[3] for second, kind, _, start, _ in rows)


def text(kind: str, x: float, y: float, content: str, anchor: str = "middle") -> str:
    """Return a text."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def line(kind: str, path: str) -> str:
    """Return a line."""
    return f'<path class="{kind}" d="{path}"/>'


def draw_axis(axis: Axis, bottom: float) -> list[str]:
    """Return the clock with the bounds of windows."""
    parts = [text("soft", 16, 36, "clock, from 12:00", "start"), line("line", f"M{LEFT} {AXIS_Y}H{RIGHT}")]
    for second in axis.ticks():
        x = axis.x(second)
        parts += [line("line", f"M{x:.1f} {AXIS_Y - 3}v6"), text("soft", x, AXIS_Y - 8, clock(second))]
        if second % WINDOW_SECONDS == 0:
            parts.append(line("grid", f"M{x:.1f} {AXIS_Y + 4}V{bottom}"))
    for x in axis.breaks():
        parts += [f'<rect class="card" style="stroke:none" x="{x - 9:.1f}" y="{AXIS_Y - 5}" width="18" height="10"/>']
        parts.append(text("soft", x, AXIS_Y + 3, "⋯"))
    return parts


def draw_rows(axis: Axis, rows: Sequence[tuple[Any, ...]], windows: dict[int, str]) -> list[str]:
    """Return the rows: a dot in the color of its window, its event time above, its value below."""
    parts = [text("ink", 16, ROWS_Y, "rows of the source", "start"), text("soft", 16, ROWS_Y + 15, "event time, watts", "start")]
    last = -100.0
    for second, kind, table, start, watts in rows:
        x = max(axis.x(second), last + CLOSE_PIXELS)
        last = x
        color = "gone " * (kind == "delete") + windows[window_of(start)]
        parts += [
            f'<circle class="{color}" style="stroke-width:1.5" cx="{x:.1f}" cy="{ROWS_Y - 4}" r="4.5"/>',
            text("soft", x, ROWS_Y - 14, clock(start) + ("" if table == "m1" else f" {table}")),
            text("ink", x, ROWS_Y + 15, {"insert": str(watts), "update": f"={watts}", "delete": "deleted"}[kind]),
        ]
    return parts


def draw_lane(axis: Axis, label: str, second: int, y: float) -> list[str]:
    """Return the lane of a stream, from its creation on, with its options."""
    lines: list[str] = []
    for word in label.split():
        if lines and len(lines[-1]) + 1 + len(word) <= LABEL_CHARACTERS:
            lines[-1] += " " + word
        else:
            lines.append(word)
    top = y + 4 - 7 * (len(lines) - 1)
    parts = [text("code ink", 16, top + 14 * index, content, "start") for index, content in enumerate(lines)]
    x = axis.x(second)
    return [*parts, line("line", f"M{x:.1f} {y}H{RIGHT}"), *([line("line", f"M{x:.1f} {y - 12}v24")] if second else [])]


def draw_writes(
    axis: Axis, writes: Sequence[tuple[Any, ...]], rows: Sequence[tuple[Any, ...]], windows: dict[int, str], y: float
) -> Iterator[str]:
    """Return what a stream wrote: a box for each window with its sum, crossed if it was removed."""
    last = -100.0
    for event in writes:
        x = max(axis.x(event[0]), last + CLOSE_PIXELS + 2)
        last = x
        if event[1] == "expired":
            yield line("cut", f"M{x - 5:.1f} {y - 5}l10 10m0 -10l-10 10")
            continue
        content = "–" if event[4] is None else str(event[4])
        added = " added" * is_added(event, rows)
        yield f'<rect class="{windows[event[3]]}{added}" x="{x - 10:.1f}" y="{y - 10}" width="20" height="20" rx="3"/>'
        if event[1] == "remove":
            yield line("cut", f"M{x - 10:.1f} {y - 10}l20 20")
        else:
            yield text("ink", x, y + 4, content)


def draw_legend(
    windows: dict[int, str], writes: Sequence[tuple[Any, ...]], rows: Sequence[tuple[Any, ...]], y: float
) -> Iterator[str]:
    """Return what the colors and signs mean, as far as the picture has them."""
    x = 16.0
    for index, (window, color) in enumerate(windows.items()):
        name = f"{clock(window)} to {clock(window + WINDOW_SECONDS)}"
        yield f'<rect class="{color}" x="{x:.1f}" y="{y}" width="12" height="12" rx="2"/>'
        content = f"sum of the window {name}" if index == 0 else name
        yield text("soft", x + 18, y + 10, content, "start")
        x += 40 + 6.2 * len(content)
    if any(is_added(event, rows) for event in writes):
        yield f'<rect class="added line" style="fill:none" x="{x:.1f}" y="{y}" width="12" height="12" rx="2"/>'
        yield text("soft", x + 18, y + 10, "added by FILL", "start")
    if any(event[1] == "expired" for event in writes):
        yield line("cut", f"M{x + 2} {y + 2}l8 8m0 -8l-8 8")
        yield text("soft", x + 18, y + 10, "row expired", "start")


def document(title: str, height: float, parts: Sequence[str]) -> str:
    """Return the picture."""
    body = "\n  ".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}" role="img">'
        f"\n  <title>{escape(title)}</title>\n  <style>{STYLE}</style>\n"
        f'  <rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="6"/>\n  {body}\n</svg>\n'
    )


def main() -> None:
    """Write all pictures."""
    for picture, replay in run_examples():
        picture.file.parent.mkdir(exist_ok=True)
        picture.file.write_text(draw(picture.title, replay.timeline))


if __name__ == "__main__":
    main()
