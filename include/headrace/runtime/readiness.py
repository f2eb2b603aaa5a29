"""Whether the system does its work: its snodes live, and their streams are taken up. `headrace up` waits for it.

The catalog says what is so; Airflow says why an snode without a driver has none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from headrace.catalog import Catalog
from headrace.errors import OperationalError, TransientError
from headrace.model.jobs import DesiredState, JobRecord, JobState
from headrace.runtime.dag_ids import snode_dag_id
from headrace.runtime.supervision import Snapshot, driver_problem, snapshot, stale_after_ms

if TYPE_CHECKING:
    from headrace.settings import Settings

LOOK_S: Final = 0.5


class Steps(Protocol):
    """Shows what is waited for."""

    def step(self, text: str, done: int = 0, total: int = 0) -> None: ...


class Airflow(Protocol):
    """What `AirflowClient` tells of the DAG of an snode."""

    def dag(self, dag_id: str) -> dict[str, Any] | None: ...

    def runs(self, dag_id: str, limit: int) -> list[dict[str, Any]]: ...

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that keeps a stream from being computed. `passes`: waiting may help; `snode`: which one has no driver."""

    text: str
    passes: bool = True
    snode: str | None = None


def obstacles(state: Snapshot, settings: Settings) -> list[Obstacle]:
    """Everything that is in the way of the snodes and streams of a catalog; streams only where their snode lives."""
    found: list[Obstacle] = []
    for name in snode_names(state, settings):
        records = [record for record in state.jobs.values() if record.definition.snode == name]
        obstacle = _snode_obstacle(name, records, state, settings)
        found += [obstacle] if obstacle else _stream_obstacles(records)
    return found


def snode_names(state: Snapshot, settings: Settings) -> list[str]:
    """The snode of the settings, and those that streams belong to: Airflow keeps a driver of each alive."""
    return sorted({settings.snode, *(record.definition.snode for record in state.jobs.values())})


def _snode_obstacle(name: str, records: list[JobRecord], state: Snapshot, settings: Settings) -> Obstacle | None:
    lease, beat = state.leases.get(name), state.beats.get(name)
    problem = driver_problem(lease, beat, state.now, stale_after_ms(settings))
    if problem is None and (lease is None or beat is None or beat.epoch != lease.epoch):
        problem = "is starting"
    if problem is None and records and beat is not None and not beat.detail.get("streams"):
        problem = "has not read its streams yet"
    return None if problem is None else Obstacle(f"the driver of snode {name} {problem}", snode=name)


def _stream_obstacles(records: list[JobRecord]) -> Iterator[Obstacle]:
    for record in records:
        name = f"{record.definition.database}.{record.definition.name}"
        if record.desired is not DesiredState.RUNNING:
            continue
        if record.state is JobState.CREATED:
            yield Obstacle(f"stream {name} has not been taken up")
        elif record.state is JobState.STOPPED:
            passes = record.reason is not None and record.reason.transient
            yield Obstacle(f"stream {name} is STOPPED: {record.reason}", passes=passes)


def await_ready(settings: Settings, airflow: Airflow, console: Steps, wait_s: float) -> tuple[str, ...]:
    """Wait until nothing is in the way that waiting helps against; what is left then, a text for each obstacle."""
    deadline = time.monotonic() + wait_s
    while True:
        found = [_explained(obstacle, airflow) for obstacle in _read(settings)]
        passing = [obstacle for obstacle in found if obstacle.passes]
        lasting = tuple(obstacle.text for obstacle in found if not obstacle.passes)
        if not passing:
            return lasting
        if time.monotonic() > deadline:
            return (*(_late(obstacle, wait_s, settings) for obstacle in passing), *lasting)
        console.step(f"Waiting: {passing[0].text}" + (f", and {len(passing) - 1} more" if len(passing) > 1 else ""))
        time.sleep(LOOK_S)


def _read(settings: Settings) -> list[Obstacle]:
    try:
        with Catalog.open(settings.catalog) as catalog:
            return obstacles(snapshot(catalog, catalog.now(), settings.snode), settings)
    except TransientError as error:
        return [Obstacle(f"the catalog cannot be read: {error.message}")]


def _late(obstacle: Obstacle, wait_s: float, settings: Settings) -> str:
    text = f"after {wait_s:.0f} s {obstacle.text}"
    if obstacle.snode is None:
        return text
    return f"{text}; its logs are in {settings.home_path / 'logs' / 'airflow' / f'dag_id={snode_dag_id(obstacle.snode)}'}"


def _explained(obstacle: Obstacle, airflow: Airflow) -> Obstacle:
    """The obstacle with what Airflow says about it."""
    if obstacle.snode is None:
        return obstacle
    try:
        why, passes = _why(snode_dag_id(obstacle.snode), airflow)
    except OperationalError as error:
        why, passes = error.message, True
    return Obstacle(f"{obstacle.text}; {why}", passes, obstacle.snode)


def _why(dag_id: str, airflow: Airflow) -> tuple[str, bool]:
    """How far Airflow has come with a driver, and whether it goes on by itself."""
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
