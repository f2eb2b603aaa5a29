"""Folders of staged results: one for each micro-batch, in the folder of the stream's state."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from headrace.context import Context
from headrace.storage.object_store import file_system
from headrace.streams.batches import BatchResult, StagedWindows, idle_result
from headrace.streams.definition.define import StreamPlan
from headrace.streams.keep import kept_result

FOLDER: Final = "staged"


def can_stage(plan: StreamPlan) -> bool:
    """Return whether executors can write the results of a stream: nothing but its rows follows from its windows."""
    return plan.target.key is None and plan.notification is None and not plan.fills_gaps


def create_staging_folder(context: Context, job_id: str) -> StagedWindows:
    """Create a folder, which names the driver's epoch."""
    folder = f"{context.state_uri}/{job_id}/{FOLDER}/{context.epoch:010d}-{uuid.uuid4().hex}"
    system, root = file_system(folder)
    system.create_dir(root, recursive=True)
    return StagedWindows(folder)


def stage_windows(folder: str, windows: pa.Table) -> tuple[str, ...]:
    """Write windows, if there are any, to a new file; return its name."""
    if not windows.num_rows:
        return ()
    system, root = file_system(folder)
    name = f"{uuid.uuid4().hex}.parquet"
    pq.write_table(windows, f"{root}/{name}", filesystem=system, compression="zstd")
    return (name,)


def stage_result(plan: StreamPlan, result: BatchResult, now: int, staged: StagedWindows | None) -> BatchResult:
    """Return a result without what the target does not keep, its windows staged after others; None leaves them in memory."""
    kept = kept_result(plan, result, now)
    if staged is None:
        return kept
    files, retracted = (stage_windows(staged.uri, rows) for rows in (kept.upserts, kept.retractions))
    return replace(idle_result(kept.state), staged=staged.plus(files, retracted))


def discard_staged(staged: StagedWindows) -> None:
    system, root = file_system(staged.uri)
    if system.get_file_info(root).type == fs.FileType.Directory:
        system.delete_dir(root)


def discard_leftovers(context: Context, job_id: str) -> None:
    """Delete what earlier micro-batches of a stream have staged and never committed, and what older drivers have.

    Call it before the first micro-batch, once older drivers are fenced off: what they stage from then on cannot be committed. A
    driver that has been fenced off itself leaves what newer ones stage.
    """
    system, root = file_system(f"{context.state_uri}/{job_id}/{FOLDER}")
    for folder in system.get_file_info(fs.FileSelector(root, allow_not_found=True)):
        if folder.type == fs.FileType.Directory and epoch_of(folder.base_name) <= context.epoch:
            system.delete_dir(folder.path)


def epoch_of(folder: str) -> int:
    """Return the epoch in the name of a folder."""
    epoch = folder.partition("-")[0]
    return int(epoch) if epoch.isdigit() else 0
