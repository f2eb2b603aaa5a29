"""Signals that ask a process to stop, as calls in a thread of their own.

A handler in Python runs in the main thread between any two bytecodes. If that thread holds the lock of an event just then, or runs
the handler of an earlier signal, a handler that sets the event waits for itself forever.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` in another thread after each SIGTERM or SIGINT, or once after several. Only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    listener = threading.Thread(target=_listen, args=(reading, stop), name="signals", daemon=True)
    listener.start()
    previous_fd = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    previous = {number: signal.signal(number, _ignore) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_fd)
        writing.close()
        listener.join()
        reading.close()


def _listen(reading: socket.socket, stop: Callable[[], None]) -> None:
    while numbers := reading.recv(1024):
        if set(STOPPING).intersection(numbers):
            stop()


def _ignore(*_: object) -> None:
    """Do nothing: the interpreter has written the number of the signal to the socket."""
