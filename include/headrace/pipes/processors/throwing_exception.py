"""The processor that fails, to test what happens then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.errors import InternalError
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.events import Event, InsertEvent
from headrace.pipes.plugins import PipeContext, Processor

STAGES: Final = (
    "validate",
    "customize",
    "process-tablet-insertion-event",
    "process-tsfile-insertion-event",
    "process-event",
    "process",
    "heartbeat",
    "close",
)
"""Where it can fail. There are no TsFiles, so `process-tsfile-insertion-event` never happens; `process` is any event."""


class ThrowingExceptionProcessor(Processor):
    """Passes all events on, or fails."""

    def __init__(self, stages: frozenset[str]) -> None:
        """Create the processor that fails at some stages."""
        self._stages = stages

    def fail(self, stage: str, text: str = "") -> None:
        """Raise `InternalError` if a stage is one of those that fail."""
        if stage in self._stages:
            raise InternalError(f"Throwing exception in {text or stage}", hint="remove the stage from the processor's stages")

    def process(self, events: Sequence[Event], now: int) -> Sequence[Event]:  # noqa: ARG002
        """Return the events, or raise `InternalError`."""
        for event in events:
            self.fail("process")
            if isinstance(event, InsertEvent):
                self.fail("process-tablet-insertion-event", "process(TabletInsertionEvent, EventCollector)")
            else:
                self.fail("process-event", "process(Event, EventCollector)")
        if not events:
            self.fail("heartbeat")
        return events

    def close(self) -> None:
        """Do nothing, or raise `InternalError`."""
        self.fail("close")


def read_stages(attributes: PipeAttributes) -> frozenset[str]:
    """Return the stages; raise `ProgrammingError` for unknown ones."""
    stages = frozenset(stage.strip() for stage in attributes.text("stages").lower().split(",")) - {""}
    for stage in sorted(stages.difference(STAGES)):
        raise pipe_error(f"Invalid value {stage} of stages. The value should be one of [{', '.join(STAGES)}]")
    return stages


def validate(attributes: PipeAttributes) -> None:
    """Check the parameters, or fail."""
    if "validate" in read_stages(attributes):
        raise pipe_error("Throwing exception in validate")


def create(attributes: PipeAttributes, _: PipeContext) -> Processor:
    """Return the processor, or raise `InternalError`."""
    processor = ThrowingExceptionProcessor(read_stages(attributes))
    processor.fail("customize")
    return processor
