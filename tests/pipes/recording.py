"""A sink for tests that remembers what it is given, and fails when it is told to. Its receiver would notice what comes twice."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.errors import OperationalError, TerminalError
from headrace.model.pipes import PipeStage
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.builtin import BY_NAME
from headrace.pipes.events import DEVICE, TIME, DeleteEvent, Event, InsertEvent
from headrace.pipes.plugins import Delivery, PipeContext, Plugin, Sink
from tests.support.waiting import MAX_WAIT_S

NAME: Final = "recording-sink"


def set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass
class Recorder:
    """What sinks with a name were given: deliveries in order, and how many of the next ones are to fail.

    A sink that is hung has `continues` cleared, and sets `hangs` once it has something to deliver.
    """

    deliveries: list[Delivery] = field(default_factory=list)
    continues: threading.Event = field(default_factory=set_event)
    hangs: threading.Event = field(default_factory=threading.Event)
    failures: int = 0
    terminal: bool = False
    connections: int = 0
    is_away: bool = False
    closed: int = 0

    def events(self) -> list[Event]:
        """Return all events in order, each batch once. A batch that came again must have had the same events."""
        batches: dict[int, list[Any]] = {}
        for delivery in self.deliveries:
            rows = [described(event) for event in delivery.events]
            assert batches.setdefault(delivery.batch, rows) == rows, f"batch {delivery.batch} has changed"
        first = {delivery.batch: delivery for delivery in reversed(self.deliveries)}
        assert list(batches) == sorted(batches), "batches are out of order"
        return [event for number in sorted(first) for event in first[number].events]


RECORDERS: Final[dict[str, Recorder]] = defaultdict(Recorder)


def described(event: Event) -> tuple[str, Any]:
    """Return an event in a form that can be compared."""
    if isinstance(event, InsertEvent | DeleteEvent):
        names = {name: measurement.name for name, measurement in event.data.columns.items()}
        rows = [
            (row[DEVICE], row[TIME], {names[name]: row[name] for name in sorted(names) if row[name] is not None})
            for row in event.data.rows.to_pylist()
        ]
        return type(event).__name__, rows
    return type(event).__name__, event.sql


class RecordingSink(Sink):
    """Remembers deliveries."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def handshake(self) -> None:
        self._recorder.connections += 1

    def heartbeat(self) -> None:
        """Fail if the receiver is away."""
        if self._recorder.is_away:
            raise OperationalError("the receiver is away", hint="wait")

    def transfer(self, delivery: Delivery) -> None:
        if self._recorder.failures:
            self._recorder.failures -= 1
            kind = TerminalError if self._recorder.terminal else OperationalError
            raise kind("the receiver is away", hint="wait")
        if not self._recorder.continues.is_set():
            self._recorder.hangs.set()
            self._recorder.continues.wait(MAX_WAIT_S)
        self._recorder.deliveries.append(delivery)

    def close(self) -> None:
        self._recorder.closed += 1


def create(attributes: PipeAttributes, _: PipeContext) -> Sink:
    """Create a sink that tells the recorder of its attribute `name`."""
    return RecordingSink(RECORDERS[attributes.text("name")])


@contextmanager
def recording_sinks() -> Iterator[None]:
    """Have the plugin `recording-sink` during a block."""
    BY_NAME[NAME] = Plugin(
        name=NAME, stage=PipeStage.SINK, class_name=NAME, validate=lambda: lambda _: None, create=lambda: create, is_listed=False
    )
    try:
        yield
    finally:
        del BY_NAME[NAME]
        RECORDERS.clear()
