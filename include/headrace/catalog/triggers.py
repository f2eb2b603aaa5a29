"""The triggers that users have registered."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import delete, select, update

from headrace.catalog.pinned_reads import PinnedReads
from headrace.catalog.revisions import NO_REVISION, RevisionKind, count_up, revision_of
from headrace.catalog.rows.triggers import TRIGGER_ACTIVITY, TRIGGER_ENTRIES, TRIGGERS
from headrace.catalog.store import Repository, Store, insert
from headrace.errors import Error, ExistsError, NotFoundError
from headrace.model.conversion import from_row, to_row
from headrace.model.spelling import did_you_mean
from headrace.model.tree_status import TreeStatus
from headrace.model.triggers import RegisteredTrigger, TriggerActivity

REVISION: Final = revision_of(RevisionKind.TRIGGERS)


@dataclass(slots=True)
class SeenRevision:
    """The latest revision of triggers that this process has seen. It is read with devices, so that it costs nothing."""

    value: int = NO_REVISION

    def note(self, value: int | None) -> None:
        """Note the revision that a query has read; None if the catalog never had a trigger."""
        self.value = max(self.value, value or NO_REVISION)


class Triggers(Repository):
    """Registered triggers by name, which distinguishes upper and lower case."""

    def __init__(self, store: Store, pins: PinnedReads, seen: SeenRevision) -> None:
        """Create a repository; `seen` is up to date whenever devices have been read."""
        super().__init__(store)
        self._pins = pins
        self._seen = seen
        self._active: tuple[int, tuple[RegisteredTrigger, ...]] = NO_REVISION, ()
        self._has_interruptions = False
        self._lock = threading.Lock()

    def all(self) -> list[RegisteredTrigger]:
        """Return every trigger by name."""
        return self._all(RegisteredTrigger, select(TRIGGERS).order_by(TRIGGERS.c.name))

    def find(self, name: str) -> RegisteredTrigger | None:
        """Return a trigger, or None."""
        return next(iter(self._all(RegisteredTrigger, select(TRIGGERS).where(TRIGGERS.c.name == name))), None)

    def get(self, name: str) -> RegisteredTrigger:
        """Return a trigger; raise `NotFoundError` if there is none of that name."""
        trigger = self.find(name)
        if trigger is None:
            raise missing_trigger(name, [row["name"] for row in self._rows(select(TRIGGERS.c.name))])
        return trigger

    def artifacts(self) -> set[str]:
        """Return the hashes of the artifacts of all triggers."""
        return {row["artifact"]["sha256"] for row in self._rows(select(TRIGGERS.c.artifact))}

    def active(self) -> tuple[RegisteredTrigger, ...]:
        """Return the triggers that writes call, by name, as of the latest read of devices or later. Mostly costs no query."""
        if self._pins.are_pinned:
            self._seen.note(self._pins.revision(RevisionKind.TRIGGERS))
        if self._seen.value == NO_REVISION:
            return ()
        with self._lock:
            if self._active[0] < self._seen.value:
                self._active = self._read_active()
            return self._active[1]

    def interrupted(self) -> list[RegisteredTrigger]:
        """Return the triggers that a process is creating, dropping or taking over, or was when it died."""
        return [trigger for trigger in self.all() if trigger.is_changing]

    def take_interruptions(self) -> bool:
        """Return whether there were such triggers when `active` has last read them; True only once."""
        with self._lock:
            has_interruptions, self._has_interruptions = self._has_interruptions, False
            return has_interruptions

    def create(self, trigger: RegisteredTrigger) -> None:
        """Record a trigger. One of that name whose creation has not been completed is replaced: the caller holds its lock.

        Raises:
            ExistsError: The name is taken.
        """
        with self._store.write() as connection:
            unfinished = delete(TRIGGERS).where(TRIGGERS.c.name == trigger.name, TRIGGERS.c.failure_strategy.is_(None))
            connection.execute(unfinished)
            row = insert(connection, TRIGGERS).values(to_row(trigger)).on_conflict_do_nothing().returning(TRIGGERS.c.name)
            if connection.scalar(row) is None:
                raise trigger_exists(trigger.name)
            connection.execute(insert(connection, TRIGGER_ACTIVITY).values({"trigger_id": trigger.id} | to_row(TriggerActivity())))

    def change(self, id_: str, **values: Any) -> bool:
        """Change columns of a trigger; return whether it still exists."""
        with self._store.write() as connection:
            changed = update(TRIGGERS).where(TRIGGERS.c.id == id_).values(values).returning(TRIGGERS.c.id)
            exists = connection.scalar(changed) is not None
            self._seen.note(count_up(connection, RevisionKind.TRIGGERS))
        return exists

    def remove(self, id_: str) -> None:
        """Remove a trigger, with what it has stored."""
        with self._store.write() as connection:
            connection.execute(delete(TRIGGERS).where(TRIGGERS.c.id == id_))
            self._seen.note(count_up(connection, RevisionKind.TRIGGERS))

    def entries(self, id_: str) -> dict[str, str]:
        """Return what a trigger has stored: JSON texts by key."""
        query = select(TRIGGER_ENTRIES).where(TRIGGER_ENTRIES.c.trigger_id == id_)
        return {row["key"]: row["value"] for row in self._rows(query)}

    def store_entries(self, id_: str, changes: Mapping[str, str | None]) -> None:
        """Store JSON texts by key, and remove those that are None, in one transaction."""
        with self._store.write() as connection:
            for key, value in changes.items():
                connection.execute(delete(TRIGGER_ENTRIES).where(TRIGGER_ENTRIES.c.trigger_id == id_, TRIGGER_ENTRIES.c.key == key))
                if value is not None:
                    row = {"trigger_id": id_, "key": key, "value": value}
                    connection.execute(insert(connection, TRIGGER_ENTRIES).values(row))

    def _read_active(self) -> tuple[int, tuple[RegisteredTrigger, ...]]:
        with self._store.read() as connection:
            revision = connection.scalar(REVISION) or NO_REVISION
            rows = connection.execute(select(TRIGGERS).order_by(TRIGGERS.c.name)).mappings()
            triggers = [from_row(RegisteredTrigger, row) for row in rows]
            self._has_interruptions = any(trigger.is_changing for trigger in triggers)
            return revision, tuple(trigger for trigger in triggers if trigger.is_active)


def trigger_exists(name: str) -> Error:
    """Return the error for a trigger whose name is taken."""
    message = f"Failed to create trigger [{name}], the same name trigger has been created"
    return ExistsError(message, hint="use another name, or drop it").with_status(TreeStatus.CREATE_TRIGGER_ERROR)


def missing_trigger(name: str, names: list[str]) -> Error:
    """Return the error for a trigger that does not exist."""
    message = f"Failed to drop trigger [{name}], this trigger has not been created"
    hint = did_you_mean(name, names, "SHOW TRIGGERS lists what there is")
    return NotFoundError(message, hint=hint).with_status(TreeStatus.DROP_TRIGGER_ERROR)
