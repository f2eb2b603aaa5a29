"""A job's messages on their way out: a Delta table, so that they are durable, fenced and numbered like any result."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import DeltaTable

from headrace.model.failpoints import failpoint
from headrace.model.positions import Position, SourceId
from headrace.storage.delta.commits import Commit, check_epoch, committed_position, is_recorded
from headrace.storage.delta.committing import commit_once
from headrace.storage.delta.creation import sync_created
from headrace.storage.delta.handles import Handle, path_segment, translate_errors
from headrace.storage.delta.log_entries import is_local
from headrace.storage.delta.writer import Writer, append_rows, fence
from headrace.storage.object_store import delta_options, file_system

FOLDER: Final = ".outbox"
BATCH: Final = "batch"
NUMBER: Final = "number"
PAYLOAD: Final = "payload"
SCHEMA: Final = pa.schema([(BATCH, pa.int64()), (NUMBER, pa.int64()), (PAYLOAD, pa.binary())])
RETENTION_HOURS: Final = 24
"""Files that a driver that died left behind are removed after this long."""
CONFIGURATION: Final[Mapping[str, str | None]] = {
    "delta.dataSkippingStatsColumns": f"{BATCH},{NUMBER}",
    "delta.logRetentionDuration": f"interval {RETENTION_HOURS} hours",
    "delta.deletedFileRetentionDuration": f"interval {RETENTION_HOURS} hours",
}


@dataclass(frozen=True, slots=True)
class Message:
    """A message with a unique id, by which a receiver drops duplicates."""

    job_id: str
    batch: int
    number: int
    payload: bytes

    @property
    def id(self) -> str:
        """The unique id, the same for every delivery."""
        return f"{self.job_id}/{self.batch}/{self.number}"


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A data file with messages of one micro-batch, in order."""

    path: str
    batch: int
    rows: int


class Outbox:
    """The messages of one job that are committed and not yet delivered. Safe for use by several threads."""

    def __init__(self, root: str, job_id: str, writer: Writer) -> None:
        uri = f"{root}/{FOLDER}/{path_segment(job_id)}"
        self.job_id = job_id
        self._writer = writer
        self._handle = Handle(uri, f"outbox of {job_id}")

    def open(self) -> None:
        """Create the table if it does not exist, and remove files that no version names."""
        with translate_errors(self._handle.name):
            DeltaTable.create(
                self._handle.uri,
                SCHEMA,
                mode="ignore",
                configuration=CONFIGURATION,
                storage_options=delta_options(self._handle.uri),
            )
            if is_local(self._handle.uri):
                sync_created(self._handle.uri)
        with self._handle.latest() as delta:
            if delta.vacuum(RETENTION_HOURS, dry_run=True):
                delta.vacuum(RETENTION_HOURS, dry_run=False)

    def fence(self, epoch: int) -> None:
        """Make commits of drivers with an older epoch fail; raise `FencedError` if a newer one is recorded."""
        self._writer.attempts(self._handle, lambda handle, delta: fence(handle, delta, self.job_id, epoch))

    def position(self, sources: Collection[SourceId]) -> Position | None:
        """Return the position of the last micro-batch whose messages were committed; None if there is none."""
        return committed_position(self._handle, self.job_id, sources)

    def append(self, payloads: Sequence[bytes], commit: Commit, batch: int | None = None) -> bool:
        """Commit the messages of a micro-batch, in order; False if they are committed already.

        The version of `commit` is the micro-batch's number, which orders the messages unless `batch` is another one.
        """
        batches = pa.repeat(pa.scalar(commit.version if batch is None else batch, pa.int64()), len(payloads))
        rows = pa.Table.from_arrays(
            [batches, pa.array(range(len(payloads)), pa.int64()), pa.array(payloads, pa.binary())], schema=SCHEMA
        )

        def work(handle: Handle, delta: DeltaTable) -> bool:
            if is_recorded(handle, delta, commit):
                return False
            append_rows(delta, rows, commit)
            return True

        return self._writer.attempts(self._handle, work)

    def pending(self) -> list[MessageFile]:
        """Return the files with messages that are not yet delivered, in order."""
        with self._handle.latest() as delta:
            files = self._handle.files(delta).to_pylist()
        files.sort(key=lambda file: (file[f"min.{BATCH}"], file[f"min.{NUMBER}"]))
        return [MessageFile(file["path"], file[f"min.{BATCH}"], file["num_records"]) for file in files]

    def backlog(self) -> int:
        """Return how many messages are not yet delivered."""
        with self._handle.latest() as delta:
            return int(pc.sum(self._handle.files(delta)["num_records"]).as_py() or 0)

    def read(self, file: MessageFile, most: int) -> Iterator[list[Message]]:
        """Read the messages of a file in order, in lists of at most `most`."""
        system, root = file_system(self._handle.uri)
        with translate_errors(self._handle.name), system.open_input_file(f"{root}/{unquote(file.path)}") as source:
            for rows in pq.ParquetFile(source).iter_batches(most):
                columns = (rows[name].to_pylist() for name in (BATCH, NUMBER, PAYLOAD))
                yield [Message(self.job_id, *values) for values in zip(*columns, strict=True)]

    def remove(self, batch: int, epoch: int) -> None:
        """Remove the messages of all micro-batches up to one: they are delivered.

        Raises:
            FencedError: another driver has taken the job over.
        """

        def work(handle: Handle, delta: DeltaTable) -> list[str]:
            check_epoch(handle, delta, self.job_id, epoch)
            paths = [file["path"] for file in handle.files(delta).to_pylist() if file[f"max.{BATCH}"] <= batch]
            if paths:
                commit_once(delta, None, lambda properties: delta.delete(f"{BATCH} <= {batch}", commit_properties=properties))
            return paths

        paths = self._writer.attempts(self._handle, work)
        failpoint("outbox.removed")
        self._delete_files(paths)

    def drop(self) -> None:
        """Remove everything."""
        system, root = file_system(self._handle.uri)
        with translate_errors(self._handle.name):
            if system.get_file_info(root).type is pafs.FileType.Directory:
                system.delete_dir(root)
        self._handle.forget()

    def _delete_files(self, paths: list[str]) -> None:
        system, root = file_system(self._handle.uri)
        with translate_errors(self._handle.name):
            for path in paths:
                system.delete_file(f"{root}/{unquote(path)}")
