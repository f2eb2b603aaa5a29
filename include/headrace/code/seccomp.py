"""A filter of the system calls of a code host: no child processes, no signals to others, no look into others' memory, no sockets.

A process without children cannot be a fork bomb, and nothing of it survives its end. With the network, sockets are those of IP: a
filter does not see the path of a Unix socket, so these exist as pairs only. The filter is a small program for the kernel's packet
filter, which reads the number of the call and its arguments. It holds for all threads, and nothing can take it away.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

PR_SET_PDEATHSIG: Final = 1
SET_FILTER: Final = 1
NEW_LISTENER: Final = 1 << 3
EPERM, ENOSYS, ENETDOWN = 1, 38, 100
AF_INET, AF_INET6 = 2, 10
SOCK_STREAM, SOCKET_TYPES = 1, 0xF
CLONE_THREAD: Final = 0x10000
X32_CALLS: Final = 0x40000000
"""The first number of the calls of a second interface of x86-64, which would bypass a filter by number."""

LOAD, AND, JUMP_IF_EQUAL, JUMP_IF_AT_LEAST, JUMP_IF_BITS, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
NUMBER_AT, ARCHITECTURE_AT, ARGUMENT_AT, SECOND_ARGUMENT_AT = 0, 4, 16, 24
"""Offsets in the kernel's description of a call. Of an argument, the lower half counts."""
ALLOW: Final = 0x7FFF0000
ASK: Final = 0x7FC00000
"""Let the process that has the listener decide."""
REFUSE: Final = 0x00050000
"""Return the error number in the lower bits to the caller."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The numbers of system calls of an architecture."""

    audit_number: int
    seccomp: int
    forks: tuple[int, ...]
    clone: int
    signals: tuple[int, ...]
    prctl: int
    socket: int
    socketpair: int
    programs: tuple[int, ...]
    prlimit: int
    foreign: tuple[int, ...]
    unbounded: tuple[int, ...]
    priorities: tuple[int, ...]

    CLONE3 = 435
    # pidfd_send_signal, io_uring_setup (which would make calls past the filter), pidfd_open, pidfd_getfd
    COMMON = (424, 425, 434, 438)


# forks: fork, vfork. signals, which name a process first: kill, tgkill. foreign: tkill, rt_sigqueueinfo, rt_tgsigqueueinfo, ptrace,
# process_vm_readv, process_vm_writev, unshare, setns, bpf, keyctl, add_key, request_key, userfaultfd, perf_event_open, mount.
# programs: execve, execveat.
# unbounded, memory that limits do not count or that outlives the process: memfd_create, shmget, msgget, semget, mq_open.
# priorities, also of others: sched_setaffinity, setpriority, sched_setscheduler, sched_setparam, sched_setattr, ioprio_set,
# migrate_pages, move_pages.
CALLS: Final = {
    "x86_64": Calls(
        0xC000003E,
        seccomp=317,
        forks=(57, 58),
        clone=56,
        signals=(62, 234),
        prctl=157,
        socket=41,
        socketpair=53,
        programs=(59, 322),
        prlimit=302,
        foreign=(200, 129, 297, 101, 310, 311, 272, 308, 321, 250, 248, 249, 323, 298, 165),
        unbounded=(319, 29, 68, 64, 240),
        priorities=(203, 141, 144, 142, 314, 251, 256, 279),
    ),
    "aarch64": Calls(
        0xC00000B7,
        seccomp=277,
        forks=(),
        clone=220,
        signals=(129, 131),
        prctl=167,
        socket=198,
        socketpair=199,
        programs=(221, 281),
        prlimit=261,
        foreign=(130, 138, 240, 117, 270, 271, 97, 268, 280, 219, 217, 218, 282, 241, 40),
        unbounded=(279, 194, 186, 190, 180),
        priorities=(122, 140, 119, 118, 274, 30, 238, 239),
    ),
}


class Instruction(ctypes.Structure):
    """One instruction: what it does, how many to skip if its test is true or false, and a constant."""

    _fields_ = [("code", ctypes.c_ushort), ("if_true", ctypes.c_ubyte), ("if_false", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class Program(ctypes.Structure):
    """A filter as the kernel takes it."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(Instruction))]


Step = tuple[int, int, int, int]


def install(*, network: bool) -> tuple[bool, int]:
    """Install the filter for this process, which has to have given up new privileges.

    Returns:
        Whether it is installed, and a descriptor for those who decide which threads may be started; -1 if all may.
    """
    calls = CALLS.get(platform.machine())
    if calls is None:
        return False, -1
    listener = set_filter(calls, program(calls, os.getpid(), network=network, threads=ASK), NEW_LISTENER)
    if listener >= 0:
        return True, listener
    return set_filter(calls, program(calls, os.getpid(), network=network, threads=ALLOW)) == 0, -1


def set_filter(calls: Calls, steps: Iterator[Step], flags: int = 0) -> int:
    """Install a filter; return what the system call does, -1 for a failure."""
    instructions = [Instruction(*step) for step in steps]
    compiled = Program(len(instructions), (Instruction * len(instructions))(*instructions))
    result: int = ctypes.CDLL(None).syscall(calls.seccomp, SET_FILTER, flags, ctypes.byref(compiled))
    return result


def program(calls: Calls, pid: int, *, network: bool, threads: int) -> Iterator[Step]:
    """Yield the instructions of the filter for a process; `threads` is what to do when it starts one."""
    yield LOAD, 0, 0, ARCHITECTURE_AT
    yield JUMP_IF_EQUAL, 1, 0, calls.audit_number
    yield RETURN, 0, 0, REFUSE | EPERM
    yield LOAD, 0, 0, NUMBER_AT
    yield from refuse_if(JUMP_IF_AT_LEAST, X32_CALLS)
    yield from refuse_if(JUMP_IF_EQUAL, calls.CLONE3, ENOSYS)  # the C library then calls clone, whose flags can be read
    refused = (*calls.forks, *calls.programs, *calls.foreign, *calls.unbounded, *calls.priorities, *calls.COMMON)
    for number in refused:
        yield from refuse_if(JUMP_IF_EQUAL, number)
    yield from check_socket(calls.socket, network=network)
    yield from check_pair(calls.socketpair)
    yield from check_argument(calls.clone, (JUMP_IF_BITS, 1, 0, CLONE_THREAD), threads)
    yield from check_argument(calls.prctl, (JUMP_IF_EQUAL, 0, 1, PR_SET_PDEATHSIG))
    yield from check_argument(calls.prlimit, (JUMP_IF_EQUAL, 1, 0, 0))
    for number in calls.signals:
        yield from check_argument(number, (JUMP_IF_EQUAL, 1, 0, pid))
    yield RETURN, 0, 0, ALLOW


def refuse_if(test: int, value: int, error: int = EPERM) -> Iterator[Step]:
    yield test, 0, 1, value
    yield RETURN, 0, 0, REFUSE | error


def check_socket(number: int, *, network: bool) -> Iterator[Step]:
    """Yield steps that refuse all sockets but those of IP, and these, too, without the network: then it is down."""
    yield JUMP_IF_EQUAL, 0, 5, number
    yield LOAD, 0, 0, ARGUMENT_AT
    yield JUMP_IF_EQUAL, 2, 0, AF_INET
    yield JUMP_IF_EQUAL, 1, 0, AF_INET6
    yield RETURN, 0, 0, REFUSE | EPERM
    yield RETURN, 0, 0, ALLOW if network else REFUSE | ENETDOWN


def check_pair(number: int) -> Iterator[Step]:
    """Yield steps that refuse pairs of sockets unless they are streams: others can send to any socket of Unix."""
    yield JUMP_IF_EQUAL, 0, 5, number
    yield LOAD, 0, 0, SECOND_ARGUMENT_AT
    yield AND, 0, 0, SOCKET_TYPES
    yield JUMP_IF_EQUAL, 1, 0, SOCK_STREAM
    yield RETURN, 0, 0, REFUSE | EPERM
    yield RETURN, 0, 0, ALLOW


def check_argument(number: int, test: Step, action: int = ALLOW) -> Iterator[Step]:
    """Yield steps that refuse a call unless the test of its first argument skips a step, and take an action otherwise."""
    yield JUMP_IF_EQUAL, 0, 4, number
    yield LOAD, 0, 0, ARGUMENT_AT
    yield test
    yield RETURN, 0, 0, REFUSE | EPERM
    yield RETURN, 0, 0, action
