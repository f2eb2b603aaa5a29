"""Mutual exclusion between threads and processes, by name: lock files next to SQLite, advisory locks on PostgreSQL.

The operating system or the server releases the locks of a process that dies.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from sqlalchemy import Connection, Engine, exc, text

from headrace.catalog.processes import process_name
from headrace.catalog.store import translated
from headrace.errors import ConfigurationError, OperationalError, TransientError

# Longer than any statement holds a lock, and as long as a user will wait. A load may hold one longer; other writers then get an
# error that says so.
LOCK_MS: Final = 60_000
# How often a waiting process checks the file; a commit to a Delta table takes about 7 ms.
POLL_SECONDS: Final = 0.005
LOCK_NOT_AVAILABLE: Final = "55P03"
TURN_SECONDS: Final = 10.0
"""How long a statement waits for a lock. It is repeated, since a server that takes much longer to answer counts as hanging."""
PERMANENT: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG})
"""Errors of a file that last, unlike too many open files, or a disk that fails or is full."""
HOLDER_BYTES: Final = 320
"""The longest name of a host, and a process id."""


class _Turn:
    """The thread of this process that holds the lock, and how often."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.depth = 0


_TURNS: Final = WeakValueDictionary[tuple[str, str], _Turn]()
"""Those of locks that threads hold or wait for."""
_FINDING: Final = threading.Lock()
_OPEN: Final[set[int]] = set()
"""The open files of locks."""
UNUSED_SECONDS: Final = 86_400.0
"""A file of a lock that was not held for so long goes: chunks and dropped tables have locks of their own."""


def _forget_locks() -> None:
    """Forget locks in a child: the threads that had a turn do not live there, and open files would keep the parent's locks."""
    _TURNS.clear()
    for descriptor in _OPEN:
        os.close(descriptor)
    _OPEN.clear()
    _FINDING.release()


os.register_at_fork(before=_FINDING.acquire, after_in_parent=_FINDING.release, after_in_child=_forget_locks)


class Locks(ABC):
    """The locks of one catalog; `location` distinguishes catalogs that this process has open."""

    def __init__(self, location: str) -> None:
        self._location = location

    @contextmanager
    def hold(self, name: str, timeout_ms: int = LOCK_MS) -> Iterator[None]:
        """Hold a lock, reentrantly within a thread. Raise `TransientError` naming the holder on timeout."""
        deadline = time.monotonic() + timeout_ms / 1000
        with _FINDING:
            turn = _TURNS.setdefault((self._location, name), _Turn())
        if not turn.mutex.acquire(timeout=timeout_ms / 1000):
            raise busy_error(name, timeout_ms, f"another thread of {process_name()}")
        try:
            with nullcontext() if turn.depth else self._exclude(name, timeout_ms, deadline):
                turn.depth += 1
                try:
                    yield
                finally:
                    turn.depth -= 1
        finally:
            turn.mutex.release()

    @abstractmethod
    def remove_unused(self, seconds: float = UNUSED_SECONDS) -> None:
        """Remove what is left of locks that were not held for some time."""

    @abstractmethod
    def _exclude(self, name: str, timeout_ms: int, deadline: float) -> AbstractContextManager[None]:
        """Exclude other processes, waiting until `deadline` of the monotonic clock."""


def busy_error(name: str, timeout_ms: int, holder: str) -> TransientError:
    """Return the error for a lock that could not be acquired in time."""
    return TransientError(f"{name} has been locked for {timeout_ms / 1000:g} s by {holder}", hint="try again when it is done")


class FileLocks(Locks):
    """One file per name in a directory, which is locked. Its content names the last holder, for messages."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self._folder = folder

    @contextmanager
    def _exclude(self, name: str, timeout_ms: int, deadline: float) -> Iterator[None]:
        path = self._folder / f"{file_name(name)}.lock"
        is_held = False
        while not is_held:
            with _lock_errors(path):
                descriptor = self._open(path)
            _OPEN.add(descriptor)
            try:
                with _lock_errors(path):
                    if not _wait(descriptor, deadline):
                        raise busy_error(name, timeout_ms, _read(descriptor))
                    # A file that was removed while this process waited for it excludes no one.
                    is_held = _is_file_of(descriptor, path)
                if is_held:
                    yield
            finally:
                _OPEN.discard(descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                os.close(descriptor)

    def remove_unused(self, seconds: float = UNUSED_SECONDS) -> None:
        """Remove the files of locks that were not held for some time."""
        for path in self._folder.glob("*.lock"):
            with suppress(FileNotFoundError), _lock_errors(path), open(path, "rb") as file:
                if time.time() - os.fstat(file.fileno()).st_mtime > seconds and _try_lock(file.fileno()):
                    path.unlink()

    def _open(self, path: Path) -> int:
        """Open a lock's file."""
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:
            self._folder.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)


@contextmanager
def _lock_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"lock {path} cannot be used: {error.strerror}"
        if error.errno in PERMANENT:
            raise ConfigurationError(message, hint="may this user write there?") from None
        raise OperationalError(message, hint="check the limit of open files, and the disk") from None


def _wait(descriptor: int, deadline: float) -> bool:
    """Lock a file, and write this process's name to it; return False if other processes have it locked until the deadline."""
    while not _try_lock(descriptor):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    os.pwrite(descriptor, process_name().encode().ljust(HOLDER_BYTES), 0)
    return True


def _is_file_of(descriptor: int, path: Path) -> bool:
    """Return whether a path still leads to an open file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _try_lock(descriptor: int) -> bool:
    """Lock a file unless another process has done so."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def file_name(name: str) -> str:
    """Return a readable file name that is unique per name."""
    digest = hashlib.blake2b(name.encode(), digest_size=6).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '-', name)[:60]}-{digest}"


def _read(descriptor: int) -> str:
    """Return the holder that a lock's file names."""
    return os.pread(descriptor, HOLDER_BYTES, 0).decode(errors="replace").strip() or "another process"


class AdvisoryLocks(Locks):
    """Advisory locks of a PostgreSQL database, each on its own connection, with which the server releases it."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.url.render_as_string())
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")

    def remove_unused(self, seconds: float = UNUSED_SECONDS) -> None:
        """Do nothing: the server forgets a lock with its release."""

    @contextmanager
    def _exclude(self, name: str, timeout_ms: int, deadline: float) -> Iterator[None]:
        with translated(self._engine.url):
            connection = self._engine.connect()
        try:
            with translated(self._engine.url):
                if not _acquire(connection, name, deadline):
                    raise busy_error(name, timeout_ms, _holder(connection, name))
            yield
        finally:
            _release(connection)


def advisory_key(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def _acquire(connection: Connection, name: str, deadline: float) -> bool:
    while (rest := deadline - time.monotonic()) > TURN_SECONDS:
        if _try_acquire(connection, name, TURN_SECONDS):
            return True
    return _try_acquire(connection, name, rest)


def _try_acquire(connection: Connection, name: str, seconds: float) -> bool:
    milliseconds = max(1, round(seconds * 1000))  # 0 would mean no limit
    try:
        connection.execute(text("SELECT set_config('lock_timeout', :limit, false)"), {"limit": f"{milliseconds}ms"})
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": advisory_key(name)})
    except exc.OperationalError as error:
        if getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE:
            return False
        raise
    return True


def _release(connection: Connection) -> None:
    """Unlock and return the connection; if that fails, close it, which unlocks too."""
    try:
        connection.execute(text("SELECT pg_advisory_unlock_all(), set_config('lock_timeout', '0', false)"))
    except exc.SQLAlchemyError:
        connection.invalidate()
    finally:
        connection.close()


HOLDER: Final = text(
    "SELECT a.application_name || ' on ' || coalesce(host(a.client_addr), 'the server itself')"
    " FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND ((l.classid::bigint << 32) | l.objid::bigint) = :key"
)


def _holder(connection: Connection, name: str) -> str:
    return connection.scalar(HOLDER, {"key": advisory_key(name)}) or "another process"
