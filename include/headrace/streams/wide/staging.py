"""Folders of staged results: one for each micro-batch, in the folder of the stream's state."""

from __future__ import annotations

import uuid
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from headrace.storage.object_store import file_system
from headrace.streams.batches import StagedWindows
from headrace.streams.context import Context

FOLDER: Final = "staged"


def create_staging_folder(context: Context, job_id: str) -> str:
    """Create a folder; return its URI."""
    folder = f"{context.state_uri}/{job_id}/{FOLDER}/{uuid.uuid4().hex}"
    system, root = file_system(folder)
    system.create_dir(root, recursive=True)
    return folder


def stage_windows(folder: str, windows: pa.Table) -> tuple[str, ...]:
    """Write windows, if there are any, to a new file; return its name."""
    if not windows.num_rows:
        return ()
    system, root = file_system(folder)
    name = f"{uuid.uuid4().hex}.parquet"
    pq.write_table(windows, f"{root}/{name}", filesystem=system, compression="zstd")
    return (name,)


def discard_staged(staged: StagedWindows) -> None:
    """Delete staged windows, and those that other micro-batches of the stream have left behind."""
    system, root = file_system(staged.uri)
    folder = root.rpartition("/")[0]
    if system.get_file_info(folder).type == fs.FileType.Directory:
        system.delete_dir(folder)
