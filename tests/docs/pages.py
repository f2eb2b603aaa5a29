"""The Markdown pages of the project, and the snippets in them.

A snippet is a fenced block whose first word names its language. A block of `text` that follows a snippet is what it prints. A block
that cannot be run in a test has `<!-- not run: why -->` in the line before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
RUN: Final = frozenset({"sql", "sh", "python", "http"})
"""Languages of what a test runs."""
GIVEN: Final = frozenset({"csv", "ndjson"})
"""Files: the second word of the fence is the name."""
OUTPUT: Final = frozenset({"text", "json"})
"""What the snippet before prints or answers."""
SHOWN: Final = frozenset({"", "bnf"})
"""Drawings and grammars."""

FENCE: Final = re.compile(r"```(\w*)[ ]?([\w./-]*)$")
NOT_RUN: Final = re.compile(r"<!-- not run: (.+) -->")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: `line` is that of its fence, `expected` the output below it, `not_run` why no test can run it."""

    page: Path
    line: int
    language: str
    name: str
    text: str
    not_run: str | None = None
    expected: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Every Markdown page of the project."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in order, outputs attached to what prints them."""
    found: list[Block] = []
    for block, follows in fenced(page):
        if block.language in OUTPUT and block.not_run is None:
            assert follows, f"{block.place}: an output without the snippet that prints it"
            before = found.pop()
            found.append(Block(before.page, before.line, before.language, before.name, before.text, before.not_run, block.text))
        else:
            found.append(block)
    return found


def fenced(page: Path) -> Iterator[tuple[Block, bool]]:
    """The blocks as they stand, and whether nothing but blank lines is between one and a snippet before it."""
    lines = page.read_text().splitlines()
    place, after_snippet = 0, False
    while place < len(lines):
        opened = FENCE.fullmatch(lines[place])
        if opened is None:
            after_snippet = after_snippet and not lines[place].strip()
            place += 1
            continue
        end = lines.index("```", place + 1)
        why = NOT_RUN.fullmatch(lines[place - 1]) if place else None
        text = "\n".join(lines[place + 1 : end])
        yield Block(page, place + 1, opened[1], opened[2], text, why and why[1]), after_snippet
        after_snippet = opened[1] in RUN
        place = end + 1
