"""Where the files of other writers' tables may be: who writes a log could name any file of this machine."""

from __future__ import annotations

import os
import posixpath

import pyarrow.fs as pafs

from headrace.errors import EgressDeniedError
from headrace.storage.delta.log_entries import is_local
from headrace.storage.object_store import file_system, locate_file


def locate_below(uri: str, path: str, location: str, owner: str) -> tuple[pafs.FileSystem, str]:
    """Return where a file of a table's log is.

    Args:
        uri: Where the log is.
        path: The file, as the log names it.
        location: What the file has to be below, also by links.
        owner: The name of the table, for messages.

    Raises:
        EgressDeniedError: It is elsewhere.
    """
    system, key = locate_file(uri, path)
    root = file_system(location)[1]
    for one in (key, os.path.realpath(key)) if is_local(location) else (key,):
        if not (one.startswith(f"{root}/") and (".." not in one or posixpath.normpath(one).startswith(f"{root}/"))):
            raise EgressDeniedError(
                f"{owner} has a file outside of {location}: {one}", hint="shallow clones and links are not read: copy the files"
            )
    return system, key
