"""Processes that outlive the command which starts them: each in a session of its own, remembered in a file, ended completely.

Every process carries the mark `HEADRACE_SYSTEM=<home>` in its environment and hands it on to its children. Whatever is found
with the mark belongs to the system of that home, also when its parent is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from headrace.runtime.login import read_json, write_private

MARK: Final = "HEADRACE_SYSTEM"
LOG_BYTES: Final = 10_000_000
# The creation time of a process is told with the resolution of the kernel's clock tick.
SAME_START: Final = 0.05


@dataclass(frozen=True, slots=True)
class Service:
    """A process that is kept by name: its command, its log, and the file that remembers it."""

    name: str
    command: tuple[str, ...]
    log: Path
    record: Path

    def process(self) -> psutil.Process | None:
        """The process as remembered, None when it has ended. A number that another process has got since is not mistaken for it."""
        known = read_json(self.record)
        try:
            process = psutil.Process(int(known["pid"]))
            same = abs(process.create_time() - float(known["started"])) < SAME_START
        except (KeyError, psutil.Error):
            return None
        return process if same and lives(process) else None

    def start(self, environment: Mapping[str, str], folder: Path) -> psutil.Process:
        """Start it as the leader of a session, its output going to the log."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                self.command,
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        process = psutil.Process(child.pid)
        write_private(self.record, {"pid": child.pid, "started": process.create_time()})
        return process

    def tail(self, lines: int = 15) -> str:
        """The last lines of the log."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""


def marked(home: Path) -> list[psutil.Process]:
    """Every living process with the mark of a home, save this one and those it runs under."""
    above = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid not in above and lives(process) and process.environ().get(MARK) == str(home):
                found.append(process)
    return found


def family(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """The processes and all below them, once each."""
    found: dict[int, psutil.Process] = {}
    for process in processes:
        with contextlib.suppress(psutil.Error):
            found |= {member.pid: member for member in (process, *process.children(recursive=True))}
    return list(found.values())


def end(processes: Sequence[psutil.Process], sign: signal.Signals, wait_s: float) -> list[psutil.Process]:
    """Send a signal to all and wait; those that are still alive."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(sign)
    deadline = time.monotonic() + wait_s
    while (left := [process for process in processes if lives(process)]) and time.monotonic() < deadline:
        psutil.wait_procs(left, timeout=0.1)
    return left


def lives(process: psutil.Process) -> bool:
    """Whether a process has not ended; one that waits to be reaped has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def is_driver(process: psutil.Process) -> bool:
    """Whether a process is the Python half of a Spark driver started here."""
    with contextlib.suppress(psutil.Error):
        command = process.cmdline()
        return any(Path(part).parent.name == "spark_jobs" for part in command[1:3]) and "python" in Path(command[0]).name
    return False


def wait_for(condition: Callable[[], bool], wait_s: float, pause_s: float = 0.25) -> bool:
    """Look until a condition holds; False when it did not within the time."""
    deadline = time.monotonic() + wait_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen at a port."""
    with socket.socket() as probe:
        # As servers do: a port whose last connections are winding up is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A loopback port that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def owner_of(port: int) -> str:
    """Who listens at a port, as far as this user may see."""
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
                process = psutil.Process(connection.pid)
                return f"{process.name()} (process {process.pid})"
    return "another process"
