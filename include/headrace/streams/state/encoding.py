"""The files of checkpoints as bytes: a header, tables, messages, and a checksum.

A complete file has all windows and event times. A file of changes has the rows that micro-batches have added to these tables since
the file before it, and the numbers of those that they have removed. Everything else is small, and complete in every file.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.model.conversion import from_json, to_json
from headrace.model.jobs import JobCounters
from headrace.model.positions import Position
from headrace.streams.state.checkpoints import Checkpoint, StateError, StreamState
from headrace.streams.state.tables import NO_IDS, ROW_ID, StateTable

MAGIC: Final = b"HRSTATE2"
PREFIX: Final = struct.Struct("<8sI")
"""The magic number, and the length of the header."""
CHECKSUM: Final = struct.Struct("<I")
MESSAGE_COMPRESSION_LEVEL: Final = 1

TABLES: Final = ("deferred", "rows_before", "last_results", "earlier_tags")
"""The tables that every file has."""
STATE_TABLES: Final = ("windows", "max_event_time_by_subtable")
"""The tables of which a file may have only the changes."""
VALUES: Final = ("max_event_time", "evicted_through", "computed_before", "tags_version", "due_offsets", "wake_at", "handled_at")
"""Numbers and offsets."""

Buffers = Sequence[bytes | pa.Buffer]


@dataclass(frozen=True)
class StateFile:
    """The content of a file; the header has everything but tables and messages.

    The tables are, by name, those of `TABLES`, and of those of `STATE_TABLES` the added rows and, as `<name>.removed`, the numbers
    of removed rows.
    """

    header: Mapping[str, Any]
    tables: Mapping[str, pa.Table]
    messages: tuple[bytes, ...]
    checksum: int
    size: int

    @property
    def earlier_files(self) -> tuple[tuple[str, int], ...]:
        """The names and checksums of the files that have to be read before it."""
        return tuple((name, checksum) for name, checksum in self.header["earlier_files"])


def encode(state: StreamState, earlier: Checkpoint | None) -> Buffers:
    """Encode a state. The file continues the tables of the checkpoint `earlier`; None writes a complete file."""
    tables = [(name, table) for name in TABLES if (table := getattr(state, name)) is not None]
    saved = {}
    for name in STATE_TABLES:
        state_table: StateTable | None = getattr(state, name)
        if state_table is None:
            continue
        is_change = earlier is not None and state_table.origin == earlier.name
        saved[name] = {"keys": state_table.keys, "next_id": state_table.next_id, "is_change": is_change}
        tables.append((name, state_table.to_table(from_id=state_table.saved_id if is_change else 0, numbered=True)))
        if is_change:
            tables.append((f"{name}.removed", pa.table({ROW_ID: state_table.removed_since()})))
    encoded = [(name, to_ipc(table)) for name, table in tables]
    values = {name: to_json(getattr(state, name)) for name in (*VALUES, "position", "counters")}
    header = values | {
        "state_tables": saved,
        "earlier_files": [] if earlier is None else earlier.files,
        "tables": [(name, len(data)) for name, data in encoded],
        "messages": [len(message) for message in state.messages],
    }
    text = json.dumps(header).encode()
    messages = zlib.compress(b"".join(state.messages), MESSAGE_COMPRESSION_LEVEL) if state.messages else b""
    buffers = [PREFIX.pack(MAGIC, len(text)), text, *(data for _, data in encoded), messages]
    return [*buffers, CHECKSUM.pack(checksum_of(buffers))]


def checksum_of(buffers: Buffers) -> int:
    checksum = 0
    for data in buffers:
        checksum = zlib.crc32(data, checksum)
    return checksum


def decode_file(data: pa.Buffer) -> StateFile:
    """Decode a file; `StateError` if its bytes are incomplete or damaged."""
    view = memoryview(data)
    checksum = None if len(view) < PREFIX.size + CHECKSUM.size else CHECKSUM.unpack(view[-CHECKSUM.size :])[0]
    if checksum is None or zlib.crc32(view[: -CHECKSUM.size]) != checksum or bytes(view[: len(MAGIC)]) != MAGIC:
        raise StateError("the checkpoint is incomplete or damaged", hint="wait until it has been recomputed from the source")
    start = PREFIX.size + PREFIX.unpack(view[: PREFIX.size])[1]
    header = json.loads(bytes(view[PREFIX.size : start]))
    names, lengths = [name for name, _ in header["tables"]], [length for _, length in header["tables"]]
    ends = list(accumulate(lengths, initial=start))
    tables = {name: from_ipc(data.slice(first, last - first)) for name, (first, last) in zip(names, pairwise(ends), strict=True)}
    messages = decode_messages(bytes(view[ends[-1] : -CHECKSUM.size]), header["messages"])
    return StateFile(header, tables, messages, checksum, len(view))


def read_earlier_names(file: pa.NativeFile) -> tuple[str, ...]:
    """Return the names of the files that have to be read before one; none if it is damaged."""
    try:
        magic, length = PREFIX.unpack(file.read(PREFIX.size))
        header = json.loads(file.read(length)) if magic == MAGIC else {"earlier_files": []}
        return tuple(name for name, _ in header["earlier_files"])
    except (struct.error, ValueError, TypeError, KeyError):
        return ()


def decode(files: Sequence[StateFile]) -> StreamState:
    """Return the state of a file. Those that have to be read before it come first."""
    last = files[-1]
    header = last.header
    tables: dict[str, Any] = {name: last.tables[name] for name in TABLES if name in last.tables}
    tables |= {name: decode_table(name, files) for name in STATE_TABLES if name in header["state_tables"]}
    values: dict[str, Any] = {name: header.get(name) for name in VALUES}
    position, counters = from_json(Position, header["position"]), from_json(JobCounters, header["counters"])
    return StreamState(position=position, counters=counters, messages=last.messages, **values, **tables)


def decode_table(name: str, files: Sequence[StateFile]) -> StateTable:
    """Return a table of the state: the last complete one, and the changes since."""
    first = max(index for index, file in enumerate(files) if not file.header["state_tables"].get(name, {}).get("is_change"))
    rows = pa.concat_tables([file.tables[name] for file in files[first:]], promote_options="permissive")
    removed = [file.tables[f"{name}.removed"][ROW_ID].to_numpy() for file in files[first + 1 :]]
    ids = rows[ROW_ID].to_numpy()
    is_live = ~np.isin(ids, np.concatenate([NO_IDS, *removed]))
    saved = files[-1].header["state_tables"][name]
    return StateTable.of(rows.drop_columns(ROW_ID).filter(pa.array(is_live)), saved["keys"], ids[is_live], saved["next_id"])


def decode_messages(data: bytes, lengths: Sequence[int]) -> tuple[bytes, ...]:
    if not lengths:
        return ()
    joined, ends = zlib.decompress(data), list(accumulate(lengths))
    return tuple(joined[end - length : end] for end, length in zip(ends, lengths, strict=True))


def to_ipc(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def from_ipc(data: pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
