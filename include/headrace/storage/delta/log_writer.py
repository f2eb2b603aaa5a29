"""Log entries that Headrace writes itself, for commits on a local disk that delta-rs has no call for."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from deltalake.exceptions import CommitFailedError

from headrace.storage.delta.handles import LOG, log_file

if TYPE_CHECKING:
    from headrace.storage.delta.snapshots import Snapshot

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


def can_write_entry(snapshot: Snapshot) -> bool:
    """Return whether `write_entry` may write the log entry that follows a version of a local table.

    If a checkpoint follows, delta-rs has to do it. A table to which another writer has given features, constraints or partitions
    is left to delta-rs too, which knows their rules.
    """
    properties = snapshot.properties
    if not properties.keys() <= KNOWN_PROPERTIES or snapshot.is_partitioned or snapshot.writer_version > MAX_WRITER_VERSION:
        return False
    is_before_checkpoint = (snapshot.number + 2) % int(properties.get(CHECKPOINT_INTERVAL) or 1) == 0
    if properties.get("delta.enableChangeDataFeed") != "true" or is_before_checkpoint:
        return False
    return all(field.nullable and not any(name.startswith(b"delta.") for name in field.metadata or {}) for field in snapshot.schema)


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
        # A shared folder may have created the link and lost the answer: then the version is this file.
        if not os.path.samefile(temporary, log_file(uri, version)):
            raise CommitFailedError(f"version {version} exists") from error
    finally:
        os.unlink(temporary)
