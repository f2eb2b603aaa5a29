"""Commit to one table as often as in a year, and print what grows. Fails if a cost does, or if results differ from their queries.

Streams, pipes and a continuous query read the table in an snode, delta-rs reads it in another process, and maintenance runs 365
times. Each measure is the median of a tenth of the commits; it is flat if the last tenth has at most 1.2 times the second.
"""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table

from tests.soak.__main__ import kept_on_failure
from tests.soak.year.measures import TENTHS, Trend
from tests.soak.year.run import YearReport, run_year

BARS = "▁▂▃▄▅▆▇█"


def main() -> None:
    """Run the campaign that the arguments describe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=200_000, help="number of commits (default: 200000, about an hour)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000, help="seed of the statements")
    arguments = parser.parse_args()
    console = Console(width=130 if not sys.stdout.isatty() else None)
    console.print(f"seed {arguments.seed}")
    with kept_on_failure() as folder:
        columns = ("commits", BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn(elapsed_when_finished=True))
        with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
            task = progress.add_task("commits", total=arguments.commits)
            report = run_year(folder, arguments.commits, arguments.seed, lambda number: progress.update(task, completed=number))
        print_report(console, report)
        if report.growing or not report.is_equal:
            sys.exit(1)


def print_report(console: Console, report: YearReport) -> None:
    """Print a line for each measure, with a picture of its tenths, and what else was seen."""
    table = Table(*("measure", "second tenth", "last tenth", "growth", "tenths", ""), box=None)
    for trend in report.trends:
        values = (f"{trend.tenths[1]:,.2f}", f"{trend.tenths[-1]:,.2f}", f"{trend.growth:.2f}")
        table.add_row(trend.measure, *values, picture(trend), "" if trend.is_flat else "GROWS")
    console.print(f"{report.commits:,} commits, {report.commits / report.seconds:.0f} a second, in {TENTHS} tenths")
    console.print(table)
    for trend in report.growing:
        console.print(f"{trend.measure}: {', '.join(f'{value:,.2f}' for value in trend.tenths)}")
    console.print(f"files: {report.megabytes_per_million_commits:,.0f} MB for a million commits")
    for name, count in report.done.items():
        console.print(f"{name}: {count}")
    for message, count in report.failures.most_common():
        console.print(f"failed {count} times: {message}", markup=False)
    for name, result in report.results.items():
        console.print(f"{name}: {result}", markup=False)


def picture(trend: Trend) -> str:
    """Return a bar for each tenth."""
    top = max(trend.tenths) or 1
    return "".join(BARS[min(int(value / top * len(BARS)), len(BARS) - 1)] for value in trend.tenths)


if __name__ == "__main__":
    main()
