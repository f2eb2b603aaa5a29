"""Every module that may open connections is known: it asks the policy, or leads to what administrators or this machine name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import headrace

LIBRARIES: Final = (
    *("aiohttp", "confluent_kafka", "ftplib", "grpc", "http.client", "httpx", "paho", "psycopg", "pyarrow.flight", "requests"),
    *("smtplib", "socket", "thrift.transport.TSocket", "thrift.transport.TSSLSocket", "urllib.request", "websockets"),
)
ASKING: Final = frozenset(
    {
        *("code/downloads.py", "egress.py", "egress_http.py"),
        *("streams/notifications/webhook.py", "streams/notifications/websocket.py"),
        *("pipes/iotdb/connection.py", "pipes/kafka.py", "pipes/mqtt.py", "pipes/sinks/kafka.py", "pipes/sinks/mqtt.py"),
        *("pipes/sinks/websocket.py", "pipes/sources/kafka.py", "pipes/sources/mqtt.py"),
    }
)
"""They connect to what definitions of users name."""
OTHERS: Final = {
    "catalog/postgresql.py": "the catalog of the settings",
    "catalog/processes.py": "the name of this machine",
    "cli/demo/steps.py": "a receiver of the demonstration, on loopback",
    "cli/doctor_airflow.py": "Airflow, which the settings name",
    "code/attendants.py": "processes of this machine",
    "code/host_process.py": "processes of this machine",
    "doors/flight/errors.py": "listens",
    "doors/flight/front.py": "listens, and connects to the server of this process by its Unix socket",
    "doors/flight/logins.py": "listens",
    "doors/flight/server.py": "listens",
    "doors/iotdb/door.py": "listens",
    "model/egress.py": "reads addresses",
    "pipes/mqtt_client.py": "connects by a function that pipes/mqtt.py hands in",
    "runtime/airflow.py": "Airflow, which the settings name",
    "runtime/http_server.py": "listens",
    "runtime/processes.py": "looks for ports of this machine",
    "runtime/signals.py": "this process",
    "runtime/snode_client.py": "snodes, which the catalog names",
    "service/remote_connection.py": "the snode that a client names",
    "storage/spark/java.py": "the address of this machine",
    "trees/trigger_instances.py": "the name of this machine",
    "trigger/alert_manager.py": "user code, in its code host",
}
"""What the other modules lead to."""


def imported(path: Path) -> Iterator[str]:
    """Yield the modules and names that a module imports, also within functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def connects(path: Path) -> bool:
    return any(f"{name}.".startswith(f"{library}.") for name in imported(path) for library in LIBRARIES)


def test_every_module_that_may_connect_is_known() -> None:
    root = Path(headrace.__file__).parent
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if connects(path)}
    unknown = found - ASKING - OTHERS.keys()
    assert not unknown, "connect by headrace.egress, or say here what these lead to"
    assert ASKING | OTHERS.keys() == found


def test_modules_that_connect_for_definitions_ask_the_policy() -> None:
    root = Path(headrace.__file__).parent
    for name in ASKING - {"egress.py"}:
        assert any(module.startswith("headrace.egress") for module in imported(root / name)), name
