"""The acts of the demonstration, in order."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

import pandas as pd
import psutil
from rich.markup import escape

from headrace.cli.console import Task, as_table, bar, out
from headrace.cli.demo.chart import line_chart
from headrace.cli.demo.readings import Source, glucose, sea
from headrace.cli.demo.streams import STREAMS, DemoStream, compare
from headrace.errors import InternalError, OperationalError
from headrace.model.jobs import JobRecord, JobState
from headrace.service.connection import Connection

DATABASE: Final = "demo"
# How long each act may take, also on a machine that has other work.
HISTORY_SECONDS: Final = 600
LIVE_SECONDS: Final = 240
RECOVERY_SECONDS: Final = 300
# The live days arrive in so many writes.
LIVE_WRITES: Final = 12
# This is imported as the demonstration begins.
BEGAN: Final = time.monotonic()


class Story:
    """Runs against a system that is up; every act says what it does and shows what came of it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.session = connection.session
        self.catalog = connection.session.context.catalog
        self.sources = (glucose(), sea())

    def tell(self) -> bool:
        """All acts; whether every stream's table was equal to the batch query."""
        self.make_tables()
        self.load_past()
        self.create_streams()
        self.await_history()
        self.write_live(first=0, last=LIVE_WRITES - 2)
        equal = self.verify()
        self.kill_driver()
        self.write_live(first=LIVE_WRITES - 2, last=LIVE_WRITES)
        equal = self.verify() and equal
        self.draw()
        return equal

    def run(self, statement: str, *, quiet: bool = False) -> None:
        """Execute a statement, and show it."""
        if not quiet:
            say(f"  [dim]sql>[/] {statement}")
        self.session.execute(statement)

    def make_tables(self) -> None:
        heading("Tables")
        for record in self.records():
            self.run(f"DROP STREAM {DATABASE}.{record.definition.name}", quiet=True)
        self.run(f"DROP DATABASE IF EXISTS {DATABASE}", quiet=True)
        self.run(f"CREATE DATABASE {DATABASE}")
        for source in self.sources:
            self.run(source.create)
            self.run(f"CREATE TABLE demo.{source.subtable} USING demo.{source.table} TAGS ({source.tags})")

    def load_past(self) -> None:
        heading("Readings of the past, from CSV files")
        folder = self.session.context.settings.home_path / "demo"
        for source in self.sources:
            path = source.write_past(folder)
            with bar(f"  loading {path.name}") as progress:
                rows = self.session.load([path], f"demo.{source.subtable}", progress=progress)
            say(f"  {rows:,} readings in demo.{source.table}, up to {source.split:%Y-%m-%d}")

    def create_streams(self) -> None:
        heading("Streams: one statement each")
        for stream in STREAMS:
            self.run(stream.create)

    def await_history(self) -> None:
        """Airflow submits a Spark job for each chunk of each stream's history."""
        heading("History: Airflow runs a Spark job for each chunk")
        with bar("  filling history") as progress:
            self.wait(HISTORY_SECONDS, "the history is not filled", lambda: self.history_done(progress))
        counts = [(stream.name, len(self.rows(stream))) for stream in STREAMS]
        out.print(as_table(("stream", "windows from history"), counts))

    def history_done(self, progress: Task) -> bool:
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
        return [record for record in self.catalog.jobs.all() if record.definition.database == DATABASE]

    def rows(self, stream: DemoStream) -> list[tuple[object, ...]]:
        """The target's rows, without Spark."""
        context = self.session.context
        table, database = self.catalog.tables.get(DATABASE, stream.target), self.catalog.databases.get(DATABASE)
        found = context.tables.scan(table, database).sort_by(table.timestamp.name)
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def write_live(self, *, first: int, last: int) -> None:
        """The last days as INSERTs, and the windows that arrive."""
        heading("The last days, written live")
        known = {stream.name: set(self.rows(stream)) for stream in STREAMS}
        for place in range(first, last):
            began = time.monotonic()
            written = sum(self.insert(source, place) for source in self.sources)
            self.wait(LIVE_SECONDS, "the streams did not follow", self.caught_up)
            took = time.monotonic() - began
            say(f"  {written:4} rows written, handled {took * 1000:.0f} ms later:{self.arrived(known)}")

    def arrived(self, known: dict[str, set[tuple[object, ...]]]) -> str:
        """New and changed windows since the last look, in words."""
        words = ""
        for stream in STREAMS:
            now = set(self.rows(stream))
            words += f"  {stream.target} {len(now - known[stream.name]):3}"
            known[stream.name] = now
        return words

    def insert(self, source: Source, place: int) -> int:
        rows = source.live.iloc[len(source.live) * place // LIVE_WRITES : len(source.live) * (place + 1) // LIVE_WRITES]
        if rows.empty:
            return 0
        values = " ".join(value_list(row) for row in rows.itertuples(index=False))
        self.run(f"INSERT INTO demo.{source.subtable} VALUES {values}", quiet=True)
        return len(rows)

    def caught_up(self) -> bool:
        """Whether every stream has handled the newest version of its source."""
        for record in self.records():
            source = self.catalog.tables.get(record.definition.source.database, record.definition.source.name)
            if (record.source_version or 0) < self.session.context.tables.version(source):
                return False
        return True

    def verify(self) -> bool:
        heading("Each stream's table against the batch query")
        equal = True
        for stream in STREAMS:
            result = compare(self.session, stream)
            equal = equal and result.different is None
            said = "[green]equal[/]" if result.different is None else f"[red]differs[/] (window, stream, query): {result.different}"
            say(f"  {stream.name}: {result.windows} windows, {said}")
        return equal

    def kill_driver(self) -> None:
        heading("Killing the driver (kill -9)")
        driver = self.driver()
        os.kill(driver.pid, signal.SIGKILL)
        say(f"  process {driver.pid} killed")
        self.wait(RECOVERY_SECONDS, "nobody noticed", lambda: any(self.reasons()))
        say(f"  [bold red]STOPPED[/] {escape(next(iter(self.reasons()), ''))}")
        with bar("  recovering") as progress:
            began = time.monotonic()
            self.wait(RECOVERY_SECONDS, "the streams did not come back", lambda: self.recovered(progress, began))
        say(f"  [green]RUNNING[/] again after {time.monotonic() - began:.0f} s")

    def driver(self) -> psutil.Process:
        """The snode's process: the lease names its host and process id."""
        lease = self.catalog.leases.get(self.session.context.settings.snode)
        if lease is None:
            raise OperationalError("no driver holds the snode's lease", hint="see `headrace status`")
        host, pid = lease.holder.split(":")[:2]
        if host != socket.gethostname():
            raise OperationalError(f"the driver runs on {host}", hint="the demonstration kills one on this machine only")
        return psutil.Process(int(pid))

    def reasons(self) -> Iterator[str]:
        return (f"[{record.reason.code}] {record.reason.message}" for record in self.records() if record.reason is not None)

    def recovered(self, progress: Task, began: float) -> bool:
        progress(int(time.monotonic() - began), RECOVERY_SECONDS)
        return all(record.state is JobState.RUNNING for record in self.records()) and not any(self.reasons())

    def draw(self) -> None:
        """Daily means of the sea's temperature, as the stream keeps them."""
        heading("What the stream keeps: the sea's temperature by day")
        stream = next(stream for stream in STREAMS if stream.name == "sea_by_day")
        rows = self.rows(stream)
        times = [row[0] for row in rows if isinstance(row[0], datetime)]
        values = [float(str(row[1])) for row in rows]
        out.print(line_chart("°C, daily mean", times, values, width=out.width), highlight=False, markup=False)

    def wait(self, seconds: float, failure: str, done: Callable[[], bool]) -> None:
        """Until `done`; after so many seconds an error that says where to look."""
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                states = ", ".join(f"{record.definition.name} {record.state}" for record in self.records())
                raise OperationalError(
                    f"{failure} after {seconds:.0f} s ({states})", hint="see `headrace status`, and the logs in the home"
                )
            time.sleep(0.1)


def say(text: str) -> None:
    """A line of markup, whole where the terminal is narrow."""
    out.print(text, highlight=False, soft_wrap=True)


def heading(text: str) -> None:
    """A line that begins a part, with the seconds since the demonstration began: where its time goes."""
    say(f"\n[bold]{text}[/] [dim]({elapsed():.0f} s)[/]")


def elapsed() -> float:
    """Seconds since the demonstration began."""
    return time.monotonic() - BEGAN


def value_list(row: tuple[object, ...]) -> str:
    """One row of readings as INSERT wants it."""
    instant, *values = row
    if not isinstance(instant, pd.Timestamp):
        raise InternalError(f"{instant!r} is no timestamp")
    texts = ["NULL" if pd.isna(value) else str(value) for value in values]  # type: ignore[call-overload]
    return f"({int(instant.timestamp() * 1000)}, {', '.join(texts)})"
