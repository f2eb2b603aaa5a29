"""What a code host needs of the process that started it: a log for its output, and leave to start threads.

The kernel asks this process for each thread that a host starts, by a descriptor that the host has sent. No limit of the kernel
counts the threads of one process, and most do not hold for root.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import threading
from collections.abc import Callable
from typing import Final

from headrace.code.logs import Log

MAX_THREADS: Final = 64
READ_BYTES: Final = 1 << 16
MAX_DRAINED_BYTES: Final = 1 << 20
"""What `drain` takes at once: threads of user code may print for ever."""
END_WAIT_S: Final = 1.0

RECEIVE, ANSWER = 0xC0502100, 0xC0182101
"""Requests of ioctl for a descriptor of seccomp's notifications."""
NOTIFICATION_BYTES: Final = 80
NOTIFICATION_ID: Final = struct.Struct("<Q")
RESPONSE: Final = struct.Struct("<QqiI")
"""The id, the result of the call, a negative error number, and flags."""
CONTINUE: Final = 1


class Attendant:
    """Attends to one host in a thread, which ends with the host."""

    def __init__(self, pid: int, output_fd: int, handover: socket.socket, log: Log) -> None:
        """Copy what comes from `output_fd` to a log, and limit threads by the descriptor that comes through a socket."""
        self._pid, self._log, self._output_fd = pid, log, output_fd
        os.set_blocking(output_fd, False)
        self._handlers: dict[int, Callable[[int], bool]] = {output_fd: self._copy, handover.detach(): self._take_listener}
        self._poller = select.poll()
        for fd in self._handlers:
            self._poller.register(fd, select.POLLIN)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._attend, name=f"code-host-{pid}", daemon=True)
        self._thread.start()

    def drain(self) -> None:
        """Write to the log what the host has printed up to now."""
        for _ in range(MAX_DRAINED_BYTES // READ_BYTES):
            if not self._copy(self._output_fd, waits=False):
                return

    def finish(self) -> None:
        """Wait for the thread of a host that has ended."""
        self._thread.join(END_WAIT_S)

    def abandon(self) -> None:
        """Close the descriptors in a process that was forked from the one that has started the host."""
        for fd in self._handlers:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _attend(self) -> None:
        while self._handlers:
            for fd, _ in self._poller.poll():
                if not self._handlers[fd](fd):
                    self._poller.unregister(fd)
                    with self._lock:
                        del self._handlers[fd]
                        os.close(fd)
        self._log.close()

    def _copy(self, fd: int, *, waits: bool = True) -> bool:
        """Copy some output to the log; return whether there may be more."""
        with self._lock:
            if fd not in self._handlers:
                return False
            try:
                output = os.read(fd, READ_BYTES)
            except BlockingIOError:
                return waits
            if output:
                self._log.write(output)
            return bool(output)

    def _take_listener(self, fd: int) -> bool:
        """Receive the descriptor of the notifications. The socket is not needed any more."""
        with socket.socket(fileno=os.dup(fd)) as handover, contextlib.suppress(OSError):
            size = array.array("i").itemsize
            _, messages, _, _ = handover.recvmsg(1, socket.CMSG_SPACE(size), socket.MSG_CMSG_CLOEXEC)
            for _, _, content in messages:
                (listener,) = array.array("i", content)
                self._handlers[listener] = self._decide
                self._poller.register(listener, select.POLLIN)
        return False

    def _decide(self, listener: int) -> bool:
        """Let the host start a thread unless it has too many; return whether it still runs."""
        poller = select.poll()
        poller.register(listener, select.POLLIN)
        event = next((event for _, event in poller.poll(0)), 0)
        if not event & select.POLLIN:
            return not event & select.POLLHUP
        notification = bytearray(NOTIFICATION_BYTES)
        with contextlib.suppress(OSError):  # the thread that asks may be killed meanwhile
            fcntl.ioctl(listener, RECEIVE, notification)
            threads = os.stat(f"/proc/{self._pid}/task").st_nlink - 2
            error, flags = (0, CONTINUE) if threads < MAX_THREADS else (-errno.EAGAIN, 0)
            fcntl.ioctl(listener, ANSWER, RESPONSE.pack(*NOTIFICATION_ID.unpack_from(notification), 0, error, flags))
        return True


def hand_over(handover_fd: int, listener: int) -> None:
    """Send the descriptor of the notifications to the parent, and close it: user code could answer with it. Runs in code hosts."""
    with socket.socket(fileno=handover_fd) as handover:
        if listener >= 0:
            handover.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
            os.close(listener)
