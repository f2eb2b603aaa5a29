"""What a stream carries from one batch to the next, immutable and named by the source version it belongs to."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict, dataclass, field
from typing import Final

import pyarrow as pa
from pyarrow import fs

from headrace.errors import OperationalError, TerminalError
from headrace.model.faults import reach
from headrace.model.streams import StreamCounters

MAGIC: Final = b"HRSTATE1"
KEPT: Final = 3
"""States of so many versions stay: what comes after an older one can be worked out again from the source's changes."""

SEEN: Final = pa.schema([("tbname", pa.string()), ("_seen", pa.int64())])


class StateError(TerminalError):
    """A state file is damaged, or is not the plan's."""

    code = "STATE"


@dataclass(frozen=True)
class State:
    """The state of a stream after the source version `version`.

    Attributes:
        windows: Held windows: group columns `p*`, `_wstart`, `_wend` (ticks, inclusive), the plan's partial aggregates, and
            `_emitted`: whether the target has a row of it. None before the first window.
        seen: `tbname`, `_seen`: the largest event time of each subtable, of rows that the query's WHERE keeps.
        newest: The largest of them all; None before the first row. The frontier is `newest - watermark`.
        floor: Windows that start at or before it and are not held may have stored rows; later ones that are not held have none.
        counters: Totals since the stream began, without pending rows.
    """

    version: int
    windows: pa.Table | None = None
    seen: pa.Table = field(default_factory=SEEN.empty_table)
    newest: int | None = None
    floor: int | None = None
    counters: StreamCounters = field(default_factory=StreamCounters)

    def frontier(self, watermark: int) -> int | None:
        """Windows whose last instant lies before it are closed."""
        return None if self.newest is None else self.newest - watermark


def encode(state: State) -> bytes:
    """A state as bytes that end with a checksum."""
    windows = b"" if state.windows is None else ipc(state.windows)
    header = json.dumps(
        {
            "version": state.version,
            "newest": state.newest,
            "floor": state.floor,
            "counters": asdict(state.counters),
            "windows": len(windows),
        }
    ).encode()
    body = b"".join((MAGIC, struct.pack("<I", len(header)), header, windows, ipc(state.seen)))
    return body + struct.pack("<I", zlib.crc32(body))


def decode(data: bytes) -> State:
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
    return State(
        version=header["version"],
        windows=table(data[begin:middle]) if header["windows"] else None,
        seen=table(data[middle:-4]),
        newest=header["newest"],
        floor=header["floor"],
        counters=StreamCounters(**header["counters"]),
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
    """The state files of one stream: `<version>-<epoch>.state`, written whole or not at all.

    Drivers of different epochs never write the same file, so that one which has been fenced spoils nothing.
    """

    def __init__(self, uri: str, stream_id: str, epoch: int) -> None:
        self.filesystem, root = fs.FileSystem.from_uri(uri)
        self.folder = f"{root}/{stream_id}"
        self.epoch = epoch

    def write(self, state: State, base: int) -> None:
        """Store a state that was made from the committed one of version `base`, and drop those that are no longer needed.

        Raises:
            OperationalError: the storage refused.
        """
        try:
            self.filesystem.create_dir(self.folder, recursive=True)
            temporary = f"{self.folder}/.{state.version}-{self.epoch}.part"
            with self.filesystem.open_output_stream(temporary) as file:
                file.write(encode(state))
            reach("streams.state.rename")
            self.filesystem.move(temporary, self._path(state.version, self.epoch))
            self._drop_old(base)
        except OSError as error:
            raise OperationalError(f"the state of a stream cannot be written: {error}", hint="see to the storage") from error

    def read(self, version: int) -> State | None:
        """The state of a version, of the newest epoch that wrote it; None where there is none.

        Raises:
            StateError: there is one, but it is damaged.
            OperationalError: the storage refused.
        """
        path = self._files().get(version)
        if path is None:
            return None
        try:
            with self.filesystem.open_input_stream(path) as file:
                data = file.read()
        except OSError as error:
            raise OperationalError(f"the state of a stream cannot be read: {error}", hint="see to the storage") from error
        return decode(data)

    def versions(self) -> list[int]:
        """Versions that have a state, oldest first."""
        return sorted(self._files())

    def clear(self) -> None:
        """Remove all states."""
        try:
            if self.filesystem.get_file_info(self.folder).type == fs.FileType.Directory:
                self.filesystem.delete_dir(self.folder)
        except OSError as error:
            raise OperationalError(f"the state of a stream cannot be removed: {error}", hint="see to the storage") from error

    def _path(self, version: int, epoch: int) -> str:
        return f"{self.folder}/{version:020d}-{epoch:010d}.state"

    def _names(self) -> list[str]:
        try:
            found = self.filesystem.get_file_info(fs.FileSelector(self.folder, allow_not_found=True))
        except OSError as error:
            raise OperationalError(f"the state of a stream cannot be listed: {error}", hint="see to the storage") from error
        return sorted(info.base_name for info in found if info.base_name.endswith(".state"))

    def _files(self) -> dict[int, str]:
        """For each version the file of the newest epoch."""
        return {int(name.split("-")[0]): f"{self.folder}/{name}" for name in self._names()}

    def _drop_old(self, base: int) -> None:
        """Drop what is older than the last states up to `base`, the version that is surely committed."""
        committed = sorted({int(name.split("-")[0]) for name in self._names() if int(name.split("-")[0]) <= base})
        old = set(committed[:-KEPT])
        for name in self._names() if old else []:
            if int(name.split("-")[0]) in old:
                self.filesystem.delete_file(f"{self.folder}/{name}")
