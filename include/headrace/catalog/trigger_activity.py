"""What is counted of the calls of triggers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Update, select, update

from headrace.catalog.revisions import RevisionKind, count_up
from headrace.catalog.rows.triggers import TRIGGER_ACTIVITY, TRIGGERS
from headrace.catalog.store import Repository, Store
from headrace.catalog.triggers import SeenRevision
from headrace.model.conversion import from_row
from headrace.model.triggers import TriggerActivity, TriggerState

FLUSH_S: Final = 1.0
"""Seconds for which counts of successful calls are kept in memory, since writing them takes longer than most calls."""


class TriggerActivities(Repository):
    """What has been counted of calls of triggers, by id. Processes count in memory, and write that to the catalog now and then."""

    def __init__(self, store: Store, seen: SeenRevision, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Begin to count."""
        super().__init__(store)
        self._seen = seen
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._counted: dict[str, TriggerActivity] = {}
        self._flushed = monotonic()

    def all(self) -> dict[str, TriggerActivity]:
        """Return what all processes have counted, with all that this one has."""
        self.flush()
        return {row["trigger_id"]: from_row(TriggerActivity, row) for row in self._rows(select(TRIGGER_ACTIVITY))}

    def count(self, id_: str, call: TriggerActivity) -> None:
        """Count a call. Failures are written to the catalog at once."""
        with self._lock:
            self._counted[id_] = self._counted.get(id_, TriggerActivity()).followed_by(call)
            is_due = call.failures > 0 or self._monotonic() - self._flushed > FLUSH_S
        if is_due:
            self.flush()

    def flush(self) -> None:
        """Write what this process has counted to the catalog."""
        with self._lock:
            counted, self._counted = self._counted, {}
            self._flushed = self._monotonic()
        if not counted:
            return
        with self._store.write() as connection:
            for id_, activity in sorted(counted.items()):
                connection.execute(addition(id_, activity))

    def stop_failing(self, id_: str, max_failures: int, reason: str) -> bool:
        """Make a trigger INACTIVE that has failed this many times in a row; return whether it did."""
        failures = select(TRIGGER_ACTIVITY.c.failures_in_row).where(TRIGGER_ACTIVITY.c.trigger_id == id_).scalar_subquery()
        failing = update(TRIGGERS).where(TRIGGERS.c.id == id_, TRIGGERS.c.state == TriggerState.ACTIVE, failures >= max_failures)
        values = {"state": TriggerState.INACTIVE.value, "reason": reason}
        with self._store.write() as connection:
            is_stopped = connection.scalar(failing.values(values).returning(TRIGGERS.c.id)) is not None
            if is_stopped:
                self._seen.note(count_up(connection, RevisionKind.TRIGGERS))
        return is_stopped


def addition(id_: str, counted: TriggerActivity) -> Update:
    """Return the statement that does what `TriggerActivity.followed_by` does, in the catalog."""
    columns = TRIGGER_ACTIVITY.c
    is_failing = counted.failures == counted.calls
    values: dict[str, Any] = {
        "calls": columns.calls + counted.calls,
        "failures": columns.failures + counted.failures,
        "failures_in_row": columns.failures_in_row + counted.failures_in_row if is_failing else counted.failures_in_row,
        "duration_us": columns.duration_us + counted.duration_us,
    }
    if counted.last_error_at is not None:
        values |= {"last_error": counted.last_error, "last_error_at": counted.last_error_at}
    return update(TRIGGER_ACTIVITY).where(columns.trigger_id == id_).values(values)
