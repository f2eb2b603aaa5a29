"""A real PostgreSQL server for the tests: Debian's binaries, a data folder that is thrown away, a database a test.

`tests/conftest.py` offers both fixtures to every room: `postgres` (the server of this test run) and `postgres_url` (the URL of
an empty database of the test's own). Where the binaries are missing, tests that ask for them are skipped and say so.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

MISSING = "PostgreSQL's server programs are not on this machine: apt-get install postgresql"
OWNER = "postgres" if os.geteuid() == 0 else None
"""PostgreSQL refuses to run as root; Debian's package brings this user."""

# Nothing has to survive a crash here.
QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200", "listen_addresses=")


DISCONNECT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"


class Server:
    """A running server that listens on a socket in its own folder."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], programs: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._process = process
        self._databases = 0
        self._free: list[str] = []

    @classmethod
    def start(cls, programs: Path) -> Server:
        """A new cluster in a folder of its own; `stop` removes both."""
        folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
        if OWNER:
            shutil.chown(folder, OWNER, OWNER)
        data = folder / "data"
        initdb = [programs / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
        subprocess.run([*lowered(), *map(str, initdb)], check=True, capture_output=True, cwd=folder)
        server = cls(folder, start_server(programs, folder), programs)
        server._wait()
        return server

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self._folder}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of an empty database. It is emptied and used again, for each has hundreds of files."""
        name = self._free.pop() if self._free else self._create()
        yield self.url(name)
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute(DISCONNECT)
            schemas = [schema for (schema,) in connection.execute(SCHEMAS)]
            for schema in schemas:
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
            connection.execute("CREATE SCHEMA public")
        self._free.append(name)

    def _create(self) -> str:
        self._databases += 1
        name = f"test_{self._databases}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return name

    def halt(self) -> None:
        """Shut the server down, keeping its data."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=60)

    def resume(self) -> None:
        """Start the server again on its data."""
        self._process = start_server(self._programs, self._folder)
        self._wait()

    def stop(self) -> None:
        """Ends the server by its id, at once since its data are thrown away, and removes its folder."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(timeout=60)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self._folder / "log").read_text()
                    self.stop()
                    raise RuntimeError(f"PostgreSQL did not start:\n{log}") from None
                time.sleep(0.02)


def start_server(programs: Path, folder: Path) -> subprocess.Popen[bytes]:
    """Start a server on the data in a folder; it may not yet take connections."""
    options = [part for option in QUICK for part in ("-c", option)]
    command = [*lowered(), str(programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *options]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)


def lowered() -> list[str]:
    """What to put before a command so that it runs as an ordinary user and ends with this process, however that ends (Linux)."""
    if shutil.which("setpriv") is None:
        return []
    user = [f"--reuid={OWNER}", f"--regid={OWNER}", "--init-groups"] if OWNER else []
    return ["setpriv", *user, "--pdeathsig", "QUIT"]


def find_programs() -> Path | None:
    """The folder with initdb and postgres, of the newest version there is."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    elsewhere = shutil.which("initdb")
    candidates = [*found, *([Path(elsewhere)] if elsewhere else [])]
    return candidates[-1].parent if found else (candidates[0].parent if candidates else None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The PostgreSQL server of this test run; skips where there are no programs to start one."""
    programs = find_programs()
    if programs is None:
        pytest.skip(MISSING)
    server = Server.start(programs)
    yield server
    server.stop()


@pytest.fixture
def postgres_url(postgres: Server) -> Iterator[str]:
    """The URL of an empty database of this test's own."""
    with postgres.database() as url:
        yield url
