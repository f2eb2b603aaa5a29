"""The files of a stream's checkpoints, on a local disk or an object store."""

from __future__ import annotations

from fnmatch import fnmatch

import pyarrow.fs as pafs

from headrace.streams.state.store import StateStore


def remove_state(store: StateStore, pattern: str) -> None:
    """Remove the files of a stream's checkpoints whose names match a pattern; there must be some."""
    infos = store.filesystem.get_file_info(pafs.FileSelector(store.folder))
    matching = [info.path for info in infos if fnmatch(info.base_name, pattern)]
    assert matching, [info.base_name for info in infos]
    for path in matching:
        store.filesystem.delete_file(path)
