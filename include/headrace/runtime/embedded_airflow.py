"""The embedded system: starting, checking and stopping Airflow's components, with all their child processes."""

from __future__ import annotations

import importlib.metadata
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from psutil import Process

from headrace.errors import ConfigurationError, OperationalError
from headrace.runtime.airflow_database import end_lost_components
from headrace.runtime.airflow_settings import airflow_environment, own_dags_folder
from headrace.runtime.airflow_setup import used_pools
from headrace.runtime.login import USER, AirflowHome, ensure_login, find_login, read_json, write_private
from headrace.runtime.processes import (
    Service,
    describe_port_owner,
    end_processes,
    family,
    find_free_port,
    find_marked,
    is_driver,
    is_port_free,
    is_running,
    wait_for,
)
from headrace.runtime.readiness import await_ready
from headrace.settings import Settings
from headrace.storage.spark.java import check_java

if TYPE_CHECKING:
    from headrace.runtime.airflow import AirflowClient

# The name of each component, and of its entry in Airflow's health report.
COMPONENTS: Final = {
    "api-server": "metadatabase",
    "scheduler": "scheduler",
    "dag-processor": "dag_processor",
    "triggerer": "triggerer",
}
DRIVER_SECONDS: Final = 15.0
GRACE_SECONDS: Final = 10.0
# Airflow's components take half a minute to start on two cores, and a driver as long again. These limits only end hopeless waits.
HEALTH_SECONDS: Final = 300.0
RESTARTED_AFTER_S: Final = "30"
"""A component that crashes after this many seconds is restarted: some errors of its database end Airflow's scheduler."""
STREAMS_SECONDS: Final = 600.0


class Console(Protocol):
    """Shows the progress of a start or a stop."""

    def step(self, text: str, done: int = 0, total: int = 0) -> None:
        """Show what is being waited for; `done` of `total` parts, if there are parts."""

    def note(self, text: str) -> None:
        """Show a text that should stay visible."""


class SilentConsole:
    """A console that shows nothing."""

    def step(self, text: str, done: int = 0, total: int = 0) -> None:
        """See `Console`."""

    def note(self, text: str) -> None:
        """See `Console`."""


@dataclass(frozen=True, slots=True)
class Component:
    """A component of Airflow. `healthy`: it answers, or its heartbeat is fresh and from this process."""

    name: str
    pid: int | None
    healthy: bool
    log: str


@dataclass(frozen=True, slots=True)
class SystemStatus:
    """The components, and Airflow's URL; None if nothing runs."""

    url: str | None
    components: tuple[Component, ...]

    @property
    def running(self) -> bool:
        return any(component.pid is not None for component in self.components)

    @property
    def healthy(self) -> bool:
        return all(component.healthy for component in self.components)


@dataclass(frozen=True, slots=True)
class Started:
    """The result of a start.

    `first` says whether the login is new, and should be shown; `already`, whether everything was running; `obstacles`, what keeps
    snodes and streams from working although Airflow is up.
    """

    url: str
    user: str
    password: str
    first: bool
    already: bool
    seconds: float
    obstacles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stopped:
    """The number of processes that have ended, and how many of them had to be killed."""

    ended: int
    killed: int


def services(settings: Settings) -> list[Service]:
    home = AirflowHome(settings)
    logs = settings.home_path / "logs"
    keep_running = (str(settings.project / "bin" / "keep-running"), RESTARTED_AFTER_S)
    return [
        Service(name, (*keep_running, sys.executable, "-m", "airflow", name), logs / f"{name}.log", home.run / f"{name}.json")
        for name in COMPONENTS
    ]


def start(
    settings: Settings, console: Console | None = None, *, wait_s: float = HEALTH_SECONDS, streams_wait_s: float = STREAMS_SECONDS
) -> Started:
    """Start Airflow, or the missing components, and wait until its snodes are alive and run their streams.

    Idempotent. If snodes or streams are not ready within `streams_wait_s`, Airflow continues to run, and `obstacles` says why.

    Raises:
        ConfigurationError: There is no Java, or the port is taken; the message names the process that uses it.
        OperationalError: A component did not start; the message has the end of its log. What was started is stopped again.
    """
    console = console or SilentConsole()
    started_at = time.monotonic()
    started = _start_airflow(settings, console, wait_s)
    with _client(settings) as client:
        obstacles = await_ready(settings, client, console, streams_wait_s)
    return replace(started, obstacles=obstacles, seconds=time.monotonic() - started_at)


def _start_airflow(settings: Settings, console: Console, wait_s: float) -> Started:
    """Start the components that do not run, and wait until all are healthy."""
    home = AirflowHome(settings)
    settings.create_home()
    own_dags_folder(settings).mkdir(parents=True, exist_ok=True)
    home.run.mkdir(parents=True, exist_ok=True)
    home.folder.chmod(0o700)
    with _exclusive(settings):
        current = status(settings)
        if current.healthy:
            return _started(settings, first=False, already=True)
        check_java()
        first = ensure_login(home)
        ports = _ports(settings, home, current.running)
        environment = airflow_environment(settings, ports)
        _migrate(settings, home, environment, console)
        if not _members(settings):
            end_lost_components(environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
        launched = [service for service in services(settings) if service.process() is None]
        try:
            for service in launched:
                service.start(environment, home.folder)
            _await_health(settings, console, wait_s)
            _configure_airflow(settings, console)
        except BaseException:
            _stop_launched(settings, launched)
            raise
    return _started(settings, first=first, already=not launched)


def stop(settings: Settings, console: Console | None = None) -> Stopped:
    """Stop Airflow's components and every process they have started, including Spark drivers. Idempotent."""
    if not AirflowHome(settings).run.exists():
        return Stopped(0, 0)
    with _exclusive(settings):
        return _end_all(settings, console or SilentConsole())


def status(settings: Settings) -> SystemStatus:
    """Return what runs now. A component's heartbeat counts only if it is younger than its process."""
    processes = {service.name: (service, service.process()) for service in services(settings)}
    is_running = any(process for _, process in processes.values())
    health = _health(settings) if is_running else {}
    components = tuple(
        Component(
            name,
            process.pid if process else None,
            process is not None and _is_fresh(health.get(COMPONENTS[name]), process.create_time()),
            str(service.log),
        )
        for name, (service, process) in processes.items()
    )
    login = find_login(settings)
    return SystemStatus(login.url if login and is_running else None, components)


@contextmanager
def _exclusive(settings: Settings) -> Iterator[None]:
    """Prevent two commands from starting and stopping at once."""
    from filelock import FileLock, Timeout

    lock = FileLock(AirflowHome(settings).run / "system.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise OperationalError(
            "another `headrace up` or `headrace down` is running on this home", hint="wait until it has ended"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _ports(settings: Settings, home: AirflowHome, running: bool) -> dict[str, int]:
    """Return the ports of the components; those in use stay while any component runs."""
    recorded = read_json(home.ports)
    if running and recorded:
        return {name: int(port) for name, port in recorded.items()}
    port = settings.airflow_port
    if not is_port_free(port):
        raise ConfigurationError(
            f"port {port} is in use by {describe_port_owner(port)}",
            hint="set HEADRACE_AIRFLOW_PORT to a free port, or stop that process",
        )
    ports = {"api": port, "worker_logs": find_free_port(), "trigger_logs": find_free_port()}
    write_private(home.ports, ports)
    return ports


def _migrate(settings: Settings, home: AirflowHome, environment: dict[str, str], console: Console) -> None:
    """Create or update Airflow's database: its own SQLite file once for each version of Airflow, another database always."""
    version = importlib.metadata.version("apache-airflow")
    record = home.run / "migrated.json"
    is_own = not settings.airflow_database_url and (home.folder / "airflow.db").exists()
    if is_own and read_json(record).get("version") == version:
        return
    console.step("Preparing Airflow's database")
    log = settings.home_path / "logs" / "migrate.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        result = subprocess.run(command, env=environment, cwd=home.folder, stdout=output, stderr=subprocess.STDOUT, check=False)
    if result.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise OperationalError(f"Airflow's database could not be prepared:\n{tail}", hint=f"see the log {log}")
    write_private(record, {"version": version})


def _await_health(settings: Settings, console: Console, wait_s: float) -> None:
    def are_all_healthy() -> bool:
        """Return True if all components are healthy; raise if one has ended."""
        for service in services(settings):
            if service.process() is None:
                raise OperationalError(f"Airflow's {service.name} has ended:\n{service.tail()}", hint=f"see the log {service.log}")
        components = status(settings).components
        healthy = sum(component.healthy for component in components)
        missing = ", ".join(component.name for component in components if not component.healthy)
        console.step(f"Starting Airflow: waiting for {missing}" if missing else "Airflow is up", healthy, len(components))
        return healthy == len(components)

    if not wait_for(are_all_healthy, wait_s):
        late = next(component for component in status(settings).components if not component.healthy)
        raise OperationalError(f"Airflow's {late.name} was not healthy after {wait_s:.0f} s", hint=f"see the log {late.log}")


def _configure_airflow(settings: Settings, console: Console) -> None:
    with _client(settings) as client:
        for pool in used_pools(settings.replace({"airflow_url": ""})):
            client.set_pool(pool.name, pool.slots, pool.description)
        for error in client.import_errors():
            console.note(error)


def _client(settings: Settings) -> AirflowClient:
    from headrace.runtime.airflow import (  # an HTTP client is slow to import, and status may not need it
        PATIENT_TIMEOUT,
        AirflowClient,
    )

    local_settings = settings.replace({"airflow_url": ""})
    client = AirflowClient.find(local_settings, PATIENT_TIMEOUT)
    if client is None:
        raise OperationalError("Airflow has not been started here", hint="start it with `headrace up`")
    return client


def _health(settings: Settings) -> dict[str, Any]:
    with suppress(OperationalError, ValueError), _client(settings) as client:
        return client.health()
    return {}


def _is_fresh(entry: dict[str, Any] | None, started: float) -> bool:
    """Return True if a component is reported as healthy, by a heartbeat of this very process."""
    if entry is None or entry.get("status") != "healthy":
        return False
    heartbeat = next((value for name, value in entry.items() if name.endswith("heartbeat")), None)
    return heartbeat is None or datetime.fromisoformat(heartbeat).timestamp() >= started


def _started(settings: Settings, *, first: bool, already: bool) -> Started:
    login = find_login(settings.replace({"airflow_url": ""}))
    if login is None:
        raise OperationalError("the login of Airflow is missing", hint="run `headrace down`, then `headrace up`")
    return Started(login.url, USER, login.password, first, already, 0.0)


def _end_all(settings: Settings, console: Console) -> Stopped:
    """Stop the scheduler first, so that it starts nothing more; then the drivers; then what reports to the API server; that last.

    Processes that do not end are killed.
    """
    seen = {process.pid for process in _members(settings)}
    console.step("Stopping", 0, len(seen))
    scheduler, server = _tree(settings, "scheduler"), _tree(settings, "api-server")
    end_processes(scheduler[:1], signal.SIGTERM, 0)
    drivers = [process for process in _members(settings) if is_driver(process)]
    if drivers:
        console.step("Stopping: waiting for the Spark drivers to end their batch", 0, len(seen))
        end_processes(drivers, signal.SIGTERM, DRIVER_SECONDS)
    console.step("Stopping: Airflow's components", len(drivers), len(seen))
    end_processes([process for process in _members(settings) if process not in server], signal.SIGTERM, GRACE_SECONDS)
    killed = 0
    for _ in range(3):
        remaining = _members(settings)
        if not remaining:
            break
        seen |= {process.pid for process in remaining}
        survivors = family(end_processes(remaining, signal.SIGTERM, GRACE_SECONDS))
        killed += len(survivors)
        end_processes(survivors, signal.SIGKILL, GRACE_SECONDS)
    for service in services(settings):
        service.record.unlink(missing_ok=True)
    if remaining_processes := _members(settings):
        pids = " ".join(str(process.pid) for process in remaining_processes)
        raise OperationalError(f"these processes could not be ended: {pids}", hint=f"run kill -9 {pids}")
    return Stopped(len(seen), killed)


def _stop_launched(settings: Settings, launched: list[Service]) -> None:
    """Stop what has just been launched, with its children; what ran before stays."""
    if len(launched) == len(COMPONENTS):
        _end_all(settings, SilentConsole())
        return
    processes = family([process for service in launched if (process := service.process())])
    end_processes(end_processes(processes, signal.SIGTERM, GRACE_SECONDS), signal.SIGKILL, GRACE_SECONDS)


def _tree(settings: Settings, name: str) -> list[Process]:
    """Return a component's process and all its descendants; empty if it does not run."""
    process = next(service.process() for service in services(settings) if service.name == name)
    return family([process]) if process else []


def _members(settings: Settings) -> list[Process]:
    """Return every process of the system: recorded ones, marked ones, and all their descendants."""
    remembered = [process for service in services(settings) if (process := service.process())]
    return [process for process in family([*remembered, *find_marked(settings.home_path)]) if is_running(process)]
