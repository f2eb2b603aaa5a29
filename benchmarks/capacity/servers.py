"""Servers that the calibration starts: PostgreSQL, and an object store at some distance."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import psutil

if TYPE_CHECKING:
    from tests.support.object_store import Server as ObjectStore

DURABLE: Final = ("max_connections=100", "listen_addresses=")


@contextmanager
def at_distance(store: ObjectStore, delay_s: float) -> Iterator[dict[str, Any]]:
    """Yield the settings of a warehouse on an object store whose answers take longer by some seconds."""
    from tests.support.object_store import PASSWORD, USER

    options = {"warehouse": f"{store.create_bucket()}/tables", "s3_access_key_id": USER, "s3_secret_access_key": PASSWORD}
    if not delay_s:
        yield options | {"s3_endpoint": store.url}
        return
    command = [sys.executable, "-m", "benchmarks.capacity.distance", str(urlsplit(store.url).port), str(delay_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout is not None
        yield options | {"s3_endpoint": f"http://127.0.0.1:{proxy.stdout.readline().strip()}"}
        proxy.kill()


@dataclass(frozen=True, slots=True)
class Database:
    """A running PostgreSQL."""

    url: str
    process: psutil.Process

    def cpu_s(self) -> float:
        """Return the CPU seconds of all of its processes."""
        times = [one.cpu_times() for one in (self.process, *self.process.children())]
        return sum(used.user + used.system for used in times)


@contextmanager
def running_database() -> Iterator[Database | None]:
    """Run PostgreSQL with durable commits; None if its programs are missing."""
    from tests.support.postgres import find_programs, running_server

    programs = find_programs()
    if programs is None:
        yield None
        return
    with running_server(programs, DURABLE) as server, server.database() as url:
        yield Database(url, psutil.Process(server.pid))


@contextmanager
def running_store() -> Iterator[ObjectStore | None]:
    """Run an object store; None if its program is missing."""
    from tests.support.object_store import find_program, running_server

    program = find_program()
    if program is None:
        yield None
        return
    with running_server(program) as server:
        yield server
