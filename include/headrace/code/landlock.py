"""Rules for the files that a code host may read and write, which the kernel enforces (Landlock, since Linux 5.13).

They also keep the host from other processes of the same user: from their memory and environment, and, since Linux 6.12, from
sending them signals. Nothing may be executed, only loaded. Since Linux 6.7, TCP is closed here as well.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import Final

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG: Final = 1
PATH_BENEATH: Final = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
ALL_OF_FIRST_VERSION: Final = (1 << 13) - 1
FURTHER_BY_VERSION: Final = {2: 1 << 13, 3: TRUNCATE, 5: 1 << 15}
"""Rights that later versions know: to link between folders, to truncate, to control devices."""
PORTS_SINCE: Final = 4
BIND_AND_CONNECT: Final = 3
SCOPES_SINCE: Final = 6
SCOPE_SOCKETS_AND_SIGNALS: Final = 3
FOR_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | 1 << 15
READ: Final = READ_FILE | READ_DIR


class Ruleset(ctypes.Structure):
    """What a set of rules is about."""

    _fields_ = [("files", ctypes.c_uint64), ("ports", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class PathRule(ctypes.Structure):
    """Rights to what is below a folder, or to a file."""

    _pack_ = 1
    _fields_ = [("rights", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def restrict(readable: Iterable[str], writable: Iterable[str], *, network: bool) -> bool:
    """Forbid this process all files but some and those below some folders, and all TCP unless it has the network.

    Returns:
        Whether the system can do it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(CREATE_RULESET, None, 0, VERSION_FLAG)
    if version < 1:
        return False
    rights = ALL_OF_FIRST_VERSION
    for since, right in FURTHER_BY_VERSION.items():
        rights |= right if version >= since else 0
    scopes = SCOPE_SOCKETS_AND_SIGNALS if version >= SCOPES_SINCE else 0
    ports = BIND_AND_CONNECT if version >= PORTS_SINCE and not network else 0
    attributes = Ruleset(rights, ports, scopes)
    ruleset = libc.syscall(CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0)
    if ruleset < 0:
        return False
    for path in readable:
        allow(libc, ruleset, path, READ & rights)
    for path in writable:
        allow(libc, ruleset, path, rights & ~EXECUTE)
    is_restricted: bool = libc.syscall(RESTRICT_SELF, ruleset, 0) == 0
    os.close(ruleset)
    return is_restricted


def allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    """Add a rule for a file or folder. One that does not exist needs none.

    A rule is about an inode, and those of `/proc` last as long as they are open, so they stay open.
    """
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        rights &= FOR_FILES
    rule = PathRule(rights, fd)
    libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
    if not path.startswith("/proc/"):
        os.close(fd)
