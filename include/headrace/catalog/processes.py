"""Processes as holders of claims: a name for each, and whether the process of a name has ended."""

from __future__ import annotations

import hashlib
import os
import re
import socket
from pathlib import Path
from typing import Final

IDENTITY: Final = re.compile(r"(?P<host>[^\s:]{1,253}):(?P<pid>\d{1,20}):(?P<machine>[0-9a-f]{12})\.(?P<start>\d+)")
PROCESSES: Final = Path("/proc")
CONNECTION: Final = "connection"
"""How the name of a holder begins that is a connection, which runs jobs only while it settles."""
ENDED_STATES: Final = ("Z", "X")
"""A zombie, and a process that is being removed."""


def process_name() -> str:
    """Return the name of this process for display: host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


def process_identity() -> str:
    """Return a name that no other process has had: host, process id, machine, and start.

    Without /proc it is only `process_name()`.
    """
    machine, status = machine_id(), read_status(os.getpid())
    return process_name() if machine is None or status is None else f"{process_name()}:{machine}.{status[1]}"


def has_ended(holder: str) -> bool:
    """Return True if a holder's name contains the identity of a process that ran on this machine and has ended.

    False if that is unknown: processes of other machines, and of other containers, cannot be seen from here.
    """
    identity = IDENTITY.search(holder)
    if identity is None or (identity["host"], identity["machine"]) != (socket.gethostname(), machine_id()):
        return False
    pid = int(identity["pid"])
    if not exists(pid):
        return True
    status = read_status(pid)
    return status is not None and (status[0] in ENDED_STATES or status[1] != int(identity["start"]))


def machine_id() -> str | None:
    """Return what distinguishes this machine, since it was started, and this container from others; None if unknown.

    Hosts may have equal names, and containers equal process ids.
    """
    try:
        boot = (PROCESSES / "sys/kernel/random/boot_id").read_text().strip()
        namespace = (PROCESSES / "self/ns/pid").stat().st_ino
    except OSError:
        return None
    return hashlib.sha256(f"{boot} {namespace}".encode()).hexdigest()[:12]


def exists(pid: int) -> bool:
    """Return whether there is a process with an id, be it another user's."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def read_status(pid: int) -> tuple[str, int] | None:
    """Return the state of a process, and its start in clock ticks since the machine was started; None if unknown."""
    try:
        text = (PROCESSES / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name of the program, in parentheses, may contain anything.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])
