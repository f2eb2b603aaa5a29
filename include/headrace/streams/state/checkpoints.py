"""What a stream carries from one micro-batch to the next, in checkpoints that are immutable and named by its number."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict, dataclass, field
from typing import Final

import pyarrow as pa
from pyarrow import fs

from headrace.compute.plan import SERIES
from headrace.errors import OperationalError, TerminalError
from headrace.model.failpoints import failpoint
from headrace.model.jobs import JobCounters
from headrace.model.positions import Position

MAGIC: Final = b"HRSTATE1"
KEPT: Final = 3
"""Checkpoints to keep: a newer state can be computed again from an older one and the source's changes since."""

SEEN: Final = pa.schema([(SERIES, pa.string()), ("_seen", pa.int64())])


class StateError(TerminalError):
    """A state file is damaged, or is not the plan's."""

    code = "STATE"


@dataclass(frozen=True)
class StreamState:
    """The state of a stream after a micro-batch.

    Attributes:
        position: The micro-batch.
        windows: Held windows: group columns `p*`, `_wstart`, `_wend` (ticks, inclusive), the plan's partial aggregates, and
            `_emitted`: whether the target has a row of it. None before the first window.
        max_event_time_by_subtable: `_series_key`, `_seen`: the largest event time of each subtable, of rows that the query's WHERE
            keeps.
        max_event_time: The largest of them all; None before the first row. The watermark is this minus the `WATERMARK` option.
        evicted_through: Windows that start at or before it and are not held may have stored rows; later ones that are not held
            have none.
        counters: Totals since the stream began, without pending rows.
        wake_at: When the job wants its next micro-batch even if nothing has changed, in epoch ms of the connection's clock.
        handled_at: When the micro-batch was handled, by the same clock.
    """

    position: Position
    windows: pa.Table | None = None
    max_event_time_by_subtable: pa.Table = field(default_factory=SEEN.empty_table)
    max_event_time: int | None = None
    evicted_through: int | None = None
    counters: JobCounters = field(default_factory=JobCounters)
    wake_at: int | None = None
    handled_at: int = 0

    def watermark(self, delay: int) -> int | None:
        """Windows whose last instant lies before it are closed."""
        return None if self.max_event_time is None else self.max_event_time - delay


def encode(state: StreamState) -> bytes:
    """A state as bytes that end with a checksum."""
    windows = b"" if state.windows is None else ipc(state.windows)
    header = json.dumps(
        {
            "position": state.position.to_json(),
            "wake_at": state.wake_at,
            "handled_at": state.handled_at,
            "newest": state.max_event_time,
            "floor": state.evicted_through,
            "counters": asdict(state.counters),
            "windows": len(windows),
        }
    ).encode()
    body = b"".join((MAGIC, struct.pack("<I", len(header)), header, windows, ipc(state.max_event_time_by_subtable)))
    return body + struct.pack("<I", zlib.crc32(body))


def decode(data: bytes) -> StreamState:
    """The state of such bytes.

    Raises:
        StateError: they are not whole.
    """
    if len(data) < len(MAGIC) + 8 or not data.startswith(MAGIC) or zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        raise StateError("the file is not whole", hint="it is worked out again from the source")
    start = len(MAGIC) + 4
    begin = start + struct.unpack("<I", data[len(MAGIC) : start])[0]
    header = json.loads(data[start:begin])
    middle = begin + header["windows"]
    return StreamState(
        position=Position.from_json(header["position"]),
        windows=table(data[begin:middle]) if header["windows"] else None,
        max_event_time_by_subtable=table(data[middle:-4]),
        max_event_time=header["newest"],
        evicted_through=header["floor"],
        counters=JobCounters(**header["counters"]),
        wake_at=header["wake_at"],
        handled_at=header["handled_at"],
    )


def ipc(rows: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def table(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


class StateStore:
    """The checkpoints of one stream: `<micro-batch>-<epoch>.state`, written whole or not at all.

    Drivers of different epochs never write the same file, so that one which has been fenced spoils nothing.
    """

    def __init__(self, uri: str, job_id: str, epoch: int) -> None:
        self.filesystem, root = fs.FileSystem.from_uri(uri)
        self.folder = f"{root}/{job_id}"
        self.epoch = epoch

    def write(self, state: StreamState, durable: int) -> None:
        """Store a checkpoint, and drop old ones.

        Args:
            durable: The last micro-batch from which the stream would restart by now; its checkpoint and a few before it stay.

        Raises:
            OperationalError: the storage refused.
        """
        batch = state.position.batch
        try:
            self.filesystem.create_dir(self.folder, recursive=True)
            temporary = f"{self.folder}/.{batch}-{self.epoch}.part"
            with self.filesystem.open_output_stream(temporary) as file:
                file.write(encode(state))
            failpoint("streams.state.rename")
            self.filesystem.move(temporary, self._path(batch, self.epoch))
            self._drop_old(durable)
        except OSError as error:
            raise OperationalError(f"the state of a stream cannot be written: {error}", hint="check the storage") from error

    def read(self, batch: int) -> StreamState | None:
        """The state after a micro-batch, by the newest epoch that wrote it; None if there is none.

        Raises:
            StateError: there is one, but it is damaged.
            OperationalError: the storage refused.
        """
        path = self._files().get(batch)
        if path is None:
            return None
        try:
            with self.filesystem.open_input_stream(path) as file:
                data = file.read()
        except OSError as error:
            raise OperationalError(f"the state of a stream cannot be read: {error}", hint="check the storage") from error
        return decode(data)

    def batches(self) -> list[int]:
        """Micro-batches that have a checkpoint, oldest first."""
        return sorted(self._files())

    def clear(self) -> None:
        """Remove all states."""
        try:
            if self.filesystem.get_file_info(self.folder).type == fs.FileType.Directory:
                self.filesystem.delete_dir(self.folder)
        except OSError as error:
            raise OperationalError(f"the state of a stream cannot be removed: {error}", hint="check the storage") from error

    def _path(self, batch: int, epoch: int) -> str:
        return f"{self.folder}/{batch:020d}-{epoch:010d}.state"

    def _names(self) -> list[str]:
        try:
            found = self.filesystem.get_file_info(fs.FileSelector(self.folder, allow_not_found=True))
        except OSError as error:
            raise OperationalError(f"the state of a stream cannot be listed: {error}", hint="check the storage") from error
        return sorted(info.base_name for info in found if info.base_name.endswith(".state"))

    def _files(self) -> dict[int, str]:
        """For each micro-batch the file of the newest epoch."""
        return {batch_of(name): f"{self.folder}/{name}" for name in self._names()}

    def _drop_old(self, durable: int) -> None:
        """Drop all but the last checkpoints up to a micro-batch that is surely committed, and what comes after it."""
        names = self._names()
        committed = sorted({batch_of(name) for name in names if batch_of(name) <= durable})
        old = set(committed[:-KEPT])
        for name in names:
            if batch_of(name) in old:
                self.filesystem.delete_file(f"{self.folder}/{name}")


def batch_of(name: str) -> int:
    """The micro-batch in the name of a checkpoint."""
    return int(name.split("-")[0])
