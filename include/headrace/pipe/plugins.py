"""The base classes of plugins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from headrace.pipe.batches import TabletBatch
from headrace.pipe.collector import EventCollector
from headrace.pipe.events import DeleteEvent, Event, SchemaEvent, TabletEvent
from headrace.pipe.parameters import ParameterValidator, PipeParameters
from headrace.pipe.store import PipeStore


@dataclass(frozen=True, slots=True)
class PipeRuntime:
    """What a plugin is part of.

    Attributes:
        pipe_name: The name of the pipe.
        pipe_id: An id that no other pipe has, also none that had the name before.
        user: The owner of the pipe.
        position: Of a source, what `position` returned after the last events that are durable; None if the pipe begins.
    """

    pipe_name: str
    pipe_id: str = ""
    user: str = ""
    position: Any = None


class PipePlugin:
    """User code that a stage of a pipe runs. Derive from `PipeSource`, `PipeProcessor` or `PipeSink`.

    `CREATE PIPEPLUGIN` creates an instance, to see that it can be created. `CREATE PIPE` creates one and calls `validate`, that of
    a sink also `customize`, `handshake` and `close`. A running pipe has an instance in a process of its own. It is created again,
    with `validate` and `customize`, if that process has died or was idle for a while, so keep what must survive in the position of
    a source or in the store of a processor. Calls of an instance never overlap.

    Attributes:
        secret_attributes: Parameters, without prefix, whose values are never shown.
    """

    secret_attributes: ClassVar[tuple[str, ...]] = ("password",)

    def validate(self, validator: ParameterValidator) -> None:
        """Check the parameters without side effects, and raise an exception, such as `ParameterError`, if they are not valid."""

    def customize(self, parameters: PipeParameters, runtime: PipeRuntime) -> None:
        """Read the parameters. Called once, before any other method but `validate`."""

    def close(self) -> None:
        """Release what the instance holds. Not called if the process dies."""


class PipeSource(PipePlugin):
    """Supplies events. A subclass defines `supply`, and `position` if it can continue where it has stopped.

    Supplied events are stored before they flow on, with the position after them, so each event is delivered even if a process dies.

    Attributes:
        poll_seconds: How long `supply` is not called after it has returned None.
    """

    poll_seconds: float = 1.0

    def start(self) -> None:
        """Begin after `runtime.position`, which `customize` has received. Called once, after `customize`."""

    def supply(self) -> Event | None:
        """Return the next event, or None if there is none at the moment.

        Return soon: a call that waits keeps events that were supplied before it from flowing on.
        """
        raise NotImplementedError

    def position(self) -> Any:
        """Return what follows the supplied events, as a value that JSON can represent.

        A new instance gets it as `runtime.position`. Called after `supply`; without it, a new instance does not know where to
        begin.
        """
        return None

    def acknowledge(self, position: Any) -> None:
        """Take note that the events up to a position are delivered, for example to let a queue forget them."""


class PipeProcessor(PipePlugin):
    """Transforms events. A subclass defines `process`, or `process_batch` for speed.

    After a crash the events of a batch are processed again, from the store as it was before the batch. So that the results are the
    same, let them depend on the events, the parameters and the store alone.

    Attributes:
        store: A durable key-value store.
    """

    store: PipeStore

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Create an instance with an empty store, whether or not a subclass calls `__init__`."""
        instance = super().__new__(cls)
        instance.store = PipeStore(writable=True)
        return instance

    def process(self, tablet: TabletEvent, collector: EventCollector) -> None:
        """Process rows of one device, and hand on what becomes of them."""
        raise NotImplementedError

    def process_batch(self, batch: TabletBatch, collector: EventCollector) -> None:
        """Process rows of many devices at once. By default, `process` is called for each device."""
        for tablet in batch.tablets():
            self.process(tablet, collector)

    def process_event(self, event: DeleteEvent | SchemaEvent, collector: EventCollector) -> None:
        """Process another event. By default it is handed on as it is."""
        collector.collect(event)


class PipeSink(PipePlugin):
    """Delivers events to a receiver. A subclass defines `transfer`, or `transfer_batch` for speed.

    An exception has the events of the batch delivered again, also those that were transferred. Return when the receiver has the
    event durably.

    Attributes:
        delivery_id: Names the event that is being transferred. It is the same if the event is delivered again, so a receiver can
            recognize what it has.
    """

    delivery_id: str = ""

    def handshake(self) -> None:
        """Connect to the receiver, and raise an exception if that is not possible."""

    def heartbeat(self) -> None:
        """Check that the receiver answers. Called when nothing was delivered for a while."""

    def transfer(self, event: TabletEvent | DeleteEvent | SchemaEvent) -> None:
        """Deliver an event."""
        raise NotImplementedError

    def transfer_batch(self, batch: TabletBatch) -> None:
        """Deliver rows of many devices at once. By default, `transfer` is called for each device."""
        for tablet in batch.tablets():
            self.transfer(tablet)
