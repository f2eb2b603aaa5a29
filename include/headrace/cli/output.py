"""Rows, lines and errors as text. It imports little, because `headrace sql` waits for its imports."""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol, TextIO

from headrace.errors import Error

STATE_STYLES: Final = {"RUNNING": "32", "FILLING": "36", "CREATED": "36", "PAUSED": "33", "STOPPED": "1;31"}
"""Colors of words, as parameters of ANSI's Select Graphic Rendition."""
BOLD: Final = "1"
DIM: Final = "2"
CYAN: Final = "36"
MIN_FOLDED_WIDTH: Final = 20
"""The last column is folded if that leaves it as many characters."""
CONTROL_CHARACTERS: Final = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), 127)}


class Format(StrEnum):
    """Format in which a command prints rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class Tabular(Protocol):
    """A result with column names and rows."""

    @property
    def names(self) -> list[str]:
        """Column names in order."""

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """Return the rows as tuples of Python values."""


def buffer_output() -> None:
    """Buffer standard output also with `PYTHONUNBUFFERED`: without a buffer, Python drops what an interrupted write has left."""
    stdout = sys.stdout
    if isinstance(stdout, io.TextIOWrapper) and not isinstance(stdout.buffer, io.BufferedIOBase):
        buffer = io.BufferedWriter(io.FileIO(stdout.fileno(), "w", closefd=False))
        sys.stdout = io.TextIOWrapper(buffer, stdout.encoding, stdout.errors, line_buffering=True)  # lines are written at once


def output_width() -> int | None:
    """Return the width of the terminal; None if standard output is none, so that nothing is folded."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def styled(text: str, style: str, stream: TextIO | None = None) -> str:
    """Return a text in a style, or unchanged if the stream (by default standard output) is no terminal."""
    is_plain = not style or "NO_COLOR" in os.environ or not (stream or sys.stdout).isatty()
    return text if is_plain else f"\x1b[{style}m{text}\x1b[0m"


def show_error(error: Error) -> None:
    """Print an error to standard error: its code and message, its position in the statement, and its hint."""
    first, *others = format_error(error).split("\n")
    word = "error"
    sys.stderr.write(styled(word, "1;31", sys.stderr) + first.removeprefix(word) + "\n")
    for line in others:
        sys.stderr.write(styled(line, CYAN if line.startswith("hint:") else "", sys.stderr) + "\n")


def format_error(error: Error) -> str:
    """Return an error as text: its code and message, its position in the statement, and its hint."""
    return f"error {error}"


def show_lines(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")


def show_rows(rows: Tabular, output_format: Format, separator: str = ",") -> None:
    """Print a result as a table, as CSV with this separator, or as one JSON object per line."""
    match output_format:
        case Format.TABLE:
            show_table(rows.names, list(rows.tuples()))
        case Format.CSV:
            for cells in (rows.names, *rows.tuples()):
                sys.stdout.write(separator.join(csv_cell(cell, separator) for cell in cells) + "\n")
        case Format.JSON:
            import json

            for row in rows.tuples():
                sys.stdout.write(json.dumps(dict(zip(rows.names, row, strict=True)), default=exact_text) + "\n")


def show_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    show_lines(format_table(names, rows, output_width()))


def format_table(names: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None = None) -> Iterator[str]:
    """Yield the lines of a table, with numbers to the right; if it is too wide, a line for each value.

    `width` is in characters; None if there is no limit. A single column is never cut.
    """
    cells = [[format_value(value).translate(CONTROL_CHARACTERS) for value in row] for row in rows]
    lines = [[line for text in column for line in text.split("\n")] for column in zip(names, *cells, strict=True)]
    widths = [max(map(text_width, column)) for column in lines]
    excess = 0 if width is None or len(names) == 1 else sum(widths) + 2 * (len(names) - 1) - width
    if excess > 0:
        if widths[-1] - excess < MIN_FOLDED_WIDTH:
            yield from format_records(names, cells)
            return
        widths[-1] -= excess
        cells = [[*row[:-1], fold(row[-1], widths[-1])] for row in cells]
    is_right = [any(is_number(row[index]) for row in rows) for index in range(len(names))]
    yield from format_row(names, widths, is_right, BOLD)
    for row in cells:
        yield from format_row(row, widths, is_right)


def format_row(cells: Sequence[str], widths: Sequence[int], is_right: Sequence[bool], style: str = "") -> Iterator[str]:
    """Yield the lines of a row, one unless a cell has several."""
    parts = [cell.split("\n") for cell in cells]
    for number in range(max(map(len, parts), default=0)):
        texts = [lines[number] if number < len(lines) else "" for lines in parts]
        padded = (
            " " * (width - text_width(text)) * right
            + styled(text, style or STATE_STYLES.get(text, ""))
            + " " * (width - text_width(text)) * (not right)
            for text, width, right in zip(texts, widths, is_right, strict=True)
        )
        yield "  ".join(padded).rstrip()


def format_records(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each value, with a blank line between rows."""
    width = max(map(text_width, names))
    for number, row in enumerate(rows):
        if number:
            yield ""
        for name, value in zip(names, row, strict=True):
            label = styled(name + " " * (width - text_width(name)), BOLD)
            yield f"{label}  {styled(value, STATE_STYLES.get(value, ''))}"
    if not rows:
        yield "no rows"


def fold(text: str, width: int) -> str:
    return "\n".join("\n".join(textwrap.wrap(line, width)) for line in text.split("\n"))


def text_width(text: str) -> int:
    """Return how many columns of a terminal a text takes: East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1 for character in text)


def is_number(value: Any) -> bool:
    """Return True for numbers, which are aligned to the right."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def csv_cell(value: Any, separator: str) -> str:
    """Format a value so that a load reads it again: NULL is empty, and empty text is in quotes."""
    if value is None:
        return ""
    text = exact_text(value)
    if text and not any(sign in text for sign in (separator, '"', "\n", "\r")):
        return text
    return '"' + text.replace('"', '""') + '"'


def exact_text(value: Any) -> str:
    """Format a value without rounding, as a load reads it."""
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return repr(value) if isinstance(value, float) else format_value(value)


def format_value(value: Any) -> str:
    """Format a value for display: instants in ISO 8601 without trailing zeros, None as NULL."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ", timespec="microseconds" if value.microsecond % 1000 else "milliseconds")
        return text.removesuffix("+00:00").removesuffix(".000")
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
