"""Output of the command line: tables, errors and progress bars. Layers below do not print."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from headrace.errors import Error

if TYPE_CHECKING:
    from rich.progress import Progress

out: Final = Console(emoji=False)
err: Final = Console(stderr=True, emoji=False)
UNBOUNDED_WIDTH: Final = 1_000_000
STATE_STYLES: Final = {"RUNNING": "green", "FILLING": "cyan", "CREATED": "cyan", "PAUSED": "yellow", "STOPPED": "bold red"}


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


def show_error(error: Error) -> None:
    """Print an error: its code and message, its position in the statement, and its hint."""
    text = Text.assemble(("error ", "bold red"), (f"[{error.code}] ", "red"), error.message)
    err.print(text, soft_wrap=True)
    for line in str(error).splitlines()[1:]:
        err.print(Text(line, "cyan" if line.startswith("hint:") else ""), soft_wrap=True)


def show_lines(lines: Iterable[str]) -> None:
    """Print lines without markup, highlighting or wrapping."""
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def show_rows(rows: Tabular, output_format: Format) -> None:
    """Print a result as a table, as CSV or as one JSON object per line."""
    match output_format:
        case Format.TABLE:
            values = list(rows.tuples())
            table = build_table(rows.names, values)
            out.print(table if can_fit(table, out) else build_record_table(rows.names, values))
        case Format.CSV:
            buffer = io.StringIO()
            writer = csv.writer(buffer, lineterminator="\n")
            writer.writerow(rows.names)
            writer.writerows([format_value(value) if value is not None else "" for value in row] for row in rows.tuples())
            sys.stdout.write(buffer.getvalue())
        case Format.JSON:
            for row in rows.tuples():
                sys.stdout.write(json.dumps(dict(zip(rows.names, row, strict=True)), default=format_value) + "\n")


def build_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Build a table for the terminal, with numeric columns right-aligned."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    for index, name in enumerate(names):
        is_numeric = any(isinstance(row[index], int | float) and not isinstance(row[index], bool) for row in rows)
        table.add_column(Text(name), justify="right" if is_numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(format_value(value), STATE_STYLES.get(value, "") if isinstance(value, str) else "") for value in row))
    return table


def can_fit(table: Table, console: Console) -> bool:
    """Return True if the console is wide enough for the table without breaking words."""
    unbounded = console.options.update(max_width=UNBOUNDED_WIDTH)
    return Measurement.get(console, unbounded, table).minimum <= console.width


def build_record_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Build a table with one line per value and a blank line between rows, for rows wider than the terminal."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for number, row in enumerate(rows):
        if number:
            table.add_row()
        for name, value in zip(names, row, strict=True):
            table.add_row(Text(name), Text(format_value(value), STATE_STYLES.get(value, "") if isinstance(value, str) else ""))
    return table if rows else build_table(("no rows",), [])


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


class ProgressTask:
    """A task shown as a progress bar; call it with the number of items done and the total."""

    def __init__(self, progress: Progress, description: str) -> None:
        self._progress = progress
        self._task = progress.add_task(description, total=None)

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` items are done."""
        self._progress.update(self._task, completed=done, total=max(total, 1))


@contextmanager
def progress_bar(description: str) -> Iterator[ProgressTask]:
    """Show a progress bar with percentage, elapsed and remaining time; a spinner until there is a total."""
    from rich import progress as widgets

    columns = (
        widgets.TextColumn("{task.description}"),
        widgets.BarColumn(),
        widgets.TaskProgressColumn(),
        widgets.MofNCompleteColumn(),
        widgets.TimeElapsedColumn(),
        widgets.TimeRemainingColumn(),
    )
    with widgets.Progress(*columns, console=err, transient=not err.is_terminal) as progress:
        yield ProgressTask(progress, description)
