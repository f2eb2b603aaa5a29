"""The system under test: a home with a PostgreSQL catalog, and an snode whose processes are killed, frozen and replaced."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import psutil

import headrace
from headrace.errors import TransientError
from headrace.settings import Settings, load
from headrace.storage.delta.repair import repair_tables
from tests.soak.powercuts.disk import Disk
from tests.support.jobs import Job
from tests.support.postgres import MISSING, Server, find_programs
from tests.support.waiting import wait_until

SETTLE_STALL_S: Final = 600.0


class System:
    """An snode and its catalog."""

    def __init__(self, folder: Path, server: Server, settings: Settings) -> None:
        self._folder = folder
        self._server = server
        self.settings = settings
        self._driver = self._start()
        self._frozen: list[Job] = []

    def connect(self, dialect: str = "tdengine") -> headrace.Connection:
        """Open a connection as a user's process would."""
        return headrace.connect(settings=self.settings, database="soak" if dialect == "tdengine" else None, dialect=dialect)

    def kill_driver(self) -> None:
        """Kill the driver's process, and start another one."""
        self._driver.signal(signal.SIGKILL)
        self._driver.ended()
        self._driver = self._start()

    def freeze_driver(self) -> None:
        """Freeze the driver once it leads, start another one, and thaw the first once the second has taken over."""
        wait_until(self._driver_leads, "the driver to lead", details=self.logs)
        frozen = self._driver
        frozen.signal(signal.SIGSTOP)
        self._frozen.append(frozen)
        self._driver = self._start()
        wait_until(self._driver_leads, "another driver to take over", details=self.logs)
        frozen.signal(signal.SIGCONT)

    def revive_driver(self) -> None:
        """Start another driver if the process has ended, as it does if the catalog is away when it starts."""
        if self._driver.process.poll() is not None:
            self._driver.ended()
            self._driver = self._start()

    def await_driver(self) -> None:
        """Wait until the driver runs the streams and pipes."""
        wait_until(self._driver_runs, "the driver to run streams and pipes", details=self.logs)

    def cut_power(self, choice: random.Random) -> bool:
        """End all processes of drivers, lose what none has synced, and start a driver; return False if that is not recorded."""
        disk = self.disk
        if disk is None:
            return False
        for job in (self._driver, *self._frozen):
            job.clean_up()
        self._frozen.clear()
        disk.cut(choice)
        for _ in repair_tables(self.settings.tables_uri):
            pass
        disk.begin()
        self._driver = self._start()
        return True

    @property
    def disk(self) -> Disk | None:
        """The home, of which is recorded what is synced; None if it is not."""
        record = os.environ.get("POWERCUT_RECORD")
        return None if record is None else Disk(self.settings.home_path, Path(record))

    def kill_worker(self, choice: random.Random) -> bool:
        """Kill one of the Python workers of the driver's Spark; return False if there is none."""
        workers = [process for process in self._driver.children() if is_worker(process)]
        if not workers:
            return False
        with suppress(psutil.NoSuchProcess):
            choice.choice(workers).kill()
        return True

    def restart_catalog(self) -> None:
        """Stop the catalog's database and start it again."""
        with self._server.halted():
            pass

    def close(self) -> None:
        """End all processes."""
        for job in (self._driver, *self._frozen):
            job.clean_up()

    @property
    def driver(self) -> psutil.Process:
        """The process of the driver; its JVM is a child."""
        return psutil.Process(self._driver.process.pid)

    def logs(self) -> str:
        """Return the end of the driver's log."""
        return self._driver.text[-4_000:]

    def _start(self) -> Job:
        return Job(self.settings, self._folder, "snode")

    def _driver_runs(self) -> bool:
        """Return True if the driver leads and has started its Spark application."""
        self.revive_driver()
        return "running snode" in self._driver.text

    def _driver_leads(self) -> bool:
        """Return True if the driver, and no earlier one, holds the lease."""
        self.revive_driver()
        with self.connect() as connection:
            lease = connection.session.context.catalog.leases.get("default")
            return lease is not None and f":{self._driver.process.pid}:" in lease.holder


def is_worker(process: psutil.Process) -> bool:
    """Return True for a Python worker of Spark."""
    try:
        return "pyspark.daemon" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


def is_away(error: Exception) -> bool:
    """Return True if a statement failed because something was away that comes back."""
    return isinstance(error, TransientError)


@contextmanager
def open_system(folder: Path) -> Iterator[System]:
    """Yield a system with an empty catalog; end all of it afterwards."""
    programs = find_programs()
    if programs is None:
        raise SystemExit(MISSING)
    server = Server.start(programs)
    try:
        with server.database() as url:
            settings = load(home=folder / "home", spark_master="local[2]", catalog_url=url, chunk_rows=2_000)
            with headrace.connect(settings=settings) as connection:
                connection.execute("CREATE DATABASE soak")
            system = System(folder, server, settings)
            try:
                yield system
            finally:
                system.close()
    finally:
        server.stop()
