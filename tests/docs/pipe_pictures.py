"""The picture of `docs/guides/pipes.md`: the stages of a pipe with the built-in plugins, and what goes through them.

`python -m tests.docs.pipe_pictures` writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from headrace.pipes.builtin import PROCESSORS, SINKS, SOURCES
from headrace.pipes.plugins import Plugin
from tests.docs.pages import ROOT
from tests.docs.timelines import document, line, text

FILE: Final = ROOT / "docs/guides/pipes/stages.svg"
TITLE: Final = "A pipe reads a history and then commits, processes them, and delivers them"
OWN: Final = "plugins of your own"

COMMITS: Final = (60, 104, 148, 192, 236, 304, 396, 470)
CREATED_AT: Final = 270
"""Where the time line has the statement: commits on its left are the history."""
LINE_Y: Final = 52
BOXES_Y: Final = 160
FIRST_PLUGIN_Y: Final = 50
PLUGIN_HEIGHT: Final = 18


@dataclass(frozen=True, slots=True)
class Box:
    """A stage: what it does, its plugins, and where it is drawn."""

    name: str
    role: str
    color: str
    plugins: Sequence[Plugin]
    x: int
    width: int

    @property
    def middle(self) -> float:
        """Where arrows from above and below end."""
        return self.x + self.width / 2

    @property
    def lines(self) -> list[str]:
        """The names of the plugins that do something, those that most pipes use first."""
        return [*(one.name for one in self.plugins if not one.name.startswith("do-nothing-source")), OWN]


BOXES: Final = (
    Box("source", "what is read", "blue", SOURCES, 16, 176),
    Box("processor", "what is changed", "violet", PROCESSORS, 235, 264),
    Box("sink", "where it goes", "green", SINKS, 542, 202),
)


def draw() -> str:
    """Return the picture."""
    bottom = BOXES_Y + FIRST_PLUGIN_Y + PLUGIN_HEIGHT * max(len(box.lines) for box in BOXES)
    boxes = [part for box in BOXES for part in draw_box(box, bottom)]
    return document(TITLE, bottom + 64, [*draw_commits(), *draw_inputs(), *boxes, *draw_batches(), *draw_position(bottom)])


def draw_commits() -> Iterator[str]:
    """Yield the commits of a table, divided by the statement that creates the pipe."""
    yield line("line", f"M24 {LINE_Y}H520")
    for x in COMMITS:
        color = "blue" if x < CREATED_AT else "orange"
        yield f'<rect class="{color}" x="{x - 12}" y="{LINE_Y - 10}" width="24" height="20" rx="3"/>'
    yield f'<path class="line" stroke-dasharray="4 3" d="M{CREATED_AT} 26V104"/>'
    yield text("code ink", CREATED_AT, 20, "CREATE PIPE")
    yield text("soft", 536, LINE_Y + 4, "commits of a table, over time", "start")


def draw_inputs() -> Iterator[str]:
    """Yield how both parts come into the source: the history in chunks, then each commit."""
    for first, last, label, turn, entry in (
        (48, 248, "history: what there is, in chunks", 116, 80),
        (292, 482, "realtime: then each commit", 132, 128),
    ):
        middle = (first + last) // 2
        yield arrow(f"M{first} {LINE_Y + 18}v6H{last}v-6")
        yield text("ink", middle, LINE_Y + 40, label)
        yield arrow(f"M{middle} {LINE_Y + 46}V{turn}H{entry}V{BOXES_Y - 3}")
        yield head(entry, BOXES_Y - 1, "l-4 -7h8z")


def draw_box(box: Box, bottom: float) -> Iterator[str]:
    """Yield a stage with its plugins."""
    yield f'<rect class="{box.color}" x="{box.x}" y="{BOXES_Y}" width="{box.width}" height="{bottom - BOXES_Y:g}" rx="6"/>'
    yield text("ink", box.x + 14, BOXES_Y + 24, box.name, "start")
    yield text("soft", box.x + box.width - 14, BOXES_Y + 24, box.role, "end")
    for index, name in enumerate(box.lines):
        kind = "soft" if name == OWN else "code ink"
        yield text(kind, box.x + 14, BOXES_Y + FIRST_PLUGIN_Y + index * PLUGIN_HEIGHT, name, "start")


def draw_batches() -> Iterator[str]:
    """Yield the arrows between the stages, with the batches on their way."""
    for (left, right), colors in zip(pairwise(BOXES), (("orange", "blue"), ("blue",)), strict=True):
        first, last = left.x + left.width, right.x
        y = BOXES_Y + 20
        yield arrow(f"M{first} {y}H{last - 4}")
        yield head(last - 1, y)
        for index, color in enumerate(colors):
            yield f'<rect class="{color}" x="{first + 3 + 16 * index}" y="{y - 7}" width="13" height="14" rx="2"/>'


def draw_position(bottom: float) -> Iterator[str]:
    """Yield that the position is recorded once a batch is delivered."""
    y = bottom + 34
    source, processor, sink = BOXES
    right = processor.x + processor.width
    yield f'<rect class="card" x="{processor.x}" y="{y - 17:g}" width="{processor.width}" height="34" rx="6"/>'
    yield text("ink", processor.middle, y + 4, "position, in the catalog")
    yield arrow(f"M{sink.middle:g} {bottom:g}V{y:g}H{right + 4}")
    yield head(right + 1, y, "l7 -4v8z")
    yield text("soft", sink.middle - 8, y + 18, "once a batch is delivered")
    yield arrow(f"M{processor.x} {y:g}H{source.middle:g}V{bottom + 4:g}")
    yield head(source.middle, bottom + 1, "l-4 7h8z")
    yield text("soft", source.middle + 8, y + 18, "where to continue")


def arrow(path: str) -> str:
    """Return the line of an arrow."""
    return f'<path class="line" fill="none" d="{path}"/>'


def head(x: float, y: float, shape: str = "l-7 -4v8z") -> str:
    """Return the head of an arrow, which points to the right unless another shape is given."""
    return f'<path class="soft" d="M{x:g} {y:g}{shape}"/>'


def main() -> None:
    """Write the picture."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(draw())


if __name__ == "__main__":
    main()
