"""The scripts of `spark_jobs/` as processes of their own, which tests stop, freeze and kill."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import psutil

from headrace.settings import Settings
from tests.support.waiting import wait_until

QUICK: Final = {"HEADRACE_LEASE_MS": "3000", "HEADRACE_HEARTBEAT_MS": "200", "HEADRACE_DRIVER_MEMORY": "1g"}
"""Settings with which a dead driver is replaced within seconds."""


class Job:
    """A script as a process, with its log in a file."""

    def __init__(self, settings: Settings, folder: Path, script: str, *arguments: str, faults: str = "") -> None:
        self.log = folder / f"{script}-{time.monotonic_ns()}.log"
        environment = os.environ | QUICK | {"HEADRACE_HOME": str(settings.home_path), "HEADRACE_FAILPOINTS": faults}
        environment |= {"HEADRACE_SPARK_MASTER": settings.spark_master, "HEADRACE_CATALOG_URL": settings.catalog_url}
        environment["PYTHONPATH"] = str(settings.project / "include")  # the project may be another revision
        command = [sys.executable, str(settings.project / "spark_jobs" / f"{script}.py"), *arguments]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    @property
    def text(self) -> str:
        """The log so far."""
        return self.log.read_text()

    def signal(self, number: int) -> None:
        """Send a signal to the process, not to its JVM."""
        self.process.send_signal(number)

    def ended(self) -> int:
        """Return the exit code, once the process and its JVM are gone."""
        family = [self.process.pid, *(child.pid for child in self.children())]
        wait_until(lambda: self.process.poll() is not None, f"{self.log.stem} to end", details=lambda: self.text[-4_000:])
        wait_until(lambda: not any(is_alive(pid) for pid in family), "the JVM of a job that has ended to end too")
        return self.process.returncode

    def children(self) -> list[psutil.Process]:
        """Return the JVM and its workers."""
        try:
            return psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def clean_up(self) -> None:
        """Kill whatever is left of it."""
        for child in self.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        self.process.kill()
        self.process.wait(10)


def is_alive(pid: int) -> bool:
    """Return True if a process exists and is not a zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
