"""What crashes leave behind of streams that do not exist: folders of states and of undelivered messages."""

from __future__ import annotations

import logging
import time
from typing import Final

from pyarrow import fs

from headrace.context import Context
from headrace.errors import OperationalError
from headrace.storage.delta.handles import path_segment
from headrace.storage.delta.outbox import FOLDER
from headrace.storage.object_store import file_system

logger = logging.getLogger(__name__)

MIN_AGE_S: Final = 24 * 3600
"""Younger folders stay: their stream may be about to be recorded, or its driver about to learn that it was dropped."""


def remove_leftovers(context: Context, min_age_s: float = MIN_AGE_S) -> int:
    """Delete folders that belong to no stream and that nothing was written to lately; return how many."""
    try:
        return sum(remove_unknown(context, root, min_age_s) for root in (context.state_uri, f"{context.tables.uri}/{FOLDER}"))
    except OSError as error:
        raise OperationalError(f"what crashes have left cannot be deleted: {error}", hint="check the storage") from error


def remove_unknown(context: Context, uri: str, min_age_s: float) -> int:
    """Delete the folders of a root that no job of the catalog has; return how many."""
    system, root = file_system(uri)
    folders = [info for info in system.get_file_info(fs.FileSelector(root, allow_not_found=True)) if not info.is_file]
    jobs = {path_segment(record.definition.id) for record in context.catalog.jobs.parts()}
    removed = [info for info in folders if info.base_name not in jobs and age_s(system, info) >= min_age_s]
    for info in removed:
        logger.info("deleting %s, which belongs to no stream", info.path)
        system.delete_dir(info.path)
    return len(removed)


def age_s(system: fs.FileSystem, folder: fs.FileInfo) -> float:
    """Return the seconds since something in a folder was written, or an empty one was created."""
    files = system.get_file_info(fs.FileSelector(folder.path, recursive=True))
    return time.time() - max((info.mtime.timestamp() for info in (folder, *files) if info.mtime is not None), default=0)
