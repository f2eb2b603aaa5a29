"""The entry point to the catalog: repositories as attributes, and locks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.catalog.access import Access
from headrace.catalog.audit import AuditLog
from headrace.catalog.copying import copy_catalog, is_unused
from headrace.catalog.databases import Databases
from headrace.catalog.engines import open_engine
from headrace.catalog.events import Events
from headrace.catalog.executions import Executions
from headrace.catalog.functions import Functions
from headrace.catalog.job_versions import JobVersions
from headrace.catalog.jobs import Jobs
from headrace.catalog.ledger import Ledger
from headrace.catalog.locks import LOCK_MS, AdvisoryLocks, FileLocks, Locks
from headrace.catalog.migrate import migrate
from headrace.catalog.pinned_reads import PinnedReads
from headrace.catalog.pipe_plugins import PipePlugins
from headrace.catalog.quarantine import Quarantine
from headrace.catalog.schema_log import SchemaLog
from headrace.catalog.snodes import Leases, Members, Snodes
from headrace.catalog.store import Store, is_sqlite
from headrace.catalog.stream_metrics import StreamMetrics, WindowNotes
from headrace.catalog.subtables import Expirations, Subtables
from headrace.catalog.tables import Tables
from headrace.catalog.templates import Templates
from headrace.catalog.tokens import Tokens
from headrace.catalog.trees import Trees
from headrace.catalog.trigger_activity import TriggerActivities
from headrace.catalog.triggers import SeenRevision, Triggers
from headrace.catalog.virtual_tables import VirtualTables
from headrace.errors import OperationalError


class Catalog:
    """One catalog database. Thread-safe; each call is a separate transaction.

    Every method raises `OperationalError` (transient) when the database cannot be reached or stays busy.
    """

    def __init__(self, store: Store, locks: Locks) -> None:
        self._store = store
        self._locks = locks
        self.pins = PinnedReads(store)
        self.access = Access(store, self.pins)
        self.tokens = Tokens(store)
        self.audit_log = AuditLog(store)
        self.databases = Databases(store, self.pins)
        self.tables = Tables(store, self.pins)
        self.subtables = Subtables(store)
        self.expirations = Expirations(store)
        self.virtual_tables = VirtualTables(store)
        seen = SeenRevision()
        self.trees = Trees(store, self.pins, seen)
        self.templates = Templates(store, self.pins)
        self.schema_log = SchemaLog(store)
        self.functions = Functions(store)
        self.triggers = Triggers(store, self.pins, seen)
        self.trigger_activities = TriggerActivities(store, seen)
        self.pipe_plugins = PipePlugins(store)
        self.jobs = Jobs(store)
        self.job_versions = JobVersions(store)
        self.leases = Leases(store)
        self.snodes = Snodes(store)
        self.members = Members(store)
        self.ledger = Ledger(store)
        self.executions = Executions(store)
        self.events = Events(store)
        self.quarantine = Quarantine(store)
        self.stream_metrics = StreamMetrics(store)
        self.window_notes = WindowNotes(store)

    @classmethod
    def open(cls, url: str, *, clock: Callable[[], int] | None = None) -> Catalog:
        """Open the catalog at `sqlite:///file` or `postgresql://…`; create or migrate it if necessary.

        Times are the database's own, unless `clock` gives epoch milliseconds (`ManualClock().now` in tests).
        `ConfigurationError` for a URL that cannot be used or a catalog of a newer version.
        """
        engine = open_engine(url)
        store = Store(engine, clock)
        locks = FileLocks(Path(str(engine.url.database)).parent / "locks") if is_sqlite(engine) else AdvisoryLocks(engine)
        catalog = cls(store, locks)
        try:
            migrate(store, locks)
        except BaseException:
            catalog.close()
            raise
        return catalog

    def lock(self, name: str, timeout_ms: int = LOCK_MS) -> AbstractContextManager[None]:
        """Exclude other threads and processes that lock the same name. Reentrant within a thread; ends when the process dies.

        Raises:
            TransientError: Another held it for `timeout_ms`; names the holder.
        """
        return self._locks.hold(name, timeout_ms)

    def remove_unused_locks(self) -> None:
        """Remove what is left of locks that were not held for a day."""
        self._locks.remove_unused()

    def now(self) -> int:
        """Return the time by which leases, heartbeats and events are dated, in epoch milliseconds."""
        with self._store.read() as connection:
            return self._store.now(connection)

    @property
    def is_unused(self) -> bool:
        """Whether nothing has been created in the catalog."""
        return is_unused(self._store)

    def back_up(self, path: Path) -> None:
        """Copy the catalog, as it is at one instant, into a new SQLite file."""
        with Catalog.open(f"sqlite:///{path}") as copy:
            copy_catalog(self._store, copy._store)

    def restore(self, path: Path) -> None:
        """Replace the catalog by the copy in a SQLite file: all of it, or nothing."""
        with Catalog.open(f"sqlite:///{path}") as copy:
            copy_catalog(copy._store, self._store)

    def close(self) -> None:
        """Write what has been counted in memory, and close the connections. Idempotent."""
        with suppress(OperationalError):
            self.trigger_activities.flush()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
