"""Run a code host as on a kernel that lacks a guard: `python -m tests.code.kernel_without Landlock FOLDER`.

A filter of the process, which its children inherit, answers the system call of the guard as such a kernel does. It prints what
`headrace doctor` says, the results of some acts of the hostile function, and the log, as JSON.
"""

from __future__ import annotations

import ctypes
import errno
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headrace.cli.doctor import check_code_hosts
from headrace.code import landlock, seccomp
from headrace.code.hosts import HostLimits, current_hosts
from headrace.code.sandbox import PR_SET_NO_NEW_PRIVS
from headrace.code.seccomp import (
    CALLS,
    JUMP_IF_BITS,
    JUMP_IF_EQUAL,
    LOAD,
    NEW_LISTENER,
    NUMBER_AT,
    REFUSE,
    RETURN,
    SECOND_ARGUMENT_AT,
    Step,
)
from headrace.errors import Error
from headrace.settings import load
from headrace.udf import Parameters, Type
from tests.code import hostile_functions
from tests.code.hosting import log_of, rows_of, run_series, write_code

ACTS: Final = ("nothing", "read_home", "spawn", "open_connection", "start_small_threads")


def without_landlock() -> Iterator[Step]:
    yield from seccomp.refuse_if(JUMP_IF_EQUAL, landlock.CREATE_RULESET, errno.ENOSYS)


def without_seccomp() -> Iterator[Step]:
    yield from seccomp.refuse_if(JUMP_IF_EQUAL, CALLS[platform.machine()].seccomp, errno.ENOSYS)


def without_notifications() -> Iterator[Step]:
    yield JUMP_IF_EQUAL, 0, 3, CALLS[platform.machine()].seccomp
    yield LOAD, 0, 0, SECOND_ARGUMENT_AT
    yield JUMP_IF_BITS, 0, 1, NEW_LISTENER
    yield RETURN, 0, 0, REFUSE | errno.EINVAL


KERNELS: Final = {"Landlock": without_landlock, "seccomp": without_seccomp, "notifications": without_notifications}


def take_away(guard: str) -> None:
    """Let this process and its children run as on a kernel without a guard."""
    steps = [(LOAD, 0, 0, NUMBER_AT), *KERNELS[guard](), (RETURN, 0, 0, seccomp.ALLOW)]
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    assert seccomp.set_filter(CALLS[platform.machine()], iter(steps)) == 0


def main(guard: str, folder: Path) -> None:
    """Print what a host does without a guard."""
    take_away(guard)
    hosted = write_code(folder, Path(hostile_functions.__file__).read_text(), "Hostile", HostLimits())
    acts = {}
    for name in ACTS:
        try:
            acts[name] = str(run_series(hosted, Parameters([Type.INT64], {"act": name}), rows_of([1]))["value"][0])
        except Error as error:
            acts[name] = error.message
    current_hosts().close()
    sys.stdout.write(json.dumps({"doctor": check_code_hosts(load(home=folder)), "acts": acts, "log": log_of(hosted)}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
