"""The checkpoints of a stream: immutable files, named by micro-batch and epoch."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyarrow import fs

from headrace.errors import OperationalError
from headrace.model.failpoints import failpoint
from headrace.storage.object_store import file_system, write_whole
from headrace.streams.state.checkpoints import Checkpoint, StateError, StreamState
from headrace.streams.state.encoding import (
    CHECKSUM,
    STATE_TABLES,
    Buffers,
    StateFile,
    decode,
    decode_file,
    encode,
    read_earlier_names,
)

RETAINED_CHECKPOINTS: Final = 3
"""Checkpoints to keep: a damaged state can be recomputed from an older one and the changes since."""

MIN_COMPLETE_BYTES = 1 << 18
"""A state that takes less is always written completely."""
MAX_CHANGE_SHARE = 0.5
"""Files of changes together may take this share of the complete file that they continue."""
MAX_FILES: Final = 256
"""Files of one checkpoint: all of them are read when it is restored."""
READER_THREADS: Final = 8


class StateStore:
    """The checkpoints of one stream: files `<micro-batch>-<epoch>.state`, written atomically.

    A file has the whole state, or the changes since the checkpoint before it, whose files it names with their checksums. Drivers of
    different epochs never write the same file, so a driver that has been fenced off cannot do damage. When the last checkpoint was
    written, `oldest` was the first batch that had a file.
    """

    def __init__(self, uri: str, job_id: str, epoch: int) -> None:
        self._uri = f"{uri}/{job_id}"
        self.filesystem, self.folder = file_system(self._uri)
        self.epoch = epoch
        self.oldest = 0
        # The names of the files that must be read before a file.
        self._earlier: dict[str, tuple[str, ...]] = {}

    def write(self, state: StreamState, durable: int) -> StreamState:
        """Write a checkpoint, and delete old ones; return the state, from which the next one has to follow to be small.

        `durable` is the last micro-batch from which the stream would restart by now. Its checkpoint and a few before it are kept.

        Raises:
            OperationalError: The storage failed.
        """
        batch = state.position.batch
        name = f"{batch:020d}-{self.epoch:010d}.state"
        earlier, buffers = self._encode(state, name)
        with storage_errors("written"):
            write_whole(f"{self._uri}/{name}", buffers, lambda: failpoint("streams.state.rename"))
            self._earlier[name] = tuple(file for file, _ in earlier.files) if earlier is not None else ()
            self._delete_old(durable)
        return saved_as(state, checkpoint_of(earlier, name, CHECKSUM.unpack(buffers[-1])[0], size_of(buffers)))

    def _encode(self, state: StreamState, name: str) -> tuple[Checkpoint | None, Buffers]:
        """Return the file of a state, and the checkpoint that it continues; None if it is complete."""
        earlier = state.checkpoint
        if earlier is not None and can_continue(earlier, name):
            buffers = encode(state, earlier)
            if earlier.change_bytes + size_of(buffers) <= earlier.complete_bytes * MAX_CHANGE_SHARE:
                return earlier, buffers
        return None, encode(state, None)

    def read(self, batch: int) -> StreamState | None:
        """Return the state after a micro-batch, as written by the newest epoch; None if there is none.

        Raises:
            StateError: A file of the checkpoint is damaged or missing.
            OperationalError: The storage failed.
        """
        name = self._files().get(batch)
        if name is None:
            return None
        with storage_errors("read"), ThreadPoolExecutor(READER_THREADS) as threads:
            last = decode_file(self._read(name))
            files = [*threads.map(self._read_earlier, last.earlier_files), last]
        names = [*last.earlier_files, (name, last.checksum)]
        changes = sum(file.size for file in files[1:])
        return saved_as(decode(files), Checkpoint(tuple(names), files[0].size, changes))

    def _read(self, name: str) -> pa.Buffer:
        with self.filesystem.open_input_file(f"{self.folder}/{name}") as file:
            return file.read_buffer()

    def _read_earlier(self, expected: tuple[str, int]) -> StateFile:
        name, checksum = expected
        try:
            file = decode_file(self._read(name))
        except FileNotFoundError:
            raise StateError(f"{name}, which the checkpoint continues, is missing") from None
        if file.checksum != checksum:
            raise StateError(f"{name} is not the file that the checkpoint continues")
        return file

    def batches(self) -> list[int]:
        return sorted(self._files())

    def size(self) -> int:
        """Return the bytes of all files."""
        with storage_errors("listed"):
            infos = self.filesystem.get_file_info(fs.FileSelector(self.folder, allow_not_found=True))
        return sum(info.size for info in infos if info.base_name.endswith(".state"))

    def clear(self) -> None:
        with storage_errors("deleted"):
            if self.filesystem.get_file_info(self.folder).type == fs.FileType.Directory:
                self.filesystem.delete_dir(self.folder)

    def _names(self) -> list[str]:
        with storage_errors("listed"):
            infos = self.filesystem.get_file_info(fs.FileSelector(self.folder, allow_not_found=True))
        return sorted(info.base_name for info in infos if info.base_name.endswith(".state"))

    def _files(self) -> dict[int, str]:
        """Return for each micro-batch the file of the newest epoch."""
        return {batch_of(name): name for name in self._names()}

    def _delete_old(self, durable: int) -> None:
        """Delete the files that no checkpoint needs but old ones.

        The last committed checkpoints stay, and all uncommitted ones. If one damaged file could make all of these useless, so does
        the last one without that file.
        """
        names = self._names()
        committed = sorted({batch_of(name) for name in names if batch_of(name) <= durable})
        old = set(committed[:-RETAINED_CHECKPOINTS])
        retained = [name for name in names if batch_of(name) not in old]
        needed = {file for name in retained for file in self._files_of(name)}
        older = [name for name in names if name not in needed]
        if older and len({self._files_of(name)[0] for name in retained}) == 1:
            needed.update(self._files_of(older[-1]))
        for name in names:
            if name not in needed:
                failpoint("streams.state.delete")
                self.filesystem.delete_file(f"{self.folder}/{name}")
                self._earlier.pop(name, None)
        self.oldest = min(map(batch_of, needed), default=0)

    def _files_of(self, name: str) -> tuple[str, ...]:
        if name not in self._earlier:
            with self.filesystem.open_input_file(f"{self.folder}/{name}") as file:
                self._earlier[name] = read_earlier_names(file)
        return (*self._earlier[name], name)


@contextmanager
def storage_errors(done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OperationalError(f"the state of a stream cannot be {done}: {error}", hint="check the storage") from error


def can_continue(checkpoint: Checkpoint, name: str) -> bool:
    """Return whether a file of this name may have only the changes since a checkpoint."""
    is_large = checkpoint.complete_bytes >= MIN_COMPLETE_BYTES
    return is_large and len(checkpoint.files) < MAX_FILES and all(name != file for file, _ in checkpoint.files)


def checkpoint_of(earlier: Checkpoint | None, name: str, checksum: int, size: int) -> Checkpoint:
    if earlier is None:
        return Checkpoint(((name, checksum),), size)
    return Checkpoint((*earlier.files, (name, checksum)), earlier.complete_bytes, earlier.change_bytes + size)


def saved_as(state: StreamState, checkpoint: Checkpoint) -> StreamState:
    tables = {name: getattr(state, name) for name in STATE_TABLES}
    saved = {name: table.saved_as(checkpoint.name) for name, table in tables.items() if table is not None}
    return replace(state, checkpoint=checkpoint, **saved)


def size_of(buffers: Buffers) -> int:
    return sum(len(data) for data in buffers)


def batch_of(name: str) -> int:
    return int(name.split("-")[0])
