"""Test cases written as SQL: blocks of a `.sql` file, separated by blank lines.

A block is a comment with its title, the input, and its canonical rendering, each ended by `;` at the end of a line. In
`*__invalid.sql` the comment is part of the expected message (`-- hint: …` of the hint), and «…» in the input marks the text that
the error must point to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Case:
    """An accepted statement and its canonical rendering."""

    name: str
    text: str
    canonical: str


@dataclass(frozen=True)
class Refusal:
    """An invalid statement: fragments of message and hint, and the position of the error."""

    name: str
    text: str
    message: str
    hint: str
    start: int
    end: int


def cases(folder: Path = FIXTURES) -> list[Case]:
    """Return the valid statements of the fixtures."""
    paths = sorted(folder.glob("[a-z]*.sql"))
    return [_case(path, block) for path in paths if "__" not in path.name for block in _blocks(path)]


def refusals(folder: Path = FIXTURES) -> list[Refusal]:
    """Return the invalid statements of the fixtures."""
    return [_refusal(path, block) for path in sorted(folder.glob("*__invalid.sql")) for block in _blocks(path)]


def _blocks(path: Path) -> list[str]:
    return [block.strip() for block in re.split(r"\n\s*\n", path.read_text()) if block.strip()]


def _case(path: Path, block: str) -> Case:
    title, rest = block.split("\n", 1)
    text, canonical = re.split(r";\n", rest.removesuffix(";"))
    return Case(f"{path.stem}: {title.removeprefix('-- ')}", text, canonical)


def _refusal(path: Path, block: str) -> Refusal:
    lines = block.splitlines()
    comments = [line.removeprefix("-- ") for line in lines if line.startswith("-- ")]
    hints = [comment.removeprefix("hint: ") for comment in comments if comment.startswith("hint: ")]
    message = next(comment for comment in comments if not comment.startswith("hint: "))
    marked = "\n".join(line for line in lines if not line.startswith("-- ")).removesuffix(";")
    start = marked.index("«")
    text = marked.replace("«", "").replace("»", "")
    return Refusal(f"{path.stem}: {text[:50]}", text, message, "".join(hints), start, marked.index("»") - 1)
