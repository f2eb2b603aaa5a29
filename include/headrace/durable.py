"""Files that survive a power failure: written, synced, put in place by one step, and their folders synced.

Everything that is acknowledged rests on these functions, unless its folder is relaxed. Syncing a file twice is harmless.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final, TypeAlias

DRAFT_SUFFIX: Final = ".tmp"
"""Ends the name of a file that is being written."""
SYNCS_AT_ONCE: Final = 8
"""Threads that sync: file systems let calls at the same time share one write of their journal."""
# A file that was removed meanwhile needs no sync, and some shared folders have none.
NEEDLESS: Final = frozenset({errno.ENOENT, errno.EINVAL})

Content: TypeAlias = bytes | Callable[[IO[bytes]], object]
"""What a file holds, or what writes it to the open file."""

_threads: ThreadPoolExecutor | None = None
_relaxed: set[str] = set()


def relax(root: str | os.PathLike[str], *, relaxed: bool) -> None:
    """Say whether files below a root may be lost in a power failure, so that none is synced."""
    (_relaxed.add if relaxed else _relaxed.discard)(os.fspath(root).removeprefix("file://").rstrip("/"))


def is_relaxed(path: str | os.PathLike[str]) -> bool:
    return any(f"{os.fspath(path)}/".startswith(f"{root}/") for root in _relaxed)


def sync(*paths: str | os.PathLike[str]) -> None:
    """Have files and folders survive a power failure: their content, and the names that a folder has.

    Raises:
        OSError: One cannot be written.
    """
    global _threads
    wanted = [path for path in {os.fspath(path): None for path in paths} if not is_relaxed(path)]
    if len(wanted) < 2:
        for path in wanted:
            _sync(path)
        return
    if _threads is None:
        _threads = ThreadPoolExecutor(SYNCS_AT_ONCE, "sync")
    list(_threads.map(_sync, wanted))


def _sync(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in NEEDLESS:
            raise


def write(path: Path, content: Content, *, mode: int = 0o666, written: Callable[[], None] = lambda: None) -> None:
    """Create or replace a file in a folder that exists. Readers see the old content or the new one.

    Args:
        path: The file.
        content: What it holds.
        mode: Its permissions, less the process's mask.
        written: Called before the file is put in place.
    """
    draft = draft_of(path)
    try:
        _write_draft(draft, content, mode)
        sync(draft)
        written()
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync(path.parent)


def create(path: Path, content: Content, *, mode: int = 0o666, named: Collection[str] = ()) -> None:
    """Create a file, as `write` does, unless it exists.

    Args:
        path: The file.
        content: What it holds.
        mode: Its permissions, less the process's mask.
        named: Files and folders that the content names, which are synced before it is put in place.

    Raises:
        FileExistsError: It exists, and is the file of another writer.
    """
    draft = draft_of(path)
    try:
        _write_draft(draft, content, mode)
        sync(draft, *named)
        try:
            os.link(draft, path)
        except FileExistsError:
            # A shared folder may have created the link and lost the answer: then it is this file.
            if not os.path.samefile(draft, path):
                raise
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)


def draft_of(path: Path) -> Path:
    """Return the path of a new draft of a file."""
    return path.with_name(f".{uuid.uuid4().hex}{DRAFT_SUFFIX}")


def _write_draft(draft: Path, content: Content, mode: int) -> None:
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        if callable(content):
            content(file)
        else:
            file.write(content)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Create a folder with those above it that are missing. `Path.mkdir` gives the permissions to the last one alone."""
    missing = [path for path in (folder, *folder.parents) if not path.is_dir()]
    for path in reversed(missing):
        path.mkdir(mode, exist_ok=True)
    sync(*(path.parent for path in missing))


def _forget_threads() -> None:
    global _threads
    _threads = None


os.register_at_fork(after_in_child=_forget_threads)
