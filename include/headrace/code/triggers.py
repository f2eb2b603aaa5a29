"""Triggers, run in code hosts of this process."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from headrace.code.answers import Changes, read_changes
from headrace.code.artifacts import ArtifactStore
from headrace.code.failures import Call
from headrace.code.hosts import MAX_ATTEMPTS, HostedClass, HostLimits, current_hosts, lost_hosts
from headrace.code.protocol import GarbageError, Header, Message, stream_of
from headrace.errors import UserCodeError
from headrace.model.triggers import RegisteredTrigger
from headrace.settings import Settings
from headrace.trigger import FailureStrategy, Insertion

T = TypeVar("T")
Entries = Mapping[str, str]


@dataclass(frozen=True)
class TabletRows:
    """Rows of a device for a trigger: `time` in ticks, and a column for each measurement, whose types `types` names."""

    device: str
    database: str
    timestamp_precision: str
    types: tuple[str, ...]
    rows: pa.Table

    @cached_property
    def stream(self) -> pa.Buffer:
        """The rows as an Arrow IPC stream, which all triggers that get them share."""
        return stream_of(self.rows)


@dataclass(frozen=True, slots=True)
class CreatedInstance:
    """A new instance: its failure strategy, and what it has stored: JSON texts by key, None for a removed key."""

    failure_strategy: FailureStrategy
    changes: Changes


@dataclass(frozen=True, slots=True)
class FireResult:
    """What a successful call of `fire` leaves: what it has stored, and rows that it inserts."""

    changes: Changes = field(default_factory=dict)
    insertions: tuple[Insertion, ...] = ()


@dataclass(frozen=True, slots=True)
class HostedTrigger:
    """A trigger whose instance lives in a code host of this process.

    Methods raise `UserCodeError` if the code fails, takes too long, or ends its process, `InvalidCodeError` if there is no class.
    """

    trigger: RegisteredTrigger
    hosted: HostedClass

    @classmethod
    def of(cls, trigger: RegisteredTrigger, settings: Settings) -> HostedTrigger:
        """Return a trigger with its code, which is copied to this machine."""
        return cls.stored(trigger, ArtifactStore.of(settings), HostLimits.of(settings, trigger.owner, trigger.name))

    @classmethod
    def stored(cls, trigger: RegisteredTrigger, store: ArtifactStore, limits: HostLimits) -> HostedTrigger:
        """Return a trigger with its code of a store, which is copied to this machine."""
        return cls(trigger, HostedClass.of(trigger.artifact, trigger.class_name, trigger.owner, store, limits))

    def create(self, entries: Entries, *, restores: bool = False) -> CreatedInstance:
        """Create an instance, which replaces an older one; `entries` is what the trigger has stored."""
        stored = dict(entries) if self.trigger.is_stateful else None
        fields = {"attributes": dict(self.trigger.attributes), "entries": stored, "restores": restores}
        return self._ask("create_trigger", fields, read_created)

    def fire(self, tablet: TabletRows) -> FireResult | None:
        """Call `fire`. Return None if the instance has to be created first: its host is new.

        Raises:
            UserCodeError: Also if it returned False.
        """
        fields = {
            "device": tablet.device,
            "database": tablet.database,
            "timestamp_precision": tablet.timestamp_precision,
            "types": list(tablet.types),
        }
        result = self._ask("fire_trigger", fields, read_fired, tablet)
        if isinstance(result, str):
            raise UserCodeError(f"{self._call(tablet).failure()}: fire returned {result}", hint="let it return True if all is well")
        return result

    def fire_stateless(self, tablet: TabletRows) -> FireResult:
        """Call `fire` of a stateless trigger, creating its instance if the host does not have it."""
        for _ in range(MAX_ATTEMPTS):
            result = self.fire(tablet)
            if result is not None:
                return result
            self.create({})
        result = self.fire(tablet)
        if result is None:
            raise lost_hosts(f"trigger {self.trigger.name}")
        return result

    def drop(self) -> bool:
        """Call `on_drop`, if the instance is here; return whether it is."""
        return self._ask("drop_trigger", {}, lambda message: message.header.get("missing") is not True)

    def _call(self, tablet: TabletRows | None = None) -> Call:
        return Call(f"trigger {self.trigger.name}{f' for {tablet.device}' if tablet else ''}")

    def _ask(self, operation: str, fields: Header, read: Callable[[Message], T], tablet: TabletRows | None = None) -> T:
        request = {**fields, "operation": operation, "class": self.hosted.location, "instance": self.trigger.id}
        return current_hosts().host(self.hosted).ask(self._call(tablet), request, read, None if tablet is None else tablet.stream)


def read_created(message: Message) -> CreatedInstance:
    """Read the answer to `create_trigger`."""
    try:
        strategy = FailureStrategy(str(message.header.get("failure_strategy")))
    except ValueError:
        raise GarbageError("not a failure strategy") from None
    return CreatedInstance(strategy, read_changes(message.header))


def read_fired(message: Message) -> FireResult | str | None:
    """Read the answer to `fire_trigger`: a text is what it returned in place of True."""
    if message.header.get("missing") is True:
        return None
    result, insertions = message.header.get("result"), message.header.get("insertions")
    if not isinstance(insertions, list):
        raise GarbageError("not the result of a trigger")
    if result is not True:
        return str(result)
    return FireResult(read_changes(message.header), tuple(map(read_insertion, insertions)))


def read_insertion(insertion: Any) -> Insertion:
    """Return a row that a trigger inserts."""
    match insertion:
        case {"device": str(device), "time": int(time), "values": dict(values)}:
            return Insertion(device, time, {name: read_value(value) for name, value in values.items()})
    raise GarbageError("not a row")


def read_value(value: Any) -> Any:
    """Return a value of a row that a trigger inserts."""
    match value:
        case {"bytes": str(text)}:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error:
                raise GarbageError("not bytes") from None
        case None | bool() | int() | float() | str():
            return value
    raise GarbageError("not a value")
