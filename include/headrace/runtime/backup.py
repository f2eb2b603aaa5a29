"""Backups of all that Headrace keeps: the catalog, the tables with the states of streams and stored code, and the key of secrets.

A backup is a folder, on a disk or in an object store. Its manifest is written last, so a backup that did not end has none. Files of
a Delta table never change, so a further backup into the same folder copies only what is new.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pyarrow.fs as pafs

from headrace.context import Context
from headrace.errors import ConflictError, NotFoundError
from headrace.model.progress import Progress, no_progress
from headrace.runtime.living_snodes import living_snodes
from headrace.secrets import KEY_FILE
from headrace.storage.object_store import file_system

MANIFEST: Final = "manifest.json"
CATALOG: Final = "catalog.db"
WAREHOUSE: Final = "warehouse"
LOCK_SUFFIX: Final = ".lock"


@dataclass(frozen=True)
class Backup:
    """What a backup has. `created` is in epoch milliseconds; `version` is that of Headrace."""

    created: int
    version: str
    databases: int
    jobs: int
    files: int
    bytes: int


@dataclass(frozen=True)
class Folder:
    """A folder in a file system of Arrow."""

    system: pafs.FileSystem
    path: str

    @classmethod
    def at(cls, uri: str) -> Folder:
        """Return the folder at a URI or path."""
        system, path = file_system(uri if "://" in uri else str(Path(uri).resolve()))
        return cls(system, path.rstrip("/"))

    def __truediv__(self, name: str) -> Folder:
        return Folder(self.system, f"{self.path}/{name}")

    def files(self) -> dict[str, int]:
        """Return the sizes of all files below, by their paths relative to this folder."""
        selector = pafs.FileSelector(self.path, recursive=True, allow_not_found=True)
        infos = [info for info in self.system.get_file_info(selector) if info.is_file and not info.path.endswith(LOCK_SUFFIX)]
        return {info.path[len(self.path) + 1 :]: info.size for info in infos}

    def read(self) -> bytes | None:
        """Return the content of this path as a file; None if there is none."""
        if not self.system.get_file_info(self.path).is_file:
            return None
        with self.system.open_input_stream(self.path) as stream:
            return bytes(stream.read())

    def write(self, content: bytes) -> None:
        """Write a file at this path."""
        self.system.create_dir(self.path.rpartition("/")[0], recursive=True)
        with self.system.open_output_stream(self.path) as stream:
            stream.write(content)


def back_up(context: Context, destination: str, progress: Progress = no_progress) -> Backup:
    """Copy all that Headrace keeps into a folder, which may have an earlier backup of the same home.

    Raises:
        ConflictError: An snode is running, or the folder has other files.
    """
    require_no_snode(context)
    folder = Folder.at(destination)
    if read_manifest(folder) is None and folder.files():
        raise ConflictError(f"{destination} has files that are no backup", hint="name a new folder, or one with an earlier backup")
    warehouse = Folder.at(context.settings.tables_uri)
    (folder / MANIFEST).write(b"")
    sizes = mirror(warehouse, folder / WAREHOUSE, progress)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / CATALOG
        context.catalog.back_up(copy)
        (folder / CATALOG).write(copy.read_bytes())
    key = context.settings.home_path / KEY_FILE
    if key.exists():
        (folder / KEY_FILE).write(key.read_bytes())
    databases, jobs = len(list(context.catalog.databases.all())), len(context.catalog.jobs.all())
    backup = Backup(context.catalog.now(), version("headrace"), databases, jobs, len(sizes), sum(sizes.values()))
    (folder / MANIFEST).write(json.dumps(asdict(backup)).encode())
    return backup


def restore(context: Context, source: str, progress: Progress = no_progress) -> Backup:
    """Copy a backup into a home, a catalog and a folder of tables that are all unused.

    Raises:
        ConflictError: Something has been created there.
        NotFoundError: There is no backup, or one that did not end.
    """
    folder, warehouse = Folder.at(source), Folder.at(context.settings.tables_uri)
    backup = read_manifest(folder)
    if backup is None:
        raise NotFoundError(f"{source} has no complete backup", hint=f"its file {MANIFEST} is written last; see `headrace backup`")
    if not context.catalog.is_unused or warehouse.files():
        raise ConflictError("the home is in use", hint="restore into a new home, catalog and warehouse, or remove these first")
    require_no_snode(context)
    mirror(folder / WAREHOUSE, warehouse, progress)
    key = (folder / KEY_FILE).read()
    if key is not None:
        path = context.settings.create_home() / KEY_FILE
        path.touch(mode=0o600)
        path.write_bytes(key)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / CATALOG
        copy.write_bytes((folder / CATALOG).read() or b"")
        context.catalog.restore(copy)
    return backup


def require_no_snode(context: Context) -> None:
    """Raise `ConflictError` if an snode is alive: it would write while files are copied."""
    snode = next(living_snodes(context), None)
    if snode is not None:
        hint = "stop it first: `headrace down`, or pause its DAG and wait until its driver has ended"
        raise ConflictError(f"snode {snode.snode} is running", hint=hint)


def read_manifest(folder: Folder) -> Backup | None:
    """Return what a backup says of itself; None if there is none, or it did not end."""
    content = (folder / MANIFEST).read()
    return Backup(**json.loads(content)) if content else None


def mirror(source: Folder, target: Folder, progress: Progress) -> dict[str, int]:
    """Make a folder equal to another, and return the sizes of its files. Files that are there already are not copied again."""
    wanted, present = source.files(), target.files()
    missing = [name for name, size in wanted.items() if present.get(name) != size or not is_immutable(name)]
    total, done = sum(wanted[name] for name in missing), 0
    for name in missing:
        copy_file(source / name, target / name)
        done += wanted[name]
        progress(done, total)
    remove(target, present.keys() - wanted.keys())
    return wanted


def copy_file(source: Folder, target: Folder) -> None:
    if isinstance(source.system, pafs.LocalFileSystem) and isinstance(target.system, pafs.LocalFileSystem):
        Path(target.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.path, target.path)
        return
    target.system.create_dir(target.path.rpartition("/")[0], recursive=True)
    pafs.copy_files(source.path, target.path, source_filesystem=source.system, destination_filesystem=target.system)


def is_immutable(name: str) -> bool:
    """Return whether a file of a Delta table never changes: a data file, or a commit."""
    stem, _, extension = name.rpartition("/")[2].rpartition(".")
    return extension == "parquet" or (extension == "json" and stem.isdigit())


def remove(folder: Folder, names: Iterable[str]) -> None:
    for name in names:
        folder.system.delete_file((folder / name).path)
