"""The base class of triggers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from headrace.trigger.attributes import TriggerAttributes
from headrace.trigger.store import TriggerStore
from headrace.trigger.tablet import Tablet


class FailureStrategy(StrEnum):
    """What happens to a write if `fire` returns False or raises an exception.

    OPTIMISTIC: the other triggers are called and the rows are written; the statement ends with an error that says so.
    PESSIMISTIC: no further trigger is called. Before the write, nothing is written; after it, the rows stay.
    """

    OPTIMISTIC = "OPTIMISTIC"
    PESSIMISTIC = "PESSIMISTIC"


@dataclass(frozen=True, slots=True)
class Insertion:
    """A row that a trigger writes: a device, a time in ticks of its database, and values by measurement."""

    device_id: str
    time: int
    values: Mapping[str, Any]


class Trigger:
    """User code that a write calls, before or after it, with the rows of one device.

    A subclass defines `fire`. `CREATE TRIGGER` creates an instance, and calls `validate` and `on_create`; if one of them raises an
    exception, nothing is created. A STATELESS trigger has an instance in each process that writes, created likewise by the first
    write of the process, and again when its code host has been idle or has died. A STATEFUL one has a single living instance;
    another process that takes it over also calls `restore`. Calls of an instance never overlap.

    Attributes:
        store: The durable store of a stateful trigger.
    """

    store: TriggerStore
    _insertions: list[Insertion]

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Create an instance with an empty store, whether or not a subclass calls `__init__`."""
        instance = super().__new__(cls)
        instance.store = TriggerStore()
        instance._insertions = []
        return instance

    def validate(self, attributes: TriggerAttributes) -> None:
        """Check the attributes, and raise an exception if they are not valid."""

    def on_create(self, attributes: TriggerAttributes) -> None:
        """Prepare an instance for the first `fire`."""

    def fire(self, tablet: Tablet) -> bool:
        """Process rows of one device, and return whether that was successful."""
        raise NotImplementedError

    def on_drop(self) -> None:
        """Release what the trigger holds. `DROP TRIGGER` calls this, a second time if its process dies before it has finished."""

    def restore(self) -> None:
        """Prepare an instance that takes over from another one. Called after `on_create`, for stateful triggers alone."""

    def get_failure_strategy(self) -> FailureStrategy:
        """Return what a failure of `fire` does to the write. Read once, by `CREATE TRIGGER`."""
        return FailureStrategy.OPTIMISTIC

    def insert(self, device_id: str, time: int, values: Mapping[str, Any]) -> None:
        """Write a row, with the rights of the trigger's owner.

        Rows that `fire` inserts are written after those of the statement, when all triggers have been called; if these are not
        written, neither are they. Missing series are created. They fire other triggers, but not those that they come from.

        Args:
            device_id: The path of a device, such as `root.alerts.line1`. Its database has to exist.
            time: The time, in ticks of the database's precision.
            values: Values by measurement: Boolean, integer, float, text, or bytes.
        """
        self._insertions.append(Insertion(device_id, time, dict(values)))

    def take_insertions(self) -> list[Insertion]:
        """Return the rows that were inserted since the last call. The host of the trigger calls this."""
        insertions, self._insertions = self._insertions, []
        return insertions
