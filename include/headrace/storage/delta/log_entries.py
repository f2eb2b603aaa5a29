"""The entries of a table's log by their names, and what a power failure may have left of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import DamagedLogError
from headrace.storage.object_store import file_system

LOG: Final = "_delta_log"
CHECKED_ENTRIES: Final = 64
"""The newest entries of a log, of which a power failure may have left some empty."""
WRITTEN: Final = ("add", "cdc")
"""The actions of files that a commit has written."""
MAGIC: Final = b"PAR1"
ENTRY: Final = re.compile(r"\d{20}\.json")


def newest_version(uri: str, known: int | None = None) -> int | None:
    """Return the newest version of a local table by the names of its log entries, given one that exists; None if it has none.

    Their number does not matter: versions have no gaps, so a few names show which is the last.
    """
    low = last_checkpoint(uri) if known is None else known
    if known is None and not file_exists(log_file(uri, low)):
        return None
    step = 1
    while file_exists(log_file(uri, low + step)):
        low, step = low + step, 2 * step
    while step > 1:
        step //= 2
        low += step if file_exists(log_file(uri, low + step)) else 0
    return low


def last_checkpoint(uri: str) -> int:
    """Return the version of a table's last checkpoint; 0 if there is none."""
    try:
        return int(json.loads(read_file(f"{uri}/{LOG}/_last_checkpoint"))["version"])
    except (FileNotFoundError, ValueError):  # a power failure may have cut it: it only saves a listing
        return 0


def file_exists(uri: str) -> bool:
    """Return whether a file exists. On an object store this takes one request."""
    if is_local(uri):
        return os.path.exists(uri)
    system, path = file_system(uri)
    try:
        system.open_input_file(path).close()
    except FileNotFoundError:
        return False
    return True


def read_file(uri: str) -> bytes:
    if is_local(uri):
        with open(uri, "rb") as file:
            return file.read()
    system, path = file_system(uri)
    with system.open_input_stream(path) as stream:
        return bytes(stream.read())


def read_entry(uri: str, version: int) -> bytes | None:
    """Read the log entry of a version; None if it does not exist."""
    try:
        return read_file(log_file(uri, version))
    except FileNotFoundError:
        return None


def is_log_entry(content: bytes) -> bool:
    """Return whether the content of a log entry is complete."""
    try:
        return bool(content) and all(isinstance(json.loads(line), dict) for line in content.splitlines())
    except ValueError:
        return False


def check_entry(uri: str, version: int, name: str, content: bytes | None = None, *, has_files: bool = True) -> None:
    """Raise `DamagedLogError` if a table's log entry is incomplete, or unless `has_files` is False, a local file that it adds.

    The `content` of the entry is read unless it is given.

    delta-rs takes an empty entry for a commit of nothing.
    """
    damage = find_damage(uri, read_file(log_file(uri, version)) if content is None else content, has_files=has_files)
    if damage is not None:
        raise DamagedLogError(
            f"version {version} of {name} is damaged: {damage} is incomplete",
            hint="a power failure cuts commits of programs that do not sync; `headrace repair` replaces them by empty commits, or "
            "restore a backup",
        )


def find_damage(uri: str, content: bytes, removed: Collection[str] = (), *, has_files: bool = True) -> str | None:
    """Return what is incomplete of a version with this log entry: the entry, or the path of a file that it adds; None if nothing.

    Files that a later version has `removed` need not exist.
    """
    if not is_log_entry(content):
        return "its log entry"
    if not (has_files and is_local(uri)):
        return None
    for line in content.splitlines():
        for name, action in json.loads(line).items():
            if name in WRITTEN and "://" not in action["path"] and action["path"] not in removed:
                path = f"{uri}/{unquote(action['path'])}"
                # A vacuum may have removed a change file. What was added lives.
                if not is_whole(path) and (name == "add" or os.path.exists(path)):
                    return path
    return None


def is_whole(path: str) -> bool:
    """Return whether a Parquet file exists and has its end: one that was not synced may be cut, or end in zeros."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - len(MAGIC)))
            return file.read() == MAGIC
    except FileNotFoundError:
        return False


def check_entries(uri: str, name: str, first: int, last: int) -> None:
    """Raise `DamagedLogError` if a log entry of a local table is empty, or the last version is incomplete."""
    if not is_local(uri):
        return
    for version in range(max(first, 0), last):
        with suppress(FileNotFoundError):  # a checkpoint has replaced it
            if not os.path.getsize(log_file(uri, version)):
                check_entry(uri, version, name)
    with suppress(FileNotFoundError):
        check_entry(uri, last, name)


@contextmanager
def explain_damage(uri: str, name: str) -> Iterator[None]:
    """Raise `DamagedLogError` for a failure to read the log of a local table of which an entry or checkpoint is incomplete."""
    try:
        yield
    except Exception:
        for version in log_versions(uri)[-CHECKED_ENTRIES:]:
            check_entry(uri, version, name, has_files=False)
        for path in damaged_checkpoints(uri):
            raise DamagedLogError(
                f"the log of {name} is damaged: its checkpoint {path} is incomplete", hint="`headrace repair` removes it"
            ) from None
        raise


def damaged_checkpoints(uri: str) -> Iterator[Path]:
    """Yield the incomplete checkpoints of a local table. The log does without them, as its entries are kept until one is synced."""
    for path in sorted(Path(uri, LOG).glob("*.checkpoint*.parquet")) if is_local(uri) else ():
        try:
            pq.read_metadata(path)
        except (OSError, pa.ArrowException):
            yield path


def log_versions(uri: str) -> list[int]:
    """Return the versions that have an entry in the log of a local table, in order; none for other tables."""
    if not is_local(uri):
        return []
    with suppress(FileNotFoundError):
        return sorted(int(name.removesuffix(".json")) for name in os.listdir(f"{uri}/{LOG}") if ENTRY.fullmatch(name))
    return []


def is_local(uri: str) -> bool:
    return "://" not in uri


def log_file(uri: str, version: int) -> str:
    return f"{uri}/{LOG}/{version:020}.json"
