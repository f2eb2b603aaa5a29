"""A real system for tests, started in a temporary home and stopped afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import psutil

from headrace.catalog import Catalog
from headrace.model.clock import SystemClock
from headrace.model.jobs import JobRecord, JobState
from headrace.runtime import embedded_airflow
from headrace.runtime.airflow import PATIENT_TIMEOUT, AirflowClient
from headrace.runtime.dag_ids import snode_dag_id
from headrace.runtime.processes import find_free_port, find_marked, is_driver
from headrace.runtime.readiness import find_obstacles
from headrace.runtime.supervision import read_snapshot
from headrace.service.connecting import connect
from headrace.service.connection import Connection
from headrace.settings import Settings, load
from headrace.streams.kind import STREAM
from tests.airflow.stream_dags import stream_dag_id
from tests.support.waiting import wait_until

T = TypeVar("T")

SETTLED_MS = 5_000
PAUSE_S = 0.4
"""Between two looks at the system. Most of them are requests that cost Airflow's API server tens of milliseconds each."""


@dataclass
class RunningSystem:
    """A running Airflow with an snode, and access to both."""

    settings: Settings
    started: embedded_airflow.Started
    client: AirflowClient
    catalog: Catalog
    connection: Connection

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement).fetchall()

    def stream(self, name: str, database: str = "power") -> JobRecord:
        return self.catalog.jobs.get(database, name, STREAM)

    def await_state(self, name: str, state: JobState, database: str = "power") -> JobRecord:
        """Wait until a stream is in a state, and return its record."""
        return self.until(lambda: (record := self.stream(name, database)).state is state and record, f"{name} to be {state}")

    def tasks(self, name: str, database: str = "power") -> dict[str, list[dict[str, Any]]]:
        """Return the task instances of the stream's scheduled runs, by task."""
        dag_id = stream_dag_id(database, name)
        instances: dict[str, list[dict[str, Any]]] = {}
        for run in self.client.runs(dag_id):
            if run["run_type"] == "scheduled":
                for task in self.client.tasks(dag_id, run["dag_run_id"]):
                    instances.setdefault(task["task_id"], []).append(task)
        return instances

    def trigger(self, dag_id: str, form: Mapping[str, Any]) -> str:
        """Trigger a run with the values of the DAG's form; return its run id."""
        body = {"logical_date": None, "conf": dict(form)}
        return str(self.client._call("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def log_text(self, dag_id: str, run_id: str, task_id: str, try_number: int) -> str:
        """Return the log of a try of a task as text, with its errors."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        entries = self.client._get(path, {"full_content": True})["content"]
        return "\n".join(_line(entry) for entry in entries)

    def task_is(self, name: str, task_id: str, state: str) -> bool:
        """Return True if the stream's scheduled run has the task in a state."""
        return any(task["state"] == state for task in self.tasks(name).get(task_id, ()))

    def driver(self) -> psutil.Process:
        """Wait for the Python process of the snode's driver, and return it."""

        def find() -> psutil.Process | None:
            drivers = [process for process in find_marked(self.settings.home_path) if is_driver(process)]
            return next((process for process in drivers if "--snode" in process.cmdline()), None)

        return self.until(find, "the snode's driver to start")

    def epoch(self) -> int:
        """Return the epoch of the current lease, or 0 if there is none."""
        lease = self.catalog.leases.get(self.settings.snode)
        return lease.epoch if lease else 0

    def is_ready(self) -> bool:
        """Return True if the snode is alive and runs its streams."""
        return not find_obstacles(read_snapshot(self.catalog, SystemClock().now(), self.settings.snode), self.settings)

    def supervised_driver(self, name: str, database: str = "power") -> psutil.Process:
        """Wait until the driver is stable and a triggerer supervises one of its streams, and return the driver."""
        self.until(self._is_driver_stable, "the snode's driver to be stable")
        self.until(
            lambda: any(task["triggerer_job"] for task in self.tasks(name, database).get("supervise", ())),
            "a triggerer to start supervision",
        )
        return self.driver()

    def _is_driver_stable(self) -> bool:
        lease, beat = self.catalog.leases.get(self.settings.snode), self.catalog.snodes.get(self.settings.snode)
        started = next((event for event in self.catalog.events.all("snode") if event.kind == "STARTED"), None)
        if lease is None or started is None:
            return False
        return beat.epoch == lease.epoch and beat.at - started.time > SETTLED_MS

    def until(self, poll: Callable[[], T | Literal[False] | None], what: str) -> T:
        """Wait for a true result of `poll`, and return it; a `TimeoutError` has the states of the streams."""
        return wait_until(poll, what, details=self._details, pause_s=PAUSE_S)

    def _details(self) -> str:
        states = {record.definition.name: (record.state.value, str(record.reason)) for record in self.catalog.jobs.all()}
        try:
            snode = self._snode_details()
        except Exception as error:  # this must not hide what was waited for
            snode = f"the snode is unknown: {error}"
        return f"streams: {states}; {snode}; logs: {self.settings.home_path / 'logs'}"

    def _snode_details(self) -> str:
        """Return what is known of the snode: its drivers, its lease and heartbeat, and its tasks in Airflow."""
        now, name = SystemClock().now(), self.settings.snode
        lease, beat = self.catalog.leases.get(name), self.catalog.snodes.get(name)
        drivers = [f"{process.pid} {process.status()}" for process in find_marked(self.settings.home_path) if is_driver(process)]
        held = "none" if lease is None else f"epoch {lease.epoch} by {lease.holder}, for {lease.expires - now} ms more"
        dag_id = snode_dag_id(name)
        tasks = [
            f"{task['state']}, try {task['try_number']}"
            for run in self.client.runs(dag_id, limit=3)
            for task in self.client.tasks(dag_id, run["dag_run_id"])
        ]
        return f"drivers: {drivers}; lease: {held}; heartbeat {now - beat.at} ms old; tasks of the snode: {tasks}"


def _line(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    errors = [str(error.get("exc_value")) for error in entry.get("error_detail") or ()]
    return "\n".join([str(entry.get("event", entry)), *errors])


@contextmanager
def running_system(home: Path, **options: Any) -> Iterator[RunningSystem]:
    """Run a system with small drivers in a home, and stop all its processes afterwards."""
    settings = load(home=home, airflow_port=find_free_port(), **{"driver_memory": "1g", "spark_master": "local[2]", **options})
    started = embedded_airflow.start(settings)
    try:
        client = AirflowClient.find(settings, PATIENT_TIMEOUT)
        assert client is not None
        with client, Catalog.open(settings.catalog) as catalog, connect(settings=settings) as connection:
            yield RunningSystem(settings, started, client, catalog, connection)
    finally:
        embedded_airflow.stop(settings)
