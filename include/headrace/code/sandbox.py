"""What a code host gives up before it loads user code: memory, large files, privileges, child processes, files, the network.

bubblewrap and nsjail would do this with namespaces, which hide what exists as well. They start a process in about 50 ms more, and
need user namespaces, which the default profiles of Docker and Kubernetes refuse: there, nothing would be left. Landlock and seccomp
work for every user, also in these containers.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
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
LIBRARY_FOLDERS: Final = ("lib", "lib32", "lib64", "share/zoneinfo")
"""What is open below `/usr`, `/usr/local` and the folders of Python."""
SYSTEM_FILES: Final = (
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf",
    "/etc/crypto-policies/back-ends",
    "/lib",
    "/lib64",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/self/fd",
    "/proc/self/maps",
    "/proc/self/stat",
    "/proc/self/statm",
    "/proc/self/status",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
)
"""What libraries read on every system, beside code and data in the folders above. A file that is not here is closed."""
NETWORK_FILES: Final = (
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    "/etc/ssl/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
)
"""What finds hosts and verifies them, for code that has the network."""


WITHOUT: Final = {
    "Landlock": "without Landlock, code may read and write all files of the user",
    "seccomp": "without seccomp, code may start processes, open connections, and send signals to processes of the user",
    "notifications": "without notifications of seccomp, code may start any number of threads",
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


def confine(confinement: Confinement, hand_over: Callable[[int], None]) -> tuple[str, ...]:
    """Confine this process for good, and return the guards of `WITHOUT` that the system lacks.

    Args:
        confinement: The limits.
        hand_over: Takes a descriptor for the parent, which decides by it which threads may be started; -1 if there is none.
    """
    limit_resources(confinement)
    if sys.platform != "linux":
        hand_over(-1)
        return tuple(WITHOUT)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != confinement.parent:  # it has ended before the line above
        os._exit(0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    drop_capabilities(libc)
    readable = (*system_files(network=confinement.network), *confinement.readable)
    has_landlock = landlock.restrict(readable, ("/dev/null", *confinement.writable), network=confinement.network)
    has_seccomp, listener = seccomp.install(network=confinement.network)
    hand_over(listener)
    guards = {"Landlock": has_landlock, "seccomp": has_seccomp, "notifications": listener >= 0}
    return tuple(name for name, holds in guards.items() if not holds)


def system_files(*, network: bool) -> Iterator[str]:
    """Yield the files and folders of the system that code may read, which need not exist."""
    for prefix in {"/usr", "/usr/local", sys.prefix, sys.base_prefix}:
        yield from (f"{prefix}/{folder}" for folder in LIBRARY_FOLDERS)
    yield from SYSTEM_FILES
    yield from NETWORK_FILES if network else ()


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
