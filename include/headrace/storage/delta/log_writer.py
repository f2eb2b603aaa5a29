"""Log entries that Headrace writes itself, for commits on a local disk that delta-rs has no call for."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from deltalake.exceptions import CommitFailedError

from headrace.storage.delta.handles import LOG, is_local, log_file, stored_schema

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from headrace.storage.delta.handles import Handle

MAX_WRITER_VERSION: Final = 4
"""The newest protocol that is known; with it a table may have constraints, which its properties and columns show."""
KNOWN_PROPERTIES: Final = frozenset(
    {
        "delta.checkpointInterval",
        "delta.dataSkippingStatsColumns",
        "delta.deletedFileRetentionDuration",
        "delta.enableChangeDataFeed",
        "delta.logRetentionDuration",
    }
)
"""The properties that ask nothing of a commit except to write change files."""
CHECKPOINT_INTERVAL: Final = "delta.checkpointInterval"


def can_write_entry(handle: Handle, delta: DeltaTable) -> bool:
    """Return whether the next log entry may be written by `write_entry`.

    On an object store delta-rs has to do it, and so it has if a checkpoint follows. A table to which another writer has given
    features, constraints or partitions is left to delta-rs, which knows their rules.
    """
    metadata = delta.metadata()
    properties = metadata.configuration
    if not is_local(handle.uri) or not properties.keys() <= KNOWN_PROPERTIES or metadata.partition_columns:
        return False
    if properties.get("delta.enableChangeDataFeed") != "true" or delta.protocol().min_writer_version > MAX_WRITER_VERSION:
        return False
    interval = int(properties.get(CHECKPOINT_INTERVAL) or 1)
    is_before_checkpoint = (delta.version() + 2) % interval == 0
    return not is_before_checkpoint and all(
        field.nullable and not any(name.startswith(b"delta.") for name in field.metadata or {}) for field in stored_schema(delta)
    )


def write_entry(uri: str, version: int, actions: Sequence[dict[str, Any]]) -> None:
    """Commit a version of a local table: create its log entry with these actions, as delta-rs does, unless it exists.

    Raises:
        CommitFailedError: The version exists.
    """
    temporary = f"{uri}/{LOG}/_commit_{uuid.uuid4()}.json.tmp"
    with open(temporary, "x", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(action, separators=(',', ':'))}\n" for action in actions)
    try:
        os.link(temporary, log_file(uri, version))
    except FileExistsError as error:
        raise CommitFailedError(f"version {version} exists") from error
    finally:
        os.unlink(temporary)
