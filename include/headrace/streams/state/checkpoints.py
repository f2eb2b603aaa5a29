"""The state that a stream carries from one micro-batch to the next, and its immutable checkpoints, named by micro-batch."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate, pairwise
from typing import Final

import pyarrow as pa
from pyarrow import fs

from headrace.compute.plan import SERIES_KEY
from headrace.errors import OperationalError, TerminalError
from headrace.model.failpoints import failpoint
from headrace.model.jobs import JobCounters
from headrace.model.positions import Offsets, Position
from headrace.storage.object_store import file_system, is_object_store

MAGIC: Final = b"HRSTATE1"
MESSAGE_COMPRESSION_LEVEL: Final = 1
RETAINED_CHECKPOINTS: Final = 3
"""Checkpoints to keep: a damaged state can be recomputed from an older one and the changes since."""

MAX_EVENT_TIME: Final = "_max_event_time"
MAX_EVENT_TIMES: Final = pa.schema([(SERIES_KEY, pa.string()), (MAX_EVENT_TIME, pa.int64())])
"""The largest event time of each subtable, in ticks."""

TABLES: Final = ("windows", "max_event_time_by_subtable", "deferred", "rows_before", "last_results")
"""The tables of a state, in the order of a checkpoint."""


class StateError(TerminalError):
    """A checkpoint is damaged, or does not match the plan."""

    code = "STATE"


@dataclass(frozen=True)
class StreamState:
    """The state of a stream after a micro-batch.

    Attributes:
        position: The micro-batch and the offsets after it.
        windows: Windows in state: key columns `p*`, `_wstart`, `_wend` (ticks, inclusive), the plan's partial aggregates, and
            `_emitted`, an `EmitState`. None before the first window.
        max_event_time_by_subtable: Columns as in `MAX_EVENT_TIMES`. Counts only rows that pass WHERE.
        max_event_time: The largest of them; None before the first row. The watermark is this minus the watermark delay.
        evicted_through: Windows up to this start (INTERVAL) or end (others) may have been evicted: if they are not in state, they
            may have stored rows. Later windows that are not in state have none. None if nothing has been evicted.
        counters: Totals since the stream was created, without pending rows.
        deferred: Rows whose windows are recalculated at `wake_at`: the columns that the query reads. None if there are none.
        rows_before: The last rows of each group before `computed_before`, for functions that look for the row before a window.
        last_results: The last result of each group before `computed_before`, with instants in ticks, for FILL.
        computed_before: With FORCE_WINDOW_CLOSE, the start of the first window that is not computed yet, in ticks.
        due_offsets: The newest versions of the sources when a window fell due that waits until the stream has handled them.
        wake_at: When the job needs its next micro-batch even if nothing changes, in epoch ms of the connection's clock.
        handled_at: When the micro-batch was handled, by the same clock.
        messages: The micro-batch's messages. A driver that finds them uncommitted commits them.
    """

    position: Position
    windows: pa.Table | None = None
    max_event_time_by_subtable: pa.Table = field(default_factory=MAX_EVENT_TIMES.empty_table)
    max_event_time: int | None = None
    evicted_through: int | None = None
    counters: JobCounters = field(default_factory=JobCounters)
    deferred: pa.Table | None = None
    rows_before: pa.Table | None = None
    last_results: pa.Table | None = None
    computed_before: int | None = None
    due_offsets: Offsets | None = None
    wake_at: int | None = None
    handled_at: int = 0
    messages: tuple[bytes, ...] = ()

    def watermark(self, delay: int) -> int | None:
        """Return the watermark in ticks; windows that end before it are closed. None before the first row."""
        return None if self.max_event_time is None else self.max_event_time - delay


def encode(state: StreamState) -> bytes:
    """Encode a state as bytes that end with a checksum."""
    tables = [b"" if table is None else to_ipc(table) for table in (getattr(state, name) for name in TABLES)]
    messages = zlib.compress(b"".join(state.messages), MESSAGE_COMPRESSION_LEVEL) if state.messages else b""
    header = json.dumps(
        {
            "position": state.position.to_json(),
            "wake_at": state.wake_at,
            "handled_at": state.handled_at,
            "max_event_time": state.max_event_time,
            "evicted_through": state.evicted_through,
            "counters": asdict(state.counters),
            "computed_before": state.computed_before,
            "due_offsets": None if state.due_offsets is None else dict(state.due_offsets),
            "tables": [len(table) for table in tables],
            "messages": [len(message) for message in state.messages],
        }
    ).encode()
    body = b"".join((MAGIC, struct.pack("<I", len(header)), header, *tables, messages))
    return body + struct.pack("<I", zlib.crc32(body))


def decode(data: bytes) -> StreamState:
    """Decode a state.

    Raises:
        StateError: The bytes are incomplete or damaged.
    """
    if len(data) < len(MAGIC) + 8 or not data.startswith(MAGIC) or zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        raise StateError("the checkpoint is incomplete or damaged", hint="wait until it has been recomputed from the source")
    header_start = len(MAGIC) + 4
    tables_start = header_start + struct.unpack("<I", data[len(MAGIC) : header_start])[0]
    header = json.loads(data[header_start:tables_start])
    ends = list(accumulate(header["tables"], initial=tables_start))
    tables = {name: from_ipc(data[first:last]) for name, (first, last) in zip(TABLES, pairwise(ends), strict=True) if last > first}
    return StreamState(
        position=Position.from_json(header["position"]),
        max_event_time=header["max_event_time"],
        evicted_through=header["evicted_through"],
        computed_before=header["computed_before"],
        due_offsets=header["due_offsets"],
        counters=JobCounters(**header["counters"]),
        wake_at=header["wake_at"],
        handled_at=header["handled_at"],
        messages=decode_messages(data[ends[-1] : -4], header["messages"]),
        **tables,
    )


def decode_messages(data: bytes, lengths: Sequence[int]) -> tuple[bytes, ...]:
    """Decode messages of these lengths."""
    if not lengths:
        return ()
    joined, ends = zlib.decompress(data), list(accumulate(lengths))
    return tuple(joined[end - length : end] for end, length in zip(ends, lengths, strict=True))


def to_ipc(rows: pa.Table) -> bytes:
    """Encode a table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def from_ipc(data: bytes) -> pa.Table:
    """Decode a table from an Arrow IPC stream."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


class StateStore:
    """The checkpoints of one stream: files `<micro-batch>-<epoch>.state`, written atomically.

    Drivers of different epochs never write the same file, so a driver that has been fenced off cannot do damage.
    """

    def __init__(self, uri: str, job_id: str, epoch: int) -> None:
        self.filesystem, root = file_system(uri)
        self._is_remote = is_object_store(uri)
        self.folder = f"{root}/{job_id}"
        self.epoch = epoch

    def write(self, state: StreamState, durable: int) -> None:
        """Write a checkpoint, and delete old ones.

        Args:
            state: The state to write.
            durable: The last micro-batch from which the stream would restart by now. Its checkpoint and a few before it are kept.

        Raises:
            OperationalError: The storage failed.
        """
        batch = state.position.batch
        try:
            self._write(encode(state), self._path(batch, self.epoch), f"{self.folder}/.{batch}-{self.epoch}.part")
            self._delete_old(durable)
        except OSError as error:
            raise OperationalError(f"the state of a stream cannot be written: {error}", hint="check the storage") from error

    def _write(self, data: bytes, path: str, temporary: str) -> None:
        """Write a file atomically: an object appears when it is complete, a local file by a rename."""
        if not self._is_remote:
            self.filesystem.create_dir(self.folder, recursive=True)
        with self.filesystem.open_output_stream(path if self._is_remote else temporary) as file:
            file.write(data)
        failpoint("streams.state.rename")
        if not self._is_remote:
            self.filesystem.move(temporary, path)

    def read(self, batch: int) -> StreamState | None:
        """Return the state after a micro-batch, as written by the newest epoch; None if there is none.

        Raises:
            StateError: The checkpoint is damaged.
            OperationalError: The storage failed.
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
        """Return the micro-batches that have a checkpoint, oldest first."""
        return sorted(self._files())

    def clear(self) -> None:
        """Delete all checkpoints."""
        try:
            if self.filesystem.get_file_info(self.folder).type == fs.FileType.Directory:
                self.filesystem.delete_dir(self.folder)
        except OSError as error:
            raise OperationalError(f"the state of a stream cannot be deleted: {error}", hint="check the storage") from error

    def _path(self, batch: int, epoch: int) -> str:
        return f"{self.folder}/{batch:020d}-{epoch:010d}.state"

    def _names(self) -> list[str]:
        try:
            infos = self.filesystem.get_file_info(fs.FileSelector(self.folder, allow_not_found=True))
        except OSError as error:
            raise OperationalError(f"the state of a stream cannot be listed: {error}", hint="check the storage") from error
        return sorted(info.base_name for info in infos if info.base_name.endswith(".state"))

    def _files(self) -> dict[int, str]:
        """Return for each micro-batch the file of the newest epoch."""
        return {batch_of(name): f"{self.folder}/{name}" for name in self._names()}

    def _delete_old(self, durable: int) -> None:
        """Delete the checkpoints before the last few that are committed; uncommitted ones stay."""
        names = self._names()
        committed = sorted({batch_of(name) for name in names if batch_of(name) <= durable})
        old = set(committed[:-RETAINED_CHECKPOINTS])
        for name in names:
            if batch_of(name) in old:
                self.filesystem.delete_file(f"{self.folder}/{name}")


def batch_of(name: str) -> int:
    """Return the micro-batch in the name of a checkpoint."""
    return int(name.split("-")[0])
