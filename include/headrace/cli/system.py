"""`headrace up`, `down` and `status`: the embedded system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.console import err, out
from headrace.cli.options import Home
from headrace.cli.output import show_table
from headrace.model.continuous_queries import ExecutionState
from headrace.model.execution_history import NO_HISTORY, ExecutionHistory
from headrace.model.jobs import JobRecord

if TYPE_CHECKING:
    from rich.status import Status

    from headrace.runtime.activity import ReportedActivity
    from headrace.runtime.embedded_airflow import Component, SystemStatus
    from headrace.runtime.supervision import Snapshot
    from headrace.settings import Settings

JOB_COLUMNS: Final = ("name", "kind", "state", "lag", "rows in", "rows out", "why")


def up(
    home: Home = None,
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Port of Airflow's UI. Default: the setting.")
    ] = None,
) -> None:
    """Start Airflow, which starts the snodes and supervises streams and continuous queries, and wait until they are ready.

    Has no effect on components that run. Exits with code 1 if a snode, stream or continuous query is not ready, and prints why.
    """
    from headrace.runtime.embedded_airflow import start
    from headrace.settings import load

    settings = load(home=home, airflow_port=port)
    with show_progress() as console:
        started = start(settings, console)
    duration = "" if started.already else f" ({started.seconds:.0f} s)"
    out.print(f"Airflow is {'already up' if started.already else 'up'}: {started.url}{duration}", highlight=False)
    if started.first:
        out.print(f"  login {started.user}, password {started.password}", highlight=False)
        out.print(f"  (kept in {settings.home_path / 'airflow' / 'passwords.json'})", style="dim", highlight=False)
    print_first_password(settings)
    for obstacle in started.obstacles:
        err.print(f"Not ready: {obstacle}", style="red", markup=False, highlight=False, soft_wrap=True)
    if started.obstacles:
        raise typer.Exit(1)


def print_first_password(settings: Settings) -> None:
    """Give the administrator a password where clients need one, and show it this once."""
    from headrace.catalog import Catalog
    from headrace.model.access import ADMINISTRATOR
    from headrace.runtime.passwords import set_first_password

    if not settings.doors and settings.auth != "required":
        return
    with Catalog.open(settings.catalog) as catalog:
        password = set_first_password(catalog)
    if password is not None:
        out.print(f"  user {ADMINISTRATOR} of Headrace, password {password}", highlight=False)
        out.print(f"  (not kept; `headrace user password {ADMINISTRATOR}` makes another one)", style="dim", highlight=False)


def down(home: Home = None) -> None:
    """Stop everything that `up` started, including all child processes. Has no effect if nothing runs."""
    from headrace.runtime.embedded_airflow import stop
    from headrace.settings import load

    with show_progress() as console:
        stopped = stop(load(home=home), console)
    if not stopped.ended:
        out.print("Nothing was running")
        return
    forced = f", {stopped.killed} of them by force" if stopped.killed else ""
    out.print(f"Stopped {stopped.ended} processes{forced}", highlight=False)


def status(home: Home = None) -> None:
    """Show Airflow's components, snodes, streams and continuous queries. Exits with code 1 if any of them is not ready."""
    from headrace.runtime import embedded_airflow, supervision
    from headrace.runtime.activity import read_present
    from headrace.runtime.context import open_context
    from headrace.runtime.readiness import find_obstacles
    from headrace.settings import load

    settings = load(home=home)
    is_well = show_external(settings) if settings.airflow_url else show_components(embedded_airflow.status(settings))
    context = open_context(settings)
    with context.catalog as catalog:
        state = read_present(context, settings.snode)
        histories = catalog.executions.histories()
    remaining = find_obstacles(state, settings)
    for line in describe_live_snodes(state, settings, without_driver={obstacle.snode for obstacle in remaining}):
        out.print(line, style="green", markup=False, highlight=False)
    if state.jobs:
        show_table(JOB_COLUMNS, describe_jobs(state, histories, supervision.stale_after_ms(settings)))
    for obstacle in remaining:
        out.print(f"Not ready: {obstacle.text}", style="red", markup=False, highlight=False, soft_wrap=True)
    if remaining or not is_well:
        raise typer.Exit(1)


def show_components(airflow: SystemStatus) -> bool:
    """Show the Airflow of the home, and return whether it is healthy."""
    out.print(f"Airflow: {airflow.url}" if airflow.url else "Airflow is not running: start it with `headrace up`", highlight=False)
    if airflow.running:
        show_table(("component", "process", "state", "log"), describe_components(airflow.components))
    return airflow.healthy


def show_external(settings: Settings) -> bool:
    """Show the Airflow of the settings, and return whether it is healthy and set up."""
    from headrace.cli.doctor_airflow import check_airflow, check_components, check_setup
    from headrace.errors import Error

    try:
        out.print(f"Airflow: {check_airflow(settings)}; {check_components(settings)}", highlight=False, soft_wrap=True)
        check_setup(settings)
    except Error as error:
        err.print(f"Not ready: {error.message} ({error.hint})", style="red", markup=False, highlight=False, soft_wrap=True)
        return False
    return True


class Spinner:
    """Progress of `up` and `down`: one line that is updated on a terminal, a line per step elsewhere."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._last_line = ""

    def step(self, text: str, done: int = 0, total: int = 0) -> None:
        """Show the current step, with `done` of `total` items if there is a total; print each line only once."""
        line = f"{text} ({done} of {total})" if total else text
        if line == self._last_line:
            return
        self._last_line = line
        if err.is_terminal:
            self._status.update(line)
        else:
            err.print(line, style="dim", highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a remark that stays visible."""
        err.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def show_progress() -> Iterator[Spinner]:
    with err.status("") as status:
        yield Spinner(status)


def describe_components(components: tuple[Component, ...]) -> list[tuple[str, str, str, str]]:
    return [
        (
            component.name,
            str(component.pid or "–"),
            "healthy" if component.healthy else "not healthy" if component.pid else "ended",
            component.log,
        )
        for component in components
    ]


def describe_live_snodes(state: Snapshot, settings: Settings, without_driver: set[str | None]) -> list[str]:
    """Return a line for each snode whose driver is alive: its process and its lease's epoch."""
    from headrace.runtime.readiness import snode_names

    leases = [state.leases[name] for name in snode_names(state, settings) if name not in without_driver]
    return [f"Snode {lease.snode}: alive, process {lease.holder}, epoch {lease.epoch}" for lease in leases]


def describe_jobs(state: Snapshot, histories: Mapping[str, ExecutionHistory], stale_ms: int) -> list[tuple[str, ...]]:
    """Return the row of each stream and continuous query, sorted by name; heartbeats are ignored from an age of `stale_ms` on."""
    from headrace.runtime.activity import NO_ACTIVITY, reported_activity

    reported = reported_activity(state, stale_ms)
    rows = []
    for record in sorted(state.jobs.values(), key=lambda job: str(job.definition)):
        job_id = record.definition.id
        activity, history = reported.get(job_id, NO_ACTIVITY), histories.get(job_id, NO_HISTORY)
        rows.append(describe_job(record, activity, history, state.now))
    return rows


def describe_job(record: JobRecord, activity: ReportedActivity, history: ExecutionHistory, now: int) -> tuple[str, ...]:
    """Return the cells of a job: name, kind, state, lag, rows in and out, and why it is stopped, slow or behind."""
    from headrace.jobs.registry import is_known, kind_of
    from headrace.runtime.activity import current_lag_ms

    definition, counters = record.definition, record.progress.counters
    lag = current_lag_ms(record, activity, history, now)
    problem = record.reason or activity.slow_batch or quarantine_text(counters.rows_quarantined) or failure_text(history)
    return (
        str(definition),
        definition.kind,
        record.state.value,
        "–" if lag is None else f"{lag} ms",
        f"{counters.rows_in:,}" if is_known(definition.kind) and kind_of(definition).counts_rows_in else "–",
        f"{counters.rows_out:,}",
        str(problem),
    )


def quarantine_text(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'} in quarantine: see SHOW QUARANTINE" if rows else ""


def failure_text(history: ExecutionHistory) -> str:
    """Return why the latest execution of a continuous query has failed, or an empty string."""
    last = history.last
    if last is None or last.state is not ExecutionState.FAILED:
        return ""
    return f"attempt {last.attempt} failed: {last.message}"
