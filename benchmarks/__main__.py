"""`python -m benchmarks [names] [options]`: measure and print a table."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from benchmarks import report
from benchmarks.bench import Bench, Sizes
from benchmarks.cases import CASES, case
from benchmarks.results import Line

DEFAULT_HOME: Final = Path(tempfile.gettempdir()) / "headrace-benchmarks"
WIDTH: Final = 160
SIZES: Final = Sizes()
HELP: Final = "Which to measure, all where none is named:\n\n" + "\n\n".join(f"* {name}: {about}" for name, about in CASES.items())

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help=HELP, show_default=False)] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows of the table whose history is filled.")] = SIZES.rows,
    subtables: Annotated[int, typer.Option(min=1, help="Its subtables.")] = SIZES.subtables,
    window_rows: Annotated[int, typer.Option(min=1, help="Rows that the batch queries read.")] = SIZES.window_rows,
    only: Annotated[str, typer.Option(help="Batch queries whose name contains this.")] = SIZES.only,
    batches: Annotated[int, typer.Option(min=1, help="Inserts a round of the latency measurements.")] = SIZES.batches,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds after the first, which is dropped.")] = SIZES.rounds,
    json: Annotated[Path | None, typer.Option(help="Write all samples to this file as well.")] = None,
    home: Annotated[Path, typer.Option(help="Folder for data.")] = DEFAULT_HOME,
    keep: Annotated[bool, typer.Option(help="Leave the data for the next run.")] = False,
) -> None:
    """Measure Headrace side by side with hand-written jobs."""
    wrong = [name for name in names or [] if name not in CASES]
    if wrong:
        raise typer.BadParameter(f"{', '.join(wrong)}: not one of {', '.join(CASES)}")
    sizes = Sizes(rows=rows, subtables=subtables, window_rows=window_rows, only=only, batches=batches, rounds=rounds)
    console, machine = Console(), report.Machine.here()
    if not console.is_terminal:
        console.width = WIDTH
    progress = Console(stderr=True, style="dim", highlight=False)
    try:
        lines = measure(
            Bench(home.resolve(), sizes, lambda text: progress.print(text, markup=False)), names or list(CASES), progress
        )
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)
    report.show(lines, machine, console)
    if json is not None:
        report.save(lines, machine, json)


def measure(bench: Bench, names: list[str], progress: Console) -> list[Line]:
    """All lines of all cases."""
    lines: list[Line] = []
    try:
        for name in names:
            progress.rule(name)
            lines += case(name)(bench)
    finally:
        bench.close()
    return lines


app()
