"""Commits that are known to have taken place, even if the answer is lost.

An object store may store a log entry and the connection break before it says so. The client then repeats the conditional put, finds
that the entry exists, and reports a conflict. A writer that did its work again would find its own rows and write them as an update.
The same may happen to a link in a folder that is shared by NFS. So each commit has a marker in its log entry.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from headrace.storage.delta.commits import MARKER, Commit, commit_properties
from headrace.storage.delta.handles import table_uri_of
from headrace.storage.delta.log import read_commit

log = logging.getLogger(__name__)


def commit_once(
    delta: DeltaTable,
    commit: Commit | None,
    operation: Callable[[CommitProperties], dict[str, Any] | None],
    metadata: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Commit the next version of a table by an operation of delta-rs, and return its metrics.

    `metadata` are fields that the log entry has beside what the operation says.

    Raises:
        CommitFailedError: The version is that of another writer.
    """
    version, marker = delta.version() + 1, uuid.uuid4().hex
    try:
        return operation(commit_properties(commit, {MARKER: marker, **(metadata or {})})) or {}
    except CommitFailedError:
        logged = read_commit(table_uri_of(delta), version)
        if logged is None or logged.marker != marker:
            raise
        log.info("version %d of %s was committed, but the answer was lost", version, delta.table_uri)
        delta.load_as_version(version)
        return logged.metrics


def commit_actions(delta: DeltaTable, added: Sequence[AddAction], commit: Commit | None) -> int:
    """Commit files that are written already, and return the version."""
    version = delta.version() + 1

    def write(properties: CommitProperties) -> None:
        delta.create_write_transaction([*added], "append", delta.schema(), commit_properties=properties)

    commit_once(delta, commit, write)
    return version
