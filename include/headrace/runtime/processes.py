"""Processes that outlive the command that starts them: each in its own session, recorded in a file, and stopped completely.

Every process has `HEADRACE_SYSTEM=<home>` in its environment, which its children inherit. Any process with this variable belongs
to the system of that home, even if its parent has died.
"""

from __future__ import annotations

import contextlib
import os
import random
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

SYSTEM_VARIABLE: Final = "HEADRACE_SYSTEM"
MAX_LOG_BYTES: Final = 10_000_000
# The creation time of a process has the resolution of the kernel's clock tick.
START_TOLERANCE_S: Final = 0.05
LISTENING_PORTS: Final = range(20_000, 32_768)
"""Ports that servers may have: below those that Linux uses for outgoing connections."""


@dataclass(frozen=True, slots=True)
class Service:
    """A named background process: its command, its log, and the file that records its process id."""

    name: str
    command: tuple[str, ...]
    log: Path
    record: Path

    def process(self) -> psutil.Process | None:
        """Return the recorded process; None if it has ended. Another process that has got the same id is not mistaken for it."""
        recorded = read_json(self.record)
        try:
            process = psutil.Process(int(recorded["pid"]))
            is_same = abs(process.create_time() - float(recorded["started"])) < START_TOLERANCE_S
        except (KeyError, psutil.Error):
            return None
        return process if is_same and is_running(process) else None

    def start(self, environment: Mapping[str, str], folder: Path) -> psutil.Process:
        """Start the process as a session leader, with its output going to the log."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
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
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""


def find_marked(home: Path) -> list[psutil.Process]:
    """Return all live processes of a home, except this one and its ancestors."""
    ancestors = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid not in ancestors and is_running(process) and process.environ().get(SYSTEM_VARIABLE) == str(home):
                members.append(process)
    return members


def family(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    members: dict[int, psutil.Process] = {}
    for process in processes:
        with contextlib.suppress(psutil.Error):
            members |= {member.pid: member for member in (process, *process.children(recursive=True))}
    return list(members.values())


def end_processes(processes: Sequence[psutil.Process], signal_number: signal.Signals, wait_s: float) -> list[psutil.Process]:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(signal_number)
    deadline = time.monotonic() + wait_s
    while (alive := [process for process in processes if is_running(process)]) and time.monotonic() < deadline:
        psutil.wait_procs(alive, timeout=0.1)
    return alive


def is_running(process: psutil.Process) -> bool:
    """Return True if a process has not ended; a zombie has."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def is_driver(process: psutil.Process) -> bool:
    """Return True if a process is the Python half of one of our Spark drivers."""
    with contextlib.suppress(psutil.Error):
        command = process.cmdline()
        return any(Path(part).parent.name == "spark_jobs" for part in command[1:3]) and "python" in Path(command[0]).name
    return False


def wait_for(condition: Callable[[], bool], wait_s: float) -> bool:
    """Wait until a condition is true; return False if the time is over."""
    deadline = time.monotonic() + wait_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.25)
    return True


def is_port_free(port: int) -> bool:
    with socket.socket() as probe:
        # Like servers do: a port whose last connections are in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def find_free_port() -> int:
    """Return a free loopback port. It is not one that systems use for outgoing connections, which might take it meanwhile."""
    candidates = random.sample(LISTENING_PORTS, len(LISTENING_PORTS))
    return next(port for port in candidates if is_port_free(port))


def describe_port_owner(port: int) -> str:
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr[1:] == (port,) and connection.pid:
                process = psutil.Process(connection.pid)
                return f"{process.name()} (process {process.pid})"
    return "another process"
