"""What the command line shows: tables, errors, progress. Nothing below this layer prints."""

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
UNBOUNDED: Final = 1_000_000
STATE_STYLES: Final = {"RUNNING": "green", "FILLING": "cyan", "CREATED": "cyan", "PAUSED": "yellow", "STOPPED": "bold red"}


class Format(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"


class Tabular(Protocol):
    """Names and rows of a result."""

    @property
    def names(self) -> list[str]: ...

    def tuples(self) -> Iterator[tuple[Any, ...]]: ...


def show_error(error: Error) -> None:
    """An error as its code, message, place and hint."""
    text = Text.assemble(("error ", "bold red"), (f"[{error.code}] ", "red"), error.message)
    err.print(text, soft_wrap=True)
    for line in str(error).splitlines()[1:]:
        err.print(Text(line, "cyan" if line.startswith("hint:") else ""), soft_wrap=True)


def show_lines(lines: Iterable[str]) -> None:
    """Print lines as they are."""
    for line in lines:
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def show_rows(rows: Tabular, form: Format) -> None:
    """A result in the form asked for."""
    match form:
        case Format.TABLE:
            values = list(rows.tuples())
            shown = as_table(rows.names, values)
            out.print(shown if fits(shown, out) else as_records(rows.names, values))
        case Format.CSV:
            buffer = io.StringIO()
            writer = csv.writer(buffer, lineterminator="\n")
            writer.writerow(rows.names)
            writer.writerows([cell(value) if value is not None else "" for value in row] for row in rows.tuples())
            sys.stdout.write(buffer.getvalue())
        case Format.JSON:
            for row in rows.tuples():
                sys.stdout.write(json.dumps(dict(zip(rows.names, row, strict=True)), default=cell) + "\n")


def as_table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Rows as a table for the terminal; numbers to the right."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    for place, name in enumerate(names):
        numeric = any(isinstance(row[place], int | float) and not isinstance(row[place], bool) for row in rows)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value), STATE_STYLES.get(value, "") if isinstance(value, str) else "") for value in row))
    return table


def fits(table: Table, console: Console) -> bool:
    """Whether a table needs no word broken to be shown."""
    unbounded = console.options.update(max_width=UNBOUNDED)
    return Measurement.get(console, unbounded, table).minimum <= console.width


def as_records(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Rows with too many columns for the terminal: a line for each value, a blank line between rows."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for number, row in enumerate(rows):
        if number:
            table.add_row()
        for name, value in zip(names, row, strict=True):
            table.add_row(Text(name), Text(cell(value), STATE_STYLES.get(value, "") if isinstance(value, str) else ""))
    return table if rows else as_table(("no rows",), [])


def cell(value: Any) -> str:
    """A value as text: instants in ISO 8601 without needless zeros, NULL as such."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        shown = value.isoformat(sep=" ", timespec="microseconds" if value.microsecond % 1000 else "milliseconds")
        return shown.removesuffix("+00:00").removesuffix(".000")
    if isinstance(value, bytes):
        return "0x" + value.hex()
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Task:
    """One bar: call it with what is done and what there is in all."""

    def __init__(self, progress: Progress, description: str) -> None:
        self._progress = progress
        self._task = progress.add_task(description, total=None)

    def __call__(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=max(total, 1))


@contextmanager
def bar(description: str) -> Iterator[Task]:
    """A progress bar with percent, time taken and time left; a spinner until the total is known."""
    from rich import progress as shown

    columns = (
        shown.TextColumn("{task.description}"),
        shown.BarColumn(),
        shown.TaskProgressColumn(),
        shown.MofNCompleteColumn(),
        shown.TimeElapsedColumn(),
        shown.TimeRemainingColumn(),
    )
    with shown.Progress(*columns, console=err, transient=not err.is_terminal) as progress:
        yield Task(progress, description)
