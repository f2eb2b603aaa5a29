"""Repair of logs of which a power failure has cut what was never synced, and so never acknowledged by Headrace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from headrace import durable
from headrace.storage.delta.appending import commit_info
from headrace.storage.delta.handles import normalize_root
from headrace.storage.delta.log_entries import (
    CHECKED_ENTRIES,
    LOG,
    damaged_checkpoints,
    find_damage,
    is_local,
    log_file,
    log_versions,
)


def repair_tables(root: str) -> Iterator[str]:
    """Repair all tables below a root: rows, tags and outboxes; yield what was done. A PUT to an object store leaves no damage."""
    root = normalize_root(root)
    for log in sorted(Path(root).rglob(LOG)) if is_local(root) else ():
        uri = str(log.parent)
        damaged = damaged_versions(uri)
        later = [path for path in sorted(log.glob("*.checkpoint*.parquet")) if damaged and int(path.name[:20]) >= damaged[-1]]
        for path in {*damaged_checkpoints(uri), *later}:
            # Log entries have what it had, and one after a damaged entry has what that did.
            path.rename(path.with_suffix(".damaged"))
            (log / "_last_checkpoint").unlink(missing_ok=True)
            durable.sync(log)
            yield f"{path}: removed"
        for version in damaged:
            if version:
                _replace_entry(uri, version)
            done = "replaced by a commit of nothing" if version else "not repaired: drop the table, or restore a backup"
            yield f"{log_file(uri, version)}: {done}"


def damaged_versions(uri: str) -> list[int]:
    """Return the versions of a local table whose log entries are incomplete, or lack a file that they add; the newest first."""
    damaged: list[int] = []
    removed: set[str] = set()
    for age, version in enumerate(reversed(log_versions(uri))):
        content = Path(log_file(uri, version)).read_bytes()
        if find_damage(uri, content, removed, has_files=age < CHECKED_ENTRIES) is not None:
            damaged.append(version)
        elif age < CHECKED_ENTRIES:
            actions = [json.loads(line) for line in content.splitlines()]
            removed.update(action["remove"]["path"] for action in actions if "remove" in action)
    return damaged


def _replace_entry(uri: str, version: int) -> None:
    """Replace an entry by a commit that changes nothing, so that offsets keep their meaning. The old one is kept beside it."""
    path = Path(log_file(uri, version))
    durable.write(path.with_suffix(".damaged"), path.read_bytes())
    durable.write(path, f"{json.dumps(commit_info('REPAIR', {}, version, {}))}\n".encode())
