"""The steps of the demonstration, in order."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import pandas as pd
import psutil
from rich.markup import escape

from headrace.cli.console import ProgressTask, out, progress_bar
from headrace.cli.demo.queries import QueryAct, remove_query
from headrace.cli.demo.readings import DemoSource, load_glucose, load_sea
from headrace.cli.demo.streams import STREAMS, DemoStream, compare_with_query
from headrace.cli.output import show_table
from headrace.errors import InternalError, OperationalError
from headrace.model.jobs import JobRecord, JobState
from headrace.model.loads import LoadRequest
from headrace.model.positions import is_behind
from headrace.runtime.airflow import AirflowClient
from headrace.service.connecting import connect
from headrace.service.connection import Connection
from headrace.streams.kind import STREAM
from headrace.streams.sources.source_tables import latest_offsets

CHART_HEIGHT: Final = 14
MAX_CHART_WIDTH: Final = 110
CONTROL: Final = re.compile(r"\x1b\[[0-9;]*m")
DATABASE: Final = "demo"
# Time limits of the steps, generous enough for a busy machine.
HISTORY_SECONDS: Final = 600
LIVE_SECONDS: Final = 240
RECOVERY_SECONDS: Final = 300
# Number of commits that the live readings are split into.
LIVE_COMMITS: Final = 12
# Days that the continuous query is backfilled over: all but the last, which the WINDOW_CLOSE stream has not closed.
QUERY_DAYS: Final = 2
# This module is imported when the demonstration starts.
STARTED_AT: Final = time.monotonic()


class Demonstration:
    """The demonstration, run against a running system; each step prints what it does and its result."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.session = connection.session
        self.catalog = connection.session.context.catalog
        self.sources = (load_glucose(), load_sea())

    def run(self) -> bool:
        """Run all steps; return True if every stream's table equals the batch query."""
        self.create_tables()
        self.load_history()
        self.create_streams()
        self.wait_for_history()
        self.write_live(first=0, last=LIVE_COMMITS - 2)
        equal = self.verify()
        self.kill_driver()
        self.write_live(first=LIVE_COMMITS - 2, last=LIVE_COMMITS)
        equal = self.verify() and equal
        self.draw_chart()
        return self.query_continuously() and equal

    def execute(self, statement: str, *, quiet: bool = False) -> None:
        """Print and execute a statement; `quiet` does not print it."""
        if not quiet:
            print_line(f"  [dim]sql>[/] {statement}")
        self.session.execute(statement)

    def create_tables(self) -> None:
        """Create the tables, removing what an earlier demonstration left."""
        print_heading("Create tables")
        for record in self.records():
            self.execute(f"DROP STREAM {DATABASE}.{record.definition.name}", quiet=True)
        self.execute(f"DROP DATABASE IF EXISTS {DATABASE}", quiet=True)
        with connect(settings=self.session.context.settings, dialect="iotdb") as connection:
            remove_query(connection)
        self.execute(f"CREATE DATABASE {DATABASE}")
        for source in self.sources:
            self.execute(source.create_statement)
            self.execute(f"CREATE TABLE demo.{source.subtable} USING demo.{source.table} TAGS ({source.tags})")

    def load_history(self) -> None:
        """Load all readings but those of the last days."""
        print_heading("Load past readings from CSV files")
        from headrace.service.topics.loads import plan_load

        folder = self.session.context.settings.home_path / "demo"
        for source in self.sources:
            path = source.write_history(folder)
            with progress_bar(f"  loading {path.name}") as progress:
                stages = plan_load(self.session, LoadRequest([path], f"demo.{source.subtable}"), progress)
                rows = self.session.run(stages).affected
            print_line(f"  {rows:,} readings in demo.{source.table}, up to {source.live_start:%Y-%m-%d}")

    def create_streams(self) -> None:
        print_heading("Create streams, one statement each")
        for stream in STREAMS:
            self.execute(stream.create_statement)

    def wait_for_history(self) -> None:
        """Wait until the history of each stream has been computed, by the snode or by tasks of Airflow."""
        print_heading("Compute the history: the snode itself, as these tables are small")
        with progress_bar("  computing history") as progress:
            self.wait_until(HISTORY_SECONDS, "the history is not complete", lambda: self.is_history_done(progress))
        counts = [(stream.name, len(self.target_rows(stream))) for stream in STREAMS]
        show_table(("stream", "windows from history"), counts)

    def is_history_done(self, progress: ProgressTask) -> bool:
        """Update the progress bar; return True once all streams are RUNNING.

        Raises:
            OperationalError: A stream was STOPPED for a reason that retries do not resolve.
        """
        records = self.records()
        summaries = [self.catalog.ledger.summary(record.definition.id, "history") for record in records]
        planned = [summary for summary in summaries if summary.chunks]
        waiting = len(records) - len(planned)
        progress(sum(summary.rows_planned_done for summary in planned), sum(summary.rows for summary in planned) + waiting)
        stopped = [record for record in records if record.state is JobState.STOPPED and record.reason is not None]
        for record in stopped:
            if record.reason is not None and not record.reason.transient:
                raise OperationalError(record.reason.message, hint=record.reason.hint)
        return all(record.state is JobState.RUNNING for record in records)

    def records(self) -> list[JobRecord]:
        """Return the catalog's records of the demonstration's streams."""
        return [record for record in self.catalog.jobs.all(kind=STREAM) if record.definition.database == DATABASE]

    def target_rows(self, stream: DemoStream) -> list[tuple[object, ...]]:
        """Read a stream's target table in time order, without Spark."""
        table = self.catalog.tables.get(DATABASE, stream.target)
        rows = self.session.context.tables.scan(table).sort_by(table.timestamp.name)
        return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    def write_live(self, *, first: int, last: int) -> None:
        """Insert the live readings' commits from `first` up to `last`, and print the windows that change."""
        print_heading("Insert the last days live")
        previous = {stream.name: set(self.target_rows(stream)) for stream in STREAMS}
        for number in range(first, last):
            start = time.monotonic()
            written = sum(self.insert_live(source, number) for source in self.sources)
            self.wait_until(LIVE_SECONDS, "the streams did not catch up", self.are_streams_caught_up)
            seconds = time.monotonic() - start
            print_line(f"  {written:4} rows written, processed {seconds * 1000:.0f} ms later:{self.describe_new_windows(previous)}")

    def describe_new_windows(self, previous: dict[str, set[tuple[object, ...]]]) -> str:
        """Return the number of new and changed windows per target, and update `previous` to the current rows."""
        text = ""
        for stream in STREAMS:
            current = set(self.target_rows(stream))
            text += f"  {stream.target} {len(current - previous[stream.name]):3}"
            previous[stream.name] = current
        return text

    def insert_live(self, source: DemoSource, number: int) -> int:
        rows = source.live.iloc[len(source.live) * number // LIVE_COMMITS : len(source.live) * (number + 1) // LIVE_COMMITS]
        if rows.empty:
            return 0
        values = " ".join(format_values(row) for row in rows.itertuples(index=False))
        self.execute(f"INSERT INTO demo.{source.subtable} VALUES {values}", quiet=True)
        return len(rows)

    def are_streams_caught_up(self) -> bool:
        for record in self.records():
            if is_behind(record.offsets or {}, latest_offsets(self.session.context, record.definition.sources)):
                return False
        return True

    def verify(self) -> bool:
        """Compare every stream's table with the batch query, and print the outcome."""
        print_heading("Compare each stream's table with the batch query")
        equal = True
        for stream in STREAMS:
            result = compare_with_query(self.session, stream)
            equal = equal and result.first_difference is None
            outcome = (
                "[green]equal[/]"
                if result.first_difference is None
                else f"[red]differs[/] (window, stream, query): {result.first_difference}"
            )
            print_line(f"  {stream.name}: {result.windows} windows, {outcome}")
        return equal

    def kill_driver(self) -> None:
        """Kill the driver; wait until its streams are reported STOPPED, and then for their recovery."""
        print_heading("Kill the driver (kill -9)")
        driver = self.find_driver()
        os.kill(driver.pid, signal.SIGKILL)
        print_line(f"  process {driver.pid} killed")
        self.wait_until(RECOVERY_SECONDS, "no stream was reported STOPPED", lambda: any(self.stop_reasons()))
        print_line(f"  [bold red]STOPPED[/] {escape(next(iter(self.stop_reasons()), ''))}")
        with progress_bar("  recovering") as progress:
            start = time.monotonic()
            self.wait_until(RECOVERY_SECONDS, "the streams did not recover", lambda: self.is_recovered(progress, start))
        print_line(f"  [green]RUNNING[/] again after {time.monotonic() - start:.0f} s")

    def find_driver(self) -> psutil.Process:
        lease = self.catalog.leases.get(self.session.context.settings.snode)
        if lease is None:
            raise OperationalError("no driver holds the snode's lease", hint="check `headrace status`")
        host, pid = lease.holder.split(":")[:2]
        if host != socket.gethostname():
            raise OperationalError(f"the driver runs on {host}, not on this machine", hint=f"run the demonstration on {host}")
        return psutil.Process(int(pid))

    def stop_reasons(self) -> Iterator[str]:
        return (f"[{record.reason.code}] {record.reason.message}" for record in self.records() if record.reason is not None)

    def is_recovered(self, progress: ProgressTask, start: float) -> bool:
        """Update the progress bar; return True once all streams are RUNNING again."""
        progress(int(time.monotonic() - start), RECOVERY_SECONDS)
        return all(record.state is JobState.RUNNING for record in self.records()) and not any(self.stop_reasons())

    def draw_chart(self) -> None:
        print_heading("Water temperature by day, from the stream's table")
        stream = next(stream for stream in STREAMS if stream.name == "sea_by_day")
        rows = self.target_rows(stream)
        times = [row[0] for row in rows if isinstance(row[0], datetime)]
        values = [float(str(row[1])) for row in rows]
        out.print(line_chart("°C, daily mean", times, values, width=out.width), highlight=False, markup=False)

    def query_continuously(self) -> bool:
        """Create a continuous query in the other dialect, have Airflow backfill it, and compare it with a stream."""
        print_heading("A continuous query over the same readings, in the IoTDB dialect: Airflow backfills two days")
        context = self.session.context
        client = AirflowClient.find(context.settings)
        if client is None:
            raise OperationalError("Airflow cannot be found", hint="check `headrace status`")
        first = self.sources[1].live_start.to_pydatetime()
        stream = next(stream for stream in STREAMS if stream.name == "sea_by_day")
        means = {row[0]: float(str(row[1])) for row in self.target_rows(stream) if isinstance(row[0], datetime)}
        expected = {day: mean for day, mean in means.items() if first <= day < first + timedelta(days=QUERY_DAYS)}
        with client, connect(settings=context.settings, dialect="iotdb") as connection:
            act = QueryAct(connection, client, self.wait_until)
            print_line(f"  [dim]sql>[/] {act.create()}")
            act.backfill(first, QUERY_DAYS)
            act.print_executions()
            equal = act.compare(expected)
        outcome = "[green]equal[/]" if equal else f"[red]differs[/] from {expected}"
        print_line(f"  means of {len(expected)} days, beside those of the stream sea_by_day: {outcome}")
        return equal

    def wait_until(self, seconds: float, failure: str, done: Callable[[], bool]) -> None:
        """Wait until `done` returns True; `OperationalError` with the message `failure` if it does not within `seconds`."""
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                states = ", ".join(f"{record.definition.name} {record.state}" for record in self.records())
                raise OperationalError(
                    f"{failure} after {seconds:.0f} s ({states})", hint="check `headrace status`, and the logs in the home"
                )
            time.sleep(0.1)


def print_line(text: str) -> None:
    """Print a line of markup without breaking it at the terminal's width."""
    out.print(text, highlight=False, soft_wrap=True)


def print_heading(text: str) -> None:
    """Print the heading of a step, with the seconds since the demonstration started."""
    print_line(f"\n[bold]{text}[/] [dim]({elapsed_seconds():.0f} s)[/]")


def elapsed_seconds() -> float:
    """Return the seconds since the demonstration started."""
    return time.monotonic() - STARTED_AT


def format_values(row: tuple[object, ...]) -> str:
    instant, *values = row
    if not isinstance(instant, pd.Timestamp):
        raise InternalError(f"{instant!r} is not a timestamp")
    texts = ["NULL" if pd.isna(value) else str(value) for value in values]  # type: ignore[call-overload]
    return f"({int(instant.timestamp() * 1000)}, {', '.join(texts)})"


def line_chart(title: str, times: Sequence[datetime], values: Sequence[float], *, width: int) -> str:
    """Return a chart of values over time, which ascends, as text without colors, at most `width` columns wide."""
    import plotext

    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(min(width, MAX_CHART_WIDTH), CHART_HEIGHT)
    plotext.date_form("Y-m-d")
    plotext.title(title)
    plotext.plot([time.strftime("%Y-%m-%d") for time in times], list(values), marker="braille")
    return CONTROL.sub("", str(plotext.build()))
