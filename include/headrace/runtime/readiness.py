"""Readiness of the system: its snodes are alive, and their jobs are running. `headrace up` waits for it.

The catalog shows the state; Airflow shows why an snode has no driver.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.catalog import Catalog
from headrace.errors import OperationalError, TransientError
from headrace.jobs.registry import is_known, kind_of, kinds
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.runtime.dag_ids import snode_dag_id
from headrace.runtime.supervision import Snapshot, read_snapshot, stale_after_ms

if TYPE_CHECKING:
    from headrace.settings import Settings

POLL_PAUSE_S: Final = 0.5
DRIVER_ERROR: Final = " ERROR headrace: "
"""What precedes the error with which a driver ends, in its log."""


class Steps(Protocol):
    """Shows what is being waited for."""

    def step(self, text: str, done: int = 0, total: int = 0) -> None:
        """Show the present step; `done` of `total` parts, if there are parts."""


class Airflow(Protocol):
    """The part of `AirflowClient` that shows the state of an snode's DAG."""

    def dag(self, dag_id: str) -> dict[str, Any] | None:
        """Return Airflow's record of a DAG; None if there is none."""

    def runs(self, dag_id: str, limit: int) -> list[dict[str, Any]]:
        """Return the runs of a DAG, latest first."""

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Return the task instances of a run."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason why a job is not computed. One that `passes` may go away without a user.

    `snode` is the snode that has no driver, if that is the reason.
    """

    text: str
    passes: bool = True
    snode: str | None = None


def find_obstacles(state: Snapshot, settings: Settings) -> list[Obstacle]:
    """Return the obstacles of a catalog's snodes, and of the jobs whose snode is alive."""
    result: list[Obstacle] = []
    for name in snode_names(state, settings):
        records = [record for record in state.jobs.values() if record.definition.snode == name]
        obstacle = _snode_obstacle(name, records, state, settings)
        result += [obstacle] if obstacle else _job_obstacles(records)
    return result


def snode_names(state: Snapshot, settings: Settings) -> list[str]:
    """Return the snode of the settings, those that share jobs, and those of all jobs: Airflow keeps a driver of each alive."""
    return sorted({settings.snode, *state.members, *(record.definition.snode for record in state.jobs.values())})


def _snode_obstacle(name: str, records: list[JobRecord], state: Snapshot, settings: Settings) -> Obstacle | None:
    lease, beat = state.leases.get(name), state.beats.get(name)
    problem = state.driver_problem(name, stale_after_ms(settings))
    if problem is None and (lease is None or beat is None or beat.epoch != lease.epoch):
        problem = "is starting"
    if problem is None and records and beat is not None and not any(beat.detail.get(kind.key) for kind in kinds()):
        expected = {kind_of(record.definition).plural for record in records if is_known(record.definition.kind)}
        problem = f"has not read its {' and '.join(sorted(expected)) or 'jobs'} yet"
    return None if problem is None else Obstacle(f"the driver of snode {name} {problem}", snode=name)


def _job_obstacles(records: list[JobRecord]) -> Iterator[Obstacle]:
    for record in records:
        name = f"{record.definition.kind} {record.definition}"
        if record.desired is not DesiredState.RUNNING:
            continue
        if record.state is JobState.CREATED:
            yield Obstacle(f"{name} has not been taken up")
        elif record.state is JobState.STOPPED:
            passes = record.reason is not None and record.reason.transient
            yield Obstacle(f"{name} is STOPPED: {record.reason}", passes=passes)


def await_ready(settings: Settings, airflow: Airflow, console: Steps, wait_s: float) -> tuple[str, ...]:
    """Wait until no obstacle is left that may go away without a user; return the texts of those that remain."""
    deadline = time.monotonic() + wait_s
    while True:
        present = [_explain(obstacle, airflow, settings) for obstacle in _read(settings)]
        transient = [obstacle for obstacle in present if obstacle.passes]
        lasting = tuple(obstacle.text for obstacle in present if not obstacle.passes)
        if not transient:
            return lasting
        if time.monotonic() > deadline:
            return (*(_late(obstacle, wait_s, settings) for obstacle in transient), *lasting)
        console.step(f"Waiting: {transient[0].text}" + (f", and {len(transient) - 1} more" if len(transient) > 1 else ""))
        time.sleep(POLL_PAUSE_S)


def _read(settings: Settings) -> list[Obstacle]:
    try:
        with Catalog.open(settings.catalog) as catalog:
            return find_obstacles(read_snapshot(catalog, catalog.now(), *settings.own_snodes), settings)
    except TransientError as error:
        return [Obstacle(f"the catalog cannot be read: {error.message}")]


def _late(obstacle: Obstacle, wait_s: float, settings: Settings) -> str:
    text = f"after {wait_s:.0f} s {obstacle.text}"
    if obstacle.snode is None:
        return text
    return f"{text}; its logs are in {_log_folder(obstacle.snode, settings)}"


def _log_folder(snode: str, settings: Settings) -> Path:
    return settings.home_path / "logs" / "airflow" / f"dag_id={snode_dag_id(snode)}"


def _explain(obstacle: Obstacle, airflow: Airflow, settings: Settings) -> Obstacle:
    """Return the obstacle with the state of its DAG in Airflow, and why its driver failed if Airflow is about to try again."""
    if obstacle.snode is None:
        return obstacle
    try:
        explanation, passes = _dag_state(snode_dag_id(obstacle.snode), airflow)
    except OperationalError as error:
        explanation, passes = error.message, True
    cause = _failure(_log_folder(obstacle.snode, settings)) if "up_for_retry" in explanation else ""
    return Obstacle(f"{obstacle.text}; {explanation}{cause and f', since it failed: {cause}'}", passes, obstacle.snode)


def _failure(folder: Path) -> str:
    """Return why the latest driver failed by its log: its error, or else the last line before that of Airflow; empty if unknown."""
    log = max(folder.rglob("*.log"), key=lambda path: path.stat().st_mtime, default=None)
    if log is None:
        return ""
    with log.open(errors="replace") as file:
        return last_error(file)


def last_error(lines: Iterable[str]) -> str:
    """Return the error in the log of a driver's task, whose lines are JSON; empty if there is none."""
    error = previous = ""
    is_of_driver = False
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        event, level = (str(entry.get(key, "")).strip() for key in ("event", "level")) if isinstance(entry, dict) else ("", "")
        if DRIVER_ERROR in event:
            error, is_of_driver = event.partition(DRIVER_ERROR)[2], True
        elif level == "error" and not is_of_driver:
            error = error or previous or event
        previous = event or previous
    return error


def _dag_state(dag_id: str, airflow: Airflow) -> tuple[str, bool]:
    dag = airflow.dag(dag_id)
    if dag is None:
        return "Airflow has not read its DAG yet", True
    if dag.get("is_paused"):
        return f"its DAG {dag_id} is paused in Airflow: unpause it there", False
    runs = airflow.runs(dag_id, 1)
    if not runs:
        return "Airflow has not started its DAG yet", True
    tasks = [task for task in airflow.tasks(dag_id, runs[0]["dag_run_id"]) if task["task_id"] == "driver"]
    if not tasks or runs[0]["state"] in ("success", "failed"):
        return f"its run in Airflow is {runs[0]['state']}", True
    return f"its task in Airflow is {tasks[0]['state'] or 'not scheduled yet'}, try {tasks[0]['try_number']}", True
