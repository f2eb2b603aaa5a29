"""Checks of `headrace doctor` that ask the running system: Airflow, its pools, clocks and ports."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

import psutil

from headrace.errors import ConfigurationError, OperationalError
from headrace.runtime.processes import find_marked
from headrace.settings import Settings

if TYPE_CHECKING:
    from headrace.runtime.airflow import AirflowClient

MAX_SKEW_S: Final = 2.0
"""Clocks that differ by more make leases and heartbeats unreliable."""
AWAY: Final = "is not running"
COMPONENTS: Final = ("scheduler", "triggerer", "dag_processor")


def with_airflow(settings: Settings, look: Callable[[AirflowClient], str]) -> str:
    """Return what a function says of Airflow; that there is none if none is configured, or the one of the home does not run.

    Raises:
        OperationalError: The Airflow of the setting `airflow_url` cannot be reached, or refuses the login.
    """
    from headrace.runtime.airflow import AirflowClient

    client = AirflowClient.find(settings)
    if client is None:
        return "has never been started here; start it with `headrace up`"
    with client:
        try:
            return look(client)
        except OperationalError as error:
            if settings.airflow_url or "cannot be reached" not in error.message:
                raise
            return f"{AWAY}; start it with `headrace up`"


def check_airflow(settings: Settings) -> str:
    """Return Airflow's address and version.

    Raises:
        ConfigurationError: The version is not supported.
    """
    from headrace.runtime.airflow_setup import check_version

    return with_airflow(settings, lambda client: f"{check_version(client)} at {client.login.url}")


def check_components(settings: Settings) -> str:
    """Return that scheduler, triggerer and DAG processor are healthy.

    Raises:
        OperationalError: One is not.
    """

    def look(client: AirflowClient) -> str:
        health = client.health()
        ill = [name for name in COMPONENTS if (health.get(name) or {}).get("status") != "healthy"]
        if ill:
            hint = "look at its log: `headrace logs` lists the names" if not settings.airflow_url else "see Airflow's health page"
            raise OperationalError(f"Airflow's {' and '.join(ill)} is not healthy", hint=hint)
        return f"{', '.join(COMPONENTS)} are healthy"

    return with_airflow(settings, look)


def check_pools(settings: Settings) -> str:
    """Return the slots of the pools that DAGs use.

    Raises:
        ConfigurationError: A pool does not exist.
    """
    from headrace.runtime.airflow_setup import used_pools

    def look(client: AirflowClient) -> str:
        pools = {pool.name: client.pool(pool.name) for pool in used_pools(settings)}
        missing = [name for name, pool in pools.items() if pool is None]
        if missing:
            hint = "run `headrace airflow setup`, or name another by HEADRACE_BACKFILL_POOL or HEADRACE_CQ_POOL"
            raise ConfigurationError(f"Airflow has no pool {missing[0]}", hint=hint)
        return ", ".join(f"{name} has {pool['slots']} slots" for name, pool in pools.items() if pool is not None)

    return with_airflow(settings, look)


def check_setup(settings: Settings) -> str:
    """Return that an Airflow of the user has what DAGs need.

    Raises:
        ConfigurationError: Something is missing or different.
        OperationalError: The DAGs are not there.
    """
    from headrace.runtime.airflow_setup import needed_changes

    def look(client: AirflowClient) -> str:
        changes = [change.description for change in needed_changes(settings, client)]
        if changes:
            raise ConfigurationError(f"Airflow is not set up: {'; '.join(changes)}", hint="run `headrace airflow setup`")
        return "has the connection, the pools and the DAGs"

    return with_airflow(settings, look) if settings.airflow_url else "done by `headrace up`"


def check_clocks(settings: Settings) -> str:
    """Return how far the clocks of the catalog's database and of Airflow are from this machine's.

    Raises:
        ConfigurationError: One is further than `MAX_SKEW_S`.
    """
    from headrace.catalog import Catalog

    with Catalog.open(settings.catalog) as catalog:
        skews = {"catalog": catalog.now() / 1000 - time.time()}
    served = airflow_time(settings)
    if served is not None:
        # The header has whole seconds.
        skews["Airflow"] = served - time.time() + 0.5
    far = {name: skew for name, skew in skews.items() if abs(skew) > MAX_SKEW_S}
    if far:
        name, skew = next(iter(far.items()))
        raise ConfigurationError(f"the clock of {name} differs by {skew:.1f} s", hint="synchronize the clocks of all machines")
    return "; ".join(f"{name} differs by {abs(skew):.1f} s" for name, skew in skews.items())


def airflow_time(settings: Settings) -> float | None:
    """Return Airflow's time in epoch seconds; None if it does not run."""
    import httpx

    from headrace.runtime.login import find_login

    login = find_login(settings)
    if login is None:
        return None
    try:
        date = httpx.get(f"{login.url}/api/v2/version", timeout=2.0, trust_env=False).headers.get("date")
    except httpx.HTTPError:
        return None
    return None if date is None else parsedate_to_datetime(date).astimezone(UTC).timestamp()


def check_ports(settings: Settings) -> str:
    """Return which ports of the settings are free, and which a process of this home has.

    Raises:
        ConfigurationError: Another process has one.
    """
    states = {name: port_state(settings, host, port) for name, (host, port) in wanted_ports(settings).items()}
    taken = [f"port {wanted_ports(settings)[name][1]} of {name}" for name, state in states.items() if state == "taken"]
    if taken:
        raise ConfigurationError(f"another process has {', '.join(taken)}", hint="end it, or set another port")
    return ", ".join(f"{name} {wanted_ports(settings)[name][1]} {state}" for name, state in states.items()) or "none is fixed"


def wanted_ports(settings: Settings) -> dict[str, tuple[str, int]]:
    """Return host and port of everything that is to listen at a fixed port."""
    doors = [name.strip() for name in settings.doors.split(",") if name.strip()]
    ports: dict[str, tuple[str, int]] = {"Airflow": ("127.0.0.1", settings.airflow_port)}
    ports["snode"] = (settings.http_host, settings.http_port)
    ports |= {name: (settings.door_host, int(getattr(settings, f"{name}_port"))) for name in doors}
    if settings.airflow_url:
        del ports["Airflow"]
    return {name: place for name, place in ports.items() if place[1]}


def port_state(settings: Settings, host: str, port: int) -> str:
    """Return `free`, `ours` or `taken`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return "ours" if port in listening(settings) else "taken"
    return "free"


def listening(settings: Settings) -> set[int]:
    """Return the ports on which processes of this home listen."""
    ports: set[int] = set()
    for process in find_marked(settings.home_path):
        try:
            connections: list[Any] = process.net_connections("inet")
        except psutil.Error:
            continue
        ports |= {connection.laddr.port for connection in connections if connection.status == psutil.CONN_LISTEN}
    return ports


SYSTEM_CHECKS: Final[dict[str, Callable[[Settings], str]]] = {
    "Airflow": check_airflow,
    "components of Airflow": check_components,
    "pools": check_pools,
    "setup of Airflow": check_setup,
    "clocks": check_clocks,
    "ports": check_ports,
}
