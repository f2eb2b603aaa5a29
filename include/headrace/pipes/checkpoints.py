"""The checkpoints of a pipe: what a batch ends at, and the state of its processor then, written before the batch is delivered."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyarrow import fs

from headrace.errors import OperationalError
from headrace.model.failpoints import failpoint
from headrace.model.positions import Offsets
from headrace.storage.object_store import file_system, write_whole

SUFFIX: Final = ".pipe"
LENGTH: Final = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class PipeCheckpoint:
    """What a batch ends at.

    Attributes:
        batch: The number of the batch.
        offsets: The offsets after it.
        now: When it was processed, in epoch ms.
        state: The state of the processor after it: tables by name, None if it has no state.
    """

    batch: int
    offsets: Offsets
    now: int = 0
    state: Mapping[str, pa.Table] | None = field(default=None, compare=False)


class PipeCheckpoints:
    """Files `<batch>-<epoch>.pipe` of one pipe, written atomically. Of a batch, the file of the newest epoch counts."""

    def __init__(self, uri: str, pipe_id: str, epoch: int) -> None:
        self._uri = f"{uri}/{pipe_id}"
        self._system, self._folder = file_system(self._uri)
        self._epoch = epoch

    def write(self, checkpoint: PipeCheckpoint) -> None:
        """Write a checkpoint; raise `OperationalError` if the storage fails."""
        try:
            name = f"{checkpoint.batch:020d}-{self._epoch:010d}{SUFFIX}"
            write_whole(f"{self._uri}/{name}", [encode(checkpoint)], lambda: failpoint("pipes.checkpoint.rename"))
        except OSError as error:
            raise storage_error("written", error) from error

    def read(self, batch: int) -> PipeCheckpoint | None:
        """Return the checkpoint of a batch; None if there is none, or it is damaged."""
        name = self._names().get(batch)
        if name is None:
            return None
        try:
            with self._system.open_input_file(f"{self._folder}/{name}") as file:
                return decode(file.read())
        except OSError as error:
            raise storage_error("read", error) from error
        except (ValueError, KeyError, struct.error, pa.ArrowException):
            return None

    def delete_before(self, batch: int) -> None:
        """Delete the checkpoints of earlier batches."""
        self._delete(name for other, name in self._names().items() if other < batch)

    def delete_after(self, batch: int) -> None:
        """Delete the checkpoints of later batches, unless a newer driver wrote them: the catalog was restored from a backup."""
        self._delete(name for other, name in self._names().items() if other > batch and epoch_of(name) <= self._epoch)

    def _delete(self, names: Iterable[str]) -> None:
        try:
            for name in names:
                self._system.delete_file(f"{self._folder}/{name}")
        except OSError as error:
            raise storage_error("deleted", error) from error

    def clear(self) -> None:
        """Delete all checkpoints."""
        try:
            if self._system.get_file_info(self._folder).type == fs.FileType.Directory:
                self._system.delete_dir(self._folder)
        except OSError as error:
            raise storage_error("deleted", error) from error

    def _names(self) -> dict[int, str]:
        """Return the newest file of each batch."""
        infos = self._system.get_file_info(fs.FileSelector(self._folder, allow_not_found=True))
        names = sorted(info.base_name for info in infos if info.base_name.endswith(SUFFIX))
        return {int(name.partition("-")[0]): name for name in names}


def epoch_of(name: str) -> int:
    """Return the epoch of the driver that wrote a file."""
    return int(name.removesuffix(SUFFIX).partition("-")[2])


def storage_error(done: str, error: OSError) -> OperationalError:
    return OperationalError(f"a checkpoint of a pipe cannot be {done}: {error}", hint="check the storage")


def encode(checkpoint: PipeCheckpoint) -> bytes:
    """Return a checkpoint as bytes: the length of a header in JSON, the header, and an Arrow stream for each table."""
    streams = {name: encode_table(table) for name, table in (checkpoint.state or {}).items()}
    header = {
        "batch": checkpoint.batch,
        "offsets": dict(checkpoint.offsets),
        "now": checkpoint.now,
        "has_state": checkpoint.state is not None,
        "tables": {name: len(stream) for name, stream in streams.items()},
    }
    text = json.dumps(header).encode()
    return b"".join([LENGTH.pack(len(text)), text, *streams.values()])


def encode_table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def decode(data: bytes) -> PipeCheckpoint:
    """Return what `encode` has encoded."""
    (length,) = LENGTH.unpack_from(data)
    start = LENGTH.size + length
    header = json.loads(data[LENGTH.size : start])
    tables = {}
    for name, size in header["tables"].items():
        with pa.ipc.open_stream(pa.py_buffer(data[start : start + size])) as reader:
            tables[name] = reader.read_all()
        start += size
    return PipeCheckpoint(header["batch"], header["offsets"], header["now"], tables if header["has_state"] else None)
