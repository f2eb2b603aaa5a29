"""Hosts of jobs without a driver."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.runtime.job_host import JobHost


@contextmanager
def polled(host: JobHost) -> Iterator[JobHost]:
    """Have a thread poll a host as a driver does, during a `with` block; close the host at its end."""
    stopping = threading.Event()

    def poll() -> None:
        while not stopping.is_set():
            host.poll(0.1)
            host.wait(0.02)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield host
    finally:
        stopping.set()
        host.stop()
        thread.join()
        host.close()
