"""Keep merges by Spark, whose commits on a local disk are no compare-and-set, apart from writers that lack the table's lock.

The lock is a file of the operating system beside the tables, so that it works while the catalog, whose locks writers otherwise use,
cannot be reached. A process that dies releases it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import TransientError
from headrace.storage.delta.log_entries import is_local


@contextmanager
def merging(root: str, name: str) -> Iterator[None]:
    """Wait for the writers of what `name` locks that do not have its lock, and keep others out."""
    with _open(root, name) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


@contextmanager
def writing_without_lock(root: str, name: str) -> Iterator[None]:
    """Keep Spark from merging into what `name` locks; `TransientError` if it is merging."""
    if not is_local(root):  # where Spark does not merge, or its commits are a compare-and-set
        yield
        return
    with _open(root, name) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TransientError(f"{name} is locked by a load that Spark merges", hint="try again when it is done") from None
        yield


@contextmanager
def _open(root: str, name: str) -> Iterator[int]:
    digest = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    descriptor = os.open(os.path.join(root, f".merging-{digest}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
