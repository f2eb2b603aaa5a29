"""`headrace top`: a live view of jobs and snodes, from the catalog alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli.console import out
from headrace.cli.options import Home, open_connection

if TYPE_CHECKING:
    from headrace.model.snodes import Heartbeat
    from headrace.service.connection import Connection

RATE_WINDOW_MS: Final = 30_000
"""Rates are means over the samples of this time."""
MIN_NAME_WIDTH: Final = 20
MIB: Final = 1 << 20
STYLES: Final = {"RUNNING": "green", "STOPPED": "bold red", "PAUSED": "yellow"}
UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


@dataclass(frozen=True)
class JobLine:
    """A job as it is shown. Rates are in rows per second, None without samples."""

    kind: str
    name: str
    status: str
    lag_ms: int | None
    rows_in_s: float | None
    rows_out_s: float | None
    rows_out: int
    message: str


def top(
    interval: Annotated[float, typer.Option("--interval", "-n", min=0.2, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one look and end, as for scripts.")] = False,
    home: Home = None,
) -> None:
    """Show streams, continuous queries, pipes and snodes: states, lag, rates, CPU and memory. Ends with Ctrl-C."""
    with open_connection(home) as connection:
        if once or not out.is_terminal:
            out.print(draw(connection))
            return
        with Live(draw(connection), console=out, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                live.update(draw(connection), refresh=True)


def draw(connection: Connection) -> RenderableType:
    """Return one look."""
    catalog = connection.session.context.catalog
    now = catalog.now()
    lines = read_jobs(connection, now)
    return Group(summary(lines), job_table(lines), snode_table(catalog.snodes.all(), now))


def read_jobs(connection: Connection, now: int) -> list[JobLine]:
    """Return the jobs that the user may see: STOPPED ones first, then those that are furthest behind."""
    rates = connection.session.context.catalog.stream_metrics.rates(since=now - RATE_WINDOW_MS)
    table = connection.execute("SHOW JOBS").fetch_arrow_table()
    ids = {(record.definition.kind, str(record.definition)): record.definition.id for record in all_records(connection)}
    lines = []
    for row in table.to_pylist():
        name = f"{row['db_name']}.{row['job_name']}" if row["db_name"] else row["job_name"]
        own = rates.get(ids.get((row["kind"], name), ""), ())
        read, written = (mean([getattr(rate, field) for rate in own]) for field in ("rows_in", "rows_out"))
        message = (row["message"] or "").splitlines()
        lines.append(
            JobLine(row["kind"], name, row["status"], row["lag_ms"], read, written, row["rows_out"], message[0] if message else "")
        )
    return sorted(lines, key=lambda line: (line.status != "STOPPED", -(line.lag_ms or 0), line.name))


def all_records(connection: Connection) -> Sequence[Any]:
    return connection.session.context.catalog.jobs.all()


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def summary(lines: Sequence[JobLine]) -> Text:
    """Return the number of jobs in each state."""
    counts = {status: sum(line.status == status for line in lines) for status in dict.fromkeys(line.status for line in lines)}
    text = Text("jobs: ")
    for number, (status, count) in enumerate(sorted(counts.items())):
        text.append(f"{', ' if number else ''}{count} {status}", STYLES.get(status, ""))
    return text if counts else Text("no jobs")


def job_table(lines: Sequence[JobLine]) -> Table:
    """Return a table in which messages take what is left, so names are folded in a narrow terminal."""
    table = Table(box=None, header_style="bold", pad_edge=False, expand=True)
    table.add_column("JOB", overflow="fold", max_width=max(MIN_NAME_WIDTH, out.width // 4))
    for title in ("KIND", "STATE"):
        table.add_column(title, no_wrap=True)
    for title in ("LAG", "IN/S", "OUT/S", "ROWS OUT"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("MESSAGE", overflow="ellipsis", no_wrap=True, ratio=1)
    for line in lines:
        state = Text(line.status, STYLES.get(line.status, ""))
        numbers = (duration(line.lag_ms), amount(line.rows_in_s), amount(line.rows_out_s), amount(line.rows_out))
        table.add_row(line.name, line.kind, state, *numbers, Text(line.message))
    return table


def snode_table(beats: Sequence[Heartbeat], now: int) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("SNODE")
    for title in ("HEARTBEAT", "CORES", "MEMORY", "LAST POLL"):
        table.add_column(title, justify="right")
    for beat in sorted(beats, key=lambda beat: beat.snode):
        detail = beat.detail
        memory = f"{detail['memory_bytes'] / MIB:,.0f} MiB" if "memory_bytes" in detail else "-"
        cores = f"{detail['cores']:.2f}" if "cores" in detail else "-"
        poll = duration(detail.get("loop_age_ms"))
        table.add_row(beat.snode, f"{duration(max(0, now - beat.at))} ago", cores, memory, f"{poll} ago")
    return table


def duration(ms: int | None) -> str:
    """Return a duration in its largest unit with one digit after the point."""
    if ms is None:
        return "-"
    return next((f"{ms / size:.1f} {unit}" for size, unit in UNITS if ms >= size), f"{ms} ms")


def amount(value: float | None) -> str:
    """Return a number of rows."""
    return "-" if value is None else f"{value:,.0f}"
