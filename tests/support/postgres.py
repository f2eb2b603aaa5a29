"""A real PostgreSQL server for the tests: Debian's binaries, a temporary data folder, and one database per test.

`tests/conftest.py` provides the fixtures `postgres` (the server of the test run) and `postgres_url` (the URL of an empty database
for one test). If the binaries are missing, tests that use them are skipped.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql

MISSING = "PostgreSQL's server programs are not on this machine: apt-get install postgresql"
OWNER = "postgres" if os.geteuid() == 0 else None
"""PostgreSQL does not run as root; Debian's package creates this user."""

# Durability does not matter here.
FAST_OPTIONS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200", "listen_addresses=")


DISCONNECT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'"


class Server:
    """A running server that listens on a socket in its folder."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], programs: Path, options: Sequence[str]) -> None:
        self._programs = programs
        self._options = options
        self._folder = folder
        self._process = process
        self._databases = 0
        self._free: list[str] = []

    @classmethod
    def start(cls, programs: Path, options: Sequence[str] = FAST_OPTIONS) -> Server:
        """Create and start a cluster in a temporary folder; `stop` removes both."""
        folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
        if OWNER:
            shutil.chown(folder, OWNER, OWNER)
        data = folder / "data"
        initdb = [programs / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"]
        subprocess.run([*unprivileged_command(), *map(str, initdb)], check=True, capture_output=True, cwd=folder)
        server = cls(folder, start_server(programs, folder, options), programs, options)
        server._wait()
        return server

    @property
    def pid(self) -> int:
        """The id of its first process."""
        return self._process.pid

    def url(self, database: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://postgres@/{database}?host={self._folder}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """Provide the URL of an empty database. Databases are cleared and reused, since each has hundreds of files."""
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

    @contextmanager
    def halted(self, how: signal.Signals = signal.SIGINT) -> Iterator[None]:
        """Shut the server down for a while, and keep its data. By `SIGQUIT` it stops at once, as in a crash."""
        self._process.send_signal(how)
        self._process.wait(timeout=60)
        yield
        self._process = start_server(self._programs, self._folder, self._options)
        self._wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze all processes of the server: it neither answers nor closes connections."""
        server = psutil.Process(self._process.pid)
        server.suspend()  # first, so that it starts no further process
        processes = [server, *server.children()]
        try:
            for process in processes:
                process.suspend()
            yield
        finally:
            for process in reversed(processes):
                process.resume()

    def stop(self) -> None:
        """Stop the server immediately and remove its folder."""
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


def start_server(programs: Path, folder: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a server on the data in a folder; it may not accept connections yet."""
    words = [part for option in options for part in ("-c", option)]
    command = [*unprivileged_command(), str(programs / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *words]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)


def unprivileged_command() -> list[str]:
    """Return a command prefix that drops root privileges and ends the command when this process dies (Linux)."""
    if shutil.which("setpriv") is None:
        return []
    user = [f"--reuid={OWNER}", f"--regid={OWNER}", "--init-groups"] if OWNER else []
    return ["setpriv", *user, "--pdeathsig", "QUIT"]


def find_programs() -> Path | None:
    """Return the folder with initdb and postgres of the latest installed version."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("initdb")
    candidates = [*installed, *([Path(on_path)] if on_path else [])]
    return candidates[-1].parent if installed else (candidates[0].parent if candidates else None)


@contextmanager
def running_server(programs: Path, options: Sequence[str] = FAST_OPTIONS) -> Iterator[Server]:
    """Provide a server on an empty cluster, and stop it afterwards."""
    server = Server.start(programs, options)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """Provide the PostgreSQL server of the test run, or skip the test if the binaries are missing."""
    programs = find_programs()
    if programs is None:
        pytest.skip(MISSING)
    with running_server(programs) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Server) -> Iterator[str]:
    """Provide the URL of an empty database for one test."""
    with postgres.database() as url:
        yield url
