"""`headrace up`, `down` and `status`: the embedded system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from headrace.cli.console import STATE_STYLES, err, out
from headrace.cli.options import Home, example

if TYPE_CHECKING:
    from rich.status import Status

    from headrace.runtime.supervision import Snapshot
    from headrace.runtime.system import Component
    from headrace.settings import Settings


def register(app: typer.Typer) -> None:
    """Adds the commands to an application."""
    app.command(epilog=example("headrace up --port 8081"))(up)
    app.command(epilog=example("headrace down"))(down)
    app.command(epilog=example("headrace status"))(status)


def up(
    home: Home = None,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Port of Airflow's UI; else the setting.")] = None,
) -> None:
    """Start Airflow, which starts the snode and supervises the streams, and wait until they are at work.

    Harmless when it is up already. Exit code 1 when a snode or a stream is not ready: what is in the way is said.
    """
    from headrace.runtime.system import start

    settings = settings_of(home, port)
    with waiting() as console:
        started = start(settings, console)
    told = f"Airflow is up already: {started.url}" if started.already else f"Airflow is up: {started.url} ({started.seconds:.0f} s)"
    out.print(told, highlight=False)
    if started.first:
        out.print(f"  login {started.user}, password {started.password}", highlight=False)
        out.print(f"  (kept in {settings.home_path / 'airflow' / 'passwords.json'})", style="dim", highlight=False)
    for obstacle in started.obstacles:
        err.print(f"Not ready: {obstacle}", style="red", markup=False, highlight=False, soft_wrap=True)
    if started.obstacles:
        raise typer.Exit(1)


def down(home: Home = None) -> None:
    """Stop everything that `up` has started, with every process below it. Harmless when nothing runs."""
    from headrace.runtime.system import stop

    with waiting() as console:
        stopped = stop(settings_of(home), console)
    if not stopped.ended:
        out.print("Nothing was running")
        return
    forced = f", {stopped.killed} of them by force" if stopped.killed else ""
    out.print(f"Stopped {stopped.ended} processes{forced}", highlight=False)


def status(home: Home = None) -> None:
    """Show Airflow's components, the snodes, and the streams. Exit code 1 when something is in the way of their work."""
    from headrace.catalog import Catalog
    from headrace.runtime import supervision, system
    from headrace.runtime.readiness import obstacles

    settings = settings_of(home)
    found = system.status(settings)
    with Catalog.open(settings.catalog) as catalog:
        state = supervision.snapshot(catalog, catalog.now(), settings.snode)
    out.print(f"Airflow: {found.url}" if found.url else "Airflow is not running: start it with `headrace up`", highlight=False)
    if found.running:
        out.print(components_table(found.components))
    left = obstacles(state, settings)
    for line in snode_lines(state, settings, without_driver={obstacle.snode for obstacle in left}):
        out.print(line, style="green", markup=False, highlight=False)
    if state.jobs:
        out.print(streams_table(state, supervision.stale_after_ms(settings)))
    for obstacle in left:
        out.print(f"Not ready: {obstacle.text}", style="red", markup=False, highlight=False, soft_wrap=True)
    if left or not found.healthy:
        raise typer.Exit(1)


def settings_of(home: Path | None, port: int | None = None) -> Settings:
    """The settings, with what the command line says of them."""
    from headrace.settings import load

    given = {"home": home, "airflow_port": port}
    return load(**{name: value for name, value in given.items() if value is not None})


class Spinner:
    """Shows what is waited for: a line that changes on a terminal, a line for each step elsewhere."""

    def __init__(self, shown: Status) -> None:
        self._shown = shown
        self._last = ""

    def step(self, text: str, done: int = 0, total: int = 0) -> None:
        line = f"{text} ({done} of {total})" if total else text
        if line == self._last:
            return
        self._last = line
        if err.is_terminal:
            self._shown.update(line)
        else:
            err.print(line, style="dim", highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        err.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def waiting() -> Iterator[Spinner]:
    """A console for what takes long."""
    with err.status("") as shown:
        yield Spinner(shown)


def components_table(components: tuple[Component, ...]) -> Table:
    table = Table("component", "process", "state", "log", header_style="bold", box=None, pad_edge=False)
    for component in components:
        state = "healthy" if component.healthy else "not healthy" if component.pid else "ended"
        style = "green" if component.healthy else "bold red"
        table.add_row(component.name, str(component.pid or "–"), Text(state, style), Text(component.log, overflow="fold"))
    return table


def snode_lines(state: Snapshot, settings: Settings, without_driver: set[str | None]) -> list[str]:
    """A line for each snode whose driver lives."""
    from headrace.runtime.readiness import snode_names

    leases = [state.leases[name] for name in snode_names(state, settings) if name not in without_driver]
    return [f"Snode {lease.snode}: alive, process {lease.holder}, epoch {lease.epoch}" for lease in leases]


def streams_table(state: Snapshot, stale_ms: int) -> Table:
    from headrace.runtime.activity import NO_ACTIVITY, lag_ms, reported_activity

    reported = reported_activity(state, stale_ms)
    table = Table("stream", "state", "lag", "rows in", "rows out", "why", header_style="bold", box=None, pad_edge=False)
    for record in sorted(state.jobs.values(), key=lambda each: (each.definition.database, each.definition.name)):
        activity, counters = reported.get(record.definition.id, NO_ACTIVITY), record.progress.counters
        lag = lag_ms(record, activity, state.now)
        table.add_row(
            f"{record.definition.database}.{record.definition.name}",
            Text(record.state.value, STATE_STYLES.get(record.state.value, "")),
            "–" if lag is None else f"{lag} ms",
            f"{counters.rows_in:,}",
            f"{counters.rows_out:,}",
            Text(str(record.reason or activity.slow_batch or ""), overflow="fold"),
        )
    return table
