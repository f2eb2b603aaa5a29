"""`python -m benchmarks [names] [options]`: run benchmarks and print a table."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from benchmarks import report
from benchmarks.bench import Bench, Sizes
from benchmarks.cases import CASES, load_case
from benchmarks.results import Measurement
from headrace.runtime.garbage import collect_rarely

DEFAULT_HOME: Final = Path(tempfile.gettempdir()) / "headrace-benchmarks"
WIDTH: Final = 160
SIZES: Final = Sizes()
HELP: Final = "Benchmarks to run. Default: all.\n\n" + "\n\n".join(f"* {name}: {about}" for name, about in CASES.items())

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help=HELP, show_default=False)] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows of the table whose history is computed.")] = SIZES.rows,
    subtables: Annotated[int, typer.Option(min=1, help="Subtables of the tables.")] = SIZES.subtables,
    window_rows: Annotated[int, typer.Option(min=1, help="Rows that the batch queries read.")] = SIZES.window_rows,
    only: Annotated[str, typer.Option(help="Run only queries, windows and parts whose name contains this.")] = SIZES.only,
    commit_rows: Annotated[int, typer.Option(min=1, help="Rows of a large commit.")] = SIZES.commit_rows,
    commits: Annotated[int, typer.Option(min=1, help="Large commits that a stream takes one after the other.")] = SIZES.commits,
    load_rows: Annotated[int, typer.Option(min=1, help="Rows of the files to load.")] = SIZES.load_rows,
    batches: Annotated[int, typer.Option(min=1, help="Inserts per round of the latency benchmark.")] = SIZES.batches,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds after a first one, which is discarded.")] = SIZES.rounds,
    iotdb: Annotated[
        str, typer.Option(help="Host and port of an IoTDB server to compare with, and to which pipes send.")
    ] = SIZES.iotdb,
    iotdb_source: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Another IoTDB server, whose own pipe sends the same history.")
    ] = SIZES.iotdb_source,
    json: Annotated[Path | None, typer.Option(help="Also write all samples to this file.")] = None,
    home: Annotated[Path, typer.Option(help="Folder for data.")] = DEFAULT_HOME,
    keep: Annotated[bool, typer.Option(help="Keep the data for the next run.")] = False,
) -> None:
    """Measure Headrace against hand-written jobs."""
    unknown = [name for name in names or [] if name not in CASES]
    if unknown:
        raise typer.BadParameter(f"unknown benchmarks {', '.join(unknown)}; use {', '.join(CASES)}")
    sizes = Sizes(
        rows=rows,
        subtables=subtables,
        window_rows=window_rows,
        commit_rows=commit_rows,
        commits=commits,
        load_rows=load_rows,
        only=only,
        batches=batches,
        rounds=rounds,
        iotdb=iotdb,
        iotdb_source=iotdb_source,
    )
    console, machine = Console(), report.Machine.current()
    if not console.is_terminal:
        console.width = WIDTH
    progress = Console(stderr=True, style="dim", highlight=False)
    collect_rarely()  # as an snode does
    try:
        lines = measure(
            Bench(home.resolve(), sizes, lambda text: progress.print(text, markup=False)), names or list(CASES), progress
        )
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)
    report.print_report(lines, machine, console)
    if json is not None:
        report.save_report(lines, machine, json)


def measure(bench: Bench, names: list[str], progress: Console) -> list[Measurement]:
    """Run the benchmarks and return their measurements."""
    lines: list[Measurement] = []
    try:
        for name in names:
            progress.rule(name)
            lines += load_case(name)(bench)
    finally:
        bench.close()
    return lines


app()
