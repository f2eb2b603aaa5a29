"""Sources of users."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headrace.code.hosts import MAX_ATTEMPTS, lost_hosts
from headrace.code.pipes import PluginInstance, SuppliedEvents
from headrace.context import Context
from headrace.errors import IntegrityError, TransientError
from headrace.model.positions import Offsets
from headrace.pipes.checkpoints import PipeCheckpoint, PipeCheckpoints
from headrace.pipes.hosted.events import from_plugin
from headrace.pipes.plugins import PipeContext, Source, SourceBatch

FOLDER: Final = "source"
TABLE: Final = "supplied"
SCHEMA: Final = pa.schema(
    [
        ("id", pa.string()),
        ("previous", pa.string()),
        ("position", pa.string()),
        ("headers", pa.string()),
        ("rows", pa.large_binary()),
    ]
)
Recorded = Callable[[], int | None]


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch as it is stored: its id, that of the batch before it, and the events."""

    supplied: SuppliedEvents
    id: str
    previous: str = ""


class HostedSource(Source):
    """Supplies the events of a plugin, in batches. Offsets have the number of the last one, under the name of the plugin.

    A batch is stored before it is handed on, with the position of the plugin after it. So a batch that is read again has the same
    events, whatever the plugin would supply now. The batches before the one that the pipe has recorded are deleted.
    """

    def __init__(self, instance: PluginInstance, stored: PipeCheckpoints, recorded: Recorded = lambda: None) -> None:
        """Create a source.

        Args:
            instance: The instance of the plugin, which is started by the first batch.
            stored: Where batches are stored.
            recorded: Returns the number of the last batch that the pipe has recorded; None if that is not known.
        """
        self._instance = instance
        self._stored = stored
        self._recorded = recorded
        self._number: int | None = None
        """The batch after which the instance continues; None if it has to be started."""
        self._key = instance.plugin.name
        self._beginning = StoredBatch(SuppliedEvents([], b"", "null"), self._key)
        self._latest = 0, self._beginning
        self._poll_at = 0.0

    @classmethod
    def of(cls, instance: PluginInstance, pipe: PipeContext) -> HostedSource:
        """Return the source of a pipe, which stores its batches beside the checkpoints of the pipe."""
        stored = PipeCheckpoints(pipe.context.state_uri, f"{pipe.pipe_id}/{FOLDER}", pipe.context.epoch)
        return cls(instance, stored, lambda: recorded_batch(pipe.context, pipe.pipe_id, instance.plugin.name))

    def read(self, offsets: Offsets, until: Offsets | None = None) -> SourceBatch | None:  # noqa: ARG002
        """Return the batch that follows; None if the plugin supplies nothing at the moment.

        Raises:
            UserCodeError: The plugin fails.
            IntegrityError: The position of the plugin is lost.
        """
        number = offsets.get(self._key, 0)
        last = self._batch(number)
        if number != self._number:
            following = self._read(number + 1)
            # A pipe that began again may have batches from before under the same numbers.
            if following is not None and following.previous == last.id:
                return self._hand_on(number + 1, following)
        return self._supply(number, last)

    def has_news(self, offsets: Offsets) -> bool:
        """Return whether the plugin is to be asked, or there is a batch that it has supplied before."""
        return offsets.get(self._key, 0) != self._number or time.monotonic() >= self._poll_at

    def acknowledge(self, offsets: Offsets) -> None:
        """Let the plugin know that a batch is delivered, and delete those that are not needed any more."""
        self._instance.acknowledge(self._batch(offsets.get(self._key, 0)).supplied.position)
        recorded = self._recorded()
        if recorded is not None:
            self._stored.delete_before(recorded)

    def close(self) -> None:
        """End the instance."""
        self._instance.close()

    def _supply(self, number: int, last: StoredBatch) -> SourceBatch | None:
        supplied = self._ask(number, last.supplied.position)
        if not supplied.headers:
            self._poll_at = time.monotonic() + max(supplied.poll_seconds, 0.0)
            self._number = number
            return None
        stored = StoredBatch(supplied, uuid.uuid4().hex, last.id)
        batch = self._hand_on(number + 1, stored)
        self._stored.write(PipeCheckpoint(number + 1, batch.offsets, state={TABLE: encode(stored)}))
        self._number = number + 1
        return batch

    def _ask(self, number: int, position: str) -> SuppliedEvents:
        """Return the next events, from an instance that continues after a batch."""
        is_there, self._number = self._number == number, None  # until the call has succeeded
        for _ in range(MAX_ATTEMPTS):
            if not is_there:
                self._instance.start(position=position)
            supplied = self._instance.supply()
            if supplied is not None:
                return supplied
            is_there = False
        raise lost_hosts(self._instance.name)

    def _hand_on(self, number: int, stored: StoredBatch) -> SourceBatch:
        batch = SourceBatch(from_plugin(stored.supplied.events(), self._instance.name), {self._key: number})
        self._latest = number, stored
        return batch

    def _batch(self, number: int) -> StoredBatch:
        """Return a batch that has been handed on."""
        if number == 0:
            return self._beginning
        if number == self._latest[0]:
            return self._latest[1]
        stored = self._read(number)
        if stored is None:
            message = f"the position of the {self._instance.name} is lost: its batch {number} does not exist"
            raise IntegrityError(message, hint="drop the pipe, and create it again")
        self._latest = number, stored
        return stored

    def _read(self, number: int) -> StoredBatch | None:
        checkpoint = self._stored.read(number)
        return None if checkpoint is None or checkpoint.state is None else decode(checkpoint.state[TABLE])


def recorded_batch(context: Context, pipe_id: str, plugin: str) -> int | None:
    """Return the last batch of a plugin that the catalog has recorded; None if it cannot be reached."""
    try:
        offsets = context.catalog.jobs.by_id(pipe_id).offsets
    except TransientError:
        return None
    return 0 if offsets is None else offsets.get(plugin, 0)


def encode(stored: StoredBatch) -> pa.Table:
    """Return a batch as a table of one row."""
    supplied = stored.supplied
    row = (stored.id, stored.previous, supplied.position, json.dumps(supplied.headers), bytes(supplied.body))
    return pa.table([pa.array([value], field.type) for value, field in zip(row, SCHEMA, strict=True)], SCHEMA)


def decode(table: pa.Table) -> StoredBatch:
    """Return what `encode` has encoded."""
    id_, previous, position, headers = (table[name][0].as_py() for name in SCHEMA.names[:-1])
    return StoredBatch(SuppliedEvents(json.loads(headers), table["rows"][0].as_buffer(), position), id_, previous)
