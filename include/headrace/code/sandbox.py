"""What a code host gives up before it loads user code: memory, large files, privileges, child processes, files, the network."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.code import landlock, seccomp

PR_SET_PDEATHSIG: Final = 1
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAPBSET_DROP: Final = 24
LAST_CAPABILITY: Final = 63
CAPABILITY_VERSION: Final = 0x20080522
OWN_BYTES: Final = 384 << 20
"""Address space of Python, Arrow and NumPy: mostly files, and little of it in memory."""
MAX_OPEN_FILES: Final = 256
SYSTEM_FOLDERS: Final = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/sys/devices/system", "/run/systemd/resolve")
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


WITHOUT: Final = {
    "Landlock": "without Landlock, code may read and write all files of the user",
    "seccomp": "without seccomp, code may start processes, open connections, and send signals to processes of the user",
}
"""Guards that the system may lack, and what is possible then."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """The limits of a host: sizes in bytes, and folders that it may read, or also write."""

    parent: int
    memory_bytes: int
    file_bytes: int
    network: bool
    readable: Sequence[str]
    writable: Sequence[str]


def confine(confinement: Confinement) -> tuple[str, ...]:
    """Confine this process for good, and return the guards of `WITHOUT` that the system lacks."""
    limit_resources(confinement)
    if sys.platform != "linux":
        return tuple(WITHOUT)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != confinement.parent:  # it has ended before the line above
        os._exit(0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    drop_capabilities(libc)
    readable = (*SYSTEM_FOLDERS, *DEVICES, sys.prefix, sys.base_prefix, *confinement.readable)
    guards = {
        "Landlock": landlock.restrict_files(readable, ("/dev/null", *confinement.writable)),
        "seccomp": seccomp.install(network=confinement.network),
    }
    return tuple(name for name, holds in guards.items() if not holds)


def limit_resources(confinement: Confinement) -> None:
    """Limit address space, the size of files, and the number of open ones; leave no core files."""
    limits = {
        resource.RLIMIT_AS: OWN_BYTES + confinement.memory_bytes,
        resource.RLIMIT_FSIZE: confinement.file_bytes,
        resource.RLIMIT_NOFILE: MAX_OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }
    for kind, wanted in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))


def drop_capabilities(libc: ctypes.CDLL) -> None:
    """Give up the rights of root, also for programs that this process might become."""
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    libc.capset(header, (ctypes.c_uint32 * 6)())
