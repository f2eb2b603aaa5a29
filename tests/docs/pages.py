"""The project's Markdown pages and the code blocks in them.

A snippet is a fenced block whose first word names its language; `sql iotdb` is SQL of the IoTDB dialect. An `ipython` block is a
cell of a notebook. A `python` block with the name of a file becomes that file. A `text` or `json` block that follows a snippet is
its expected output. A block that no test can run has the comment `<!-- not run: reason -->` in the line before it. Those that
`test_iotdb_page.py` runs if there is a server have `<!-- not run: runs with an IoTDB server -->`. Those that
`test_broker_pages.py` runs have `<!-- not run: runs with a broker -->`. Those of pages about clients, which tests of doors run,
have `<!-- not run: runs with an open door -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
RUNNABLE: Final = frozenset({"sql", "sh", "python", "ipython", "http", "java"})
"""Languages of the snippets that tests run."""
FILES: Final = frozenset({"csv", "ndjson", "java"})
"""Formats of blocks that become files; the second word of the fence is the file name."""
OUTPUT: Final = frozenset({"text", "json"})
"""Formats of the expected output of the previous snippet."""
STATIC: Final = frozenset({"", "bnf", "yaml"})
"""Drawings, grammars, and manifests, which tests of their own render."""

FENCE: Final = re.compile(r"```(\w*)[ ]?([\w./-]*)$")
IOTDB_REASON: Final = "runs with an IoTDB server"
BROKER_REASON: Final = "runs with a broker"
DOOR_REASON: Final = "runs with an open door"
AIRFLOW_REASON: Final = "runs in Airflow"
CLUSTER_REASON: Final = "needs a cluster"
MACHINE_REASON: Final = "changes the machine"
ELSEWHERE: Final = frozenset({IOTDB_REASON, BROKER_REASON, DOOR_REASON, AIRFLOW_REASON, CLUSTER_REASON, MACHINE_REASON})
"""What marks snippets that tests of their own run, or compare with what they name."""
SKIP_COMMENT: Final = re.compile(r"<!-- not run: (.+) -->")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page.

    Attributes:
        line: Line number of the opening fence.
        expected: Expected output of a snippet; None if the page shows none.
        skip_reason: Why no test can run the block; None if tests run it.
    """

    page: Path
    line: int
    language: str
    name: str
    text: str
    skip_reason: str | None = None
    expected: str | None = None

    @property
    def is_file(self) -> bool:
        """Whether the block becomes a file."""
        return self.language in FILES or self.name.endswith(".py")

    @property
    def location(self) -> str:
        """Page and line, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def markdown_pages() -> list[Path]:
    """Return every Markdown page of the project."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def parse_blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in order, with each expected output attached to its snippet."""
    blocks: list[Block] = []
    for block, follows_snippet in _fenced_blocks(page):
        if block.language in OUTPUT and block.skip_reason is None:
            assert follows_snippet, f"{block.location}: an output block must follow a snippet"
            snippet = blocks.pop()
            blocks.append(replace(snippet, expected=block.text))
        else:
            blocks.append(block)
    return blocks


def section_blocks(page: Path, heading: str) -> list[Block]:
    """Return the blocks before the first section of a page, which prepare the examples, and those of a section."""
    lines = page.read_text().splitlines()
    starts = [number for number, line in enumerate(lines, 1) if line.startswith("## ")]
    start = lines.index(f"## {heading}") + 1
    end = next((number for number in starts if number > start), len(lines) + 1)
    return [block for block in parse_blocks(page) if block.line < starts[0] or start < block.line < end]


def _fenced_blocks(page: Path) -> Iterator[tuple[Block, bool]]:
    """Yield each fenced block, and whether only blank lines separate it from a preceding snippet."""
    lines = page.read_text().splitlines()
    index, after_snippet = 0, False
    while index < len(lines):
        fence = FENCE.fullmatch(lines[index])
        if fence is None:
            after_snippet = after_snippet and not lines[index].strip()
            index += 1
            continue
        end = lines.index("```", index + 1)
        comment = SKIP_COMMENT.fullmatch(lines[index - 1]) if index else None
        text = "\n".join(lines[index + 1 : end])
        yield Block(page, index + 1, fence[1], fence[2], text, comment and comment[1]), after_snippet
        after_snippet = fence[1] in RUNNABLE
        index = end + 1
