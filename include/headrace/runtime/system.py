"""The embedded system: Airflow's components started, looked at and stopped, with everything they have started."""

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

from headrace.catalog import Catalog
from headrace.errors import ConfigurationError, OperationalError
from headrace.model.jobs import DesiredState, JobState
from headrace.runtime.dag_ids import BACKFILL_POOL, stream_dag_id
from headrace.runtime.environment import airflow_environment
from headrace.runtime.login import USER, AirflowHome, ensure_login, find_login, read_json, write_private
from headrace.runtime.processes import Service, end, family, free_port, is_driver, is_free, lives, marked, owner_of, wait_for
from headrace.runtime.readiness import await_ready
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.runtime.airflow import AirflowClient

# Name of the component, and of its entry in Airflow's account of its health.
COMPONENTS: Final = {
    "api-server": "metadatabase",
    "scheduler": "scheduler",
    "dag-processor": "dag_processor",
    "triggerer": "triggerer",
}
DRIVER_SECONDS: Final = 15.0
GRACE_SECONDS: Final = 10.0
# Airflow's components take half a minute on two cores, a driver as long again. These only end a wait that has become hopeless.
HEALTH_SECONDS: Final = 300.0
STREAMS_SECONDS: Final = 600.0


class Console(Protocol):
    """Who shows how a start or a stop gets on."""

    def step(self, text: str, done: int = 0, total: int = 0) -> None:
        """What is being waited for now; `done` of `total` parts, where there are parts."""

    def note(self, text: str) -> None:
        """Something to keep in sight."""


class Silence:
    """A console that shows nothing."""

    def step(self, text: str, done: int = 0, total: int = 0) -> None:
        pass

    def note(self, text: str) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Component:
    """A component of Airflow. `healthy`: it answers or its heartbeat is fresh, and is that of this process."""

    name: str
    pid: int | None
    healthy: bool
    log: str


@dataclass(frozen=True, slots=True)
class SystemStatus:
    """`url` is None where nothing runs."""

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
    """`first`: the login was made just now, and should be shown. `already`: there was nothing to start.

    `obstacles`: what keeps snodes and streams from their work, although Airflow is up.
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
    """How many processes have ended, and how many of them had to be killed."""

    ended: int
    killed: int


def services(settings: Settings) -> list[Service]:
    """Airflow's components as processes of this home."""
    home = AirflowHome.of(settings)
    logs = settings.home_path / "logs"
    return [
        Service(name, (sys.executable, "-m", "airflow", name), logs / f"{name}.log", home.run / f"{name}.json")
        for name in COMPONENTS
    ]


def start(
    settings: Settings, console: Console | None = None, *, wait_s: float = HEALTH_SECONDS, streams_wait_s: float = STREAMS_SECONDS
) -> Started:
    """Bring Airflow up, or what is missing of it, and wait until its snodes live and have taken up their streams.

    Doing it twice is harmless. Airflow stays up where snodes or streams are not ready within `streams_wait_s`: it goes on
    trying, and `obstacles` says what is in the way.

    Raises:
        ConfigurationError: the port is taken, and by whom.
        OperationalError: a component did not come up; the message has the end of its log. What was started is stopped again.
    """
    console = console or Silence()
    began = time.monotonic()
    started = _start_airflow(settings, console, wait_s)
    with _client(settings) as client:
        left = await_ready(settings, client, console, streams_wait_s)
    return replace(started, obstacles=left, seconds=time.monotonic() - began)


def _start_airflow(settings: Settings, console: Console, wait_s: float) -> Started:
    """Start the components that do not run, and wait until all are healthy."""
    home = AirflowHome.of(settings)
    home.run.mkdir(parents=True, exist_ok=True)
    home.folder.chmod(0o700)
    with _alone(settings):
        before = status(settings)
        if before.healthy:
            return _started(settings, first=False, already=True)
        first = ensure_login(home)
        ports = _ports(settings, home, before.running)
        environment = airflow_environment(settings, ports)
        _migrate(settings, home, environment, console)
        launched = [service for service in services(settings) if service.process() is None]
        try:
            for service in launched:
                service.start(environment, home.folder)
            _await_health(settings, console, wait_s)
            _finish(settings, console)
        except BaseException:
            _undo(settings, launched)
            raise
    return _started(settings, first=first, already=not launched)


def stop(settings: Settings, console: Console | None = None) -> Stopped:
    """End Airflow's components and every process they have started, Spark drivers included. Doing it twice is harmless."""
    if not AirflowHome.of(settings).run.exists():
        return Stopped(0, 0)
    with _alone(settings):
        return _end_all(settings, console or Silence())


def status(settings: Settings) -> SystemStatus:
    """What runs now. A heartbeat counts when it is younger than the process it is said to come from."""
    found = {service.name: (service, service.process()) for service in services(settings)}
    alive = any(process for _, process in found.values())
    health = _health(settings) if alive else {}
    components = tuple(
        Component(
            name,
            process.pid if process else None,
            process is not None and _is_fresh(health.get(COMPONENTS[name]), process.create_time()),
            str(service.log),
        )
        for name, (service, process) in found.items()
    )
    login = find_login(settings)
    return SystemStatus(login.url if login and alive else None, components)


@contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """Keeps two commands from starting and stopping at once."""
    from filelock import FileLock, Timeout

    lock = FileLock(AirflowHome.of(settings).run / "system.lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise OperationalError(
            "another `headrace up` or `headrace down` is at work on this home", hint="wait until it has ended"
        ) from None
    try:
        yield
    finally:
        lock.release()


def _ports(settings: Settings, home: AirflowHome, running: bool) -> dict[str, int]:
    """Ports of the components; those in use stay while any component runs."""
    known = read_json(home.ports)
    if running and known:
        return {name: int(port) for name, port in known.items()}
    port = settings.airflow_port
    if not is_free(port):
        raise ConfigurationError(
            f"port {port} is in use by {owner_of(port)}", hint="set HEADRACE_AIRFLOW_PORT to a free port, or end what uses it"
        )
    ports = {"api": port, "worker_logs": free_port(), "trigger_logs": free_port()}
    write_private(home.ports, ports)
    return ports


def _migrate(settings: Settings, home: AirflowHome, environment: dict[str, str], console: Console) -> None:
    """Make or update Airflow's database, once for each version of Airflow."""
    version = importlib.metadata.version("apache-airflow")
    done = home.run / "migrated.json"
    if read_json(done).get("version") == version and (home.folder / "airflow.db").exists():
        return
    console.step("Preparing Airflow's database")
    log = settings.home_path / "logs" / "migrate.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        command = [sys.executable, "-m", "airflow", "db", "migrate"]
        outcome = subprocess.run(command, env=environment, cwd=home.folder, stdout=output, stderr=subprocess.STDOUT, check=False)
    if outcome.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise OperationalError(f"Airflow's database could not be prepared:\n{tail}", hint=f"the whole log is {log}")
    write_private(done, {"version": version})


def _await_health(settings: Settings, console: Console, wait_s: float) -> None:
    def all_healthy() -> bool:
        for service in services(settings):
            if service.process() is None:
                raise OperationalError(
                    f"Airflow's {service.name} has ended:\n{service.tail()}", hint=f"the whole log is {service.log}"
                )
        components = status(settings).components
        healthy = sum(component.healthy for component in components)
        missing = ", ".join(component.name for component in components if not component.healthy)
        console.step(f"Starting Airflow: waiting for {missing}" if missing else "Airflow is up", healthy, len(components))
        return healthy == len(components)

    if not wait_for(all_healthy, wait_s):
        late = next(component for component in status(settings).components if not component.healthy)
        raise OperationalError(f"Airflow's {late.name} was not healthy after {wait_s:.0f} s", hint=f"its log is {late.log}")


def _finish(settings: Settings, console: Console) -> None:
    """What can only be told to a running Airflow. What it could not import is said."""
    with _client(settings) as client:
        client.set_pool(BACKFILL_POOL, settings.backfill_slots, "Spark drivers of Headrace's backfills")
        _catch_up(settings, client)
        for error in client.import_errors():
            console.note(error)


def _catch_up(settings: Settings, client: AirflowClient) -> None:
    """Have streams supervised that were resumed while Airflow was away. Those that are STOPPED wait for a person still."""
    unsupervised = client.unsupervised()
    with Catalog.open(settings.catalog) as catalog:
        records = catalog.jobs.all() if unsupervised else []
    for record in records:
        database, name = record.definition.database, record.definition.name
        going = record.desired is DesiredState.RUNNING and record.state is not JobState.STOPPED
        if going and stream_dag_id(database, name) in unsupervised:
            client.supervise(database, name)


def _client(settings: Settings) -> AirflowClient:
    from headrace.runtime.airflow import PATIENT, AirflowClient  # an HTTP client takes long to import, and status may need none

    own = settings.model_copy(update={"airflow_url": ""})
    client = AirflowClient.find(own, PATIENT)
    if client is None:
        raise OperationalError("Airflow has not been started here", hint="start it with `headrace up`")
    return client


def _health(settings: Settings) -> dict[str, Any]:
    with suppress(OperationalError, ValueError), _client(settings) as client:
        return client.health()
    return {}


def _is_fresh(entry: dict[str, Any] | None, started: float) -> bool:
    """Whether a component is said to be healthy, by a heartbeat that this process has sent."""
    if entry is None or entry.get("status") != "healthy":
        return False
    beat = next((value for name, value in entry.items() if name.endswith("heartbeat")), None)
    return beat is None or datetime.fromisoformat(beat).timestamp() >= started


def _started(settings: Settings, *, first: bool, already: bool) -> Started:
    login = find_login(settings.model_copy(update={"airflow_url": ""}))
    if login is None:
        raise OperationalError("the login of Airflow is missing", hint="run `headrace down`, then `headrace up`")
    return Started(login.url, USER, login.password, first, already, 0.0)


def _end_all(settings: Settings, console: Console) -> Stopped:
    """First the scheduler, which then starts nothing more; the drivers, which end their batch; what waits for them and reports
    to the API server; and that last. Whatever does not end by itself is killed.
    """
    seen = {process.pid for process in _members(settings)}
    console.step("Stopping", 0, len(seen))
    scheduler, server = _tree(settings, "scheduler"), _tree(settings, "api-server")
    end(scheduler[:1], signal.SIGTERM, 0)
    drivers = [process for process in _members(settings) if is_driver(process)]
    if drivers:
        console.step("Stopping: waiting for the Spark drivers to end their batch", 0, len(seen))
        end(drivers, signal.SIGTERM, DRIVER_SECONDS)
    console.step("Stopping: Airflow's components", len(drivers), len(seen))
    end([process for process in _members(settings) if process not in server], signal.SIGTERM, GRACE_SECONDS)
    killed = 0
    for _ in range(3):
        remaining = _members(settings)
        if not remaining:
            break
        seen |= {process.pid for process in remaining}
        stubborn = family(end(remaining, signal.SIGTERM, GRACE_SECONDS))
        killed += len(stubborn)
        end(stubborn, signal.SIGKILL, GRACE_SECONDS)
    for service in services(settings):
        service.record.unlink(missing_ok=True)
    if left := _members(settings):
        numbers = " ".join(str(process.pid) for process in left)
        raise OperationalError(f"these processes would not end: {numbers}", hint=f"kill -9 {numbers}")
    return Stopped(len(seen), killed)


def _undo(settings: Settings, launched: list[Service]) -> None:
    """End what has just been launched, and all that came of it; what ran before stays."""
    if len(launched) == len(COMPONENTS):
        _end_all(settings, Silence())
        return
    processes = family([process for service in launched if (process := service.process())])
    end(end(processes, signal.SIGTERM, GRACE_SECONDS), signal.SIGKILL, GRACE_SECONDS)


def _tree(settings: Settings, name: str) -> list[Process]:
    """A component's process and all below it; empty where it does not run."""
    process = next(service.process() for service in services(settings) if service.name == name)
    return family([process]) if process else []


def _members(settings: Settings) -> list[Process]:
    """Every process of the system: those that are remembered, those that carry the mark, and all below them."""
    remembered = [process for service in services(settings) if (process := service.process())]
    return [process for process in family([*remembered, *marked(settings.home_path)]) if lives(process)]
