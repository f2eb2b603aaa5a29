"""Backups of all that Headrace keeps: the catalog, the tables with the states of streams and stored code, and the key of secrets.

A backup is a folder, on a disk or in an object store. It has the contents of all files, each once, and a manifest that says which
file has which content. A further backup into the same folder adds the contents that are new, and then replaces the manifest by one
atomic step: until then, the last backup is complete. Contents that are in no manifest are removed afterwards.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from headrace.context import Context
from headrace.errors import ConflictError, NotFoundError, StorageError
from headrace.model.progress import Progress, no_progress
from headrace.runtime.backup_files import Content, Contents, Folder, below, is_unique
from headrace.runtime.living_snodes import living_snodes
from headrace.secrets import KEY_FILE

MANIFEST: Final = "manifest.json"
CATALOG: Final = "catalog.db"
CONTENTS: Final = "contents"
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
MAX_PASSES: Final = 3
"""How often tables are read until no file has changed meanwhile."""


@dataclass(frozen=True)
class Backup:
    """What a backup has. `created` is in epoch milliseconds; `version` is that of Headrace, `tables_uri` where its tables were."""

    created: int
    version: str
    databases: int
    jobs: int
    files: int
    bytes: int
    tables_uri: str = ""


@dataclass(frozen=True)
class Manifest:
    """A backup with the contents of its files: those of tables by their paths below the warehouse, the catalog, and the key."""

    backup: Backup
    tables: dict[str, Content]
    catalog: Content
    key: Content | None

    @property
    def contents(self) -> set[Content]:
        """All contents that a restore needs."""
        return {*self.tables.values(), self.catalog, *([self.key] if self.key else [])}


def back_up(context: Context, destination: str, progress: Progress = no_progress) -> Backup:
    """Copy all that Headrace keeps into a folder, which may have an earlier backup of the same home.

    Raises:
        ConflictError: An snode is running, tables are written, or the folder has other files or a backup of another home.
    """
    require_no_snode(context)
    folder = Folder.at(destination)
    with context.catalog.lock(f"backup {folder.path}"):
        last = read_manifest(folder)
        if last is None and any(name != MANIFEST and not name.startswith(f"{CONTENTS}/") for name in folder.infos()):
            raise ConflictError(
                f"{destination} has files that are no backup", hint="name a new folder, or one with an earlier backup"
            )
        own = context.settings.tables_uri
        if last is not None and last.backup.tables_uri not in ("", own):
            raise ConflictError(
                f"{destination} has a backup of {last.backup.tables_uri}, not of {own}",
                hint=f"name a folder for this home alone; if the home was moved, remove {MANIFEST} first",
            )
        if folder.is_local and Path(folder.path).is_dir():
            with suppress(PermissionError):  # another user's folder: what is created in it is closed all the same
                os.chmod(folder.path, 0o700)
        manifest = _copied(context, Contents(folder / CONTENTS), last, progress)
        text = json.dumps(asdict(manifest)).encode()
        (folder / MANIFEST).write(lambda emit: emit(text))
        contents = Contents(folder / CONTENTS)
        contents.retain(manifest.contents)
        if not manifest.contents <= contents.present():
            raise ConflictError(f"another backup was written to {destination} meanwhile", hint="name a folder for this home alone")
    return manifest.backup


def _copied(context: Context, contents: Contents, last: Manifest | None, progress: Progress) -> Manifest:
    """Copy what is new, and return the manifest of all, which belongs to one moment: no table was written meanwhile."""
    known = last.tables if last else {}
    warehouse = Folder.at(context.settings.tables_uri)
    for _ in range(MAX_PASSES):
        before = _stamps(warehouse)
        with tempfile.TemporaryDirectory() as temporary:
            context.catalog.back_up(Path(temporary) / CATALOG)
            catalog = contents.add(Folder.at(temporary) / CATALOG, contents.present())
        try:
            known = copy_tables(warehouse, contents, known, progress)
        except (FileNotFoundError, StorageError):  # removed or changed meanwhile
            continue
        if _stamps(warehouse) == before and known.keys() == before.keys():
            break
    else:
        raise ConflictError("tables were written while they were copied", hint="stop all writers, and repeat the backup")
    key_file = Folder.at(str(context.settings.home_path)) / KEY_FILE
    key = contents.add(key_file, contents.present()) if key_file.read() is not None else None
    databases, jobs = len(list(context.catalog.databases.all())), len(context.catalog.jobs.all())
    size = sum(content.size for content in known.values())
    now, own = context.catalog.now(), context.settings.tables_uri
    return Manifest(Backup(now, version("headrace"), databases, jobs, len(known), size, own), known, catalog, key)


def _stamps(folder: Folder) -> dict[str, tuple[int, int]]:
    """Return the size and the time of the last change of each file."""
    return {name: (info.size, info.mtime_ns or 0) for name, info in folder.infos().items()}


def copy_tables(source: Folder, contents: Contents, known: dict[str, Content], progress: Progress) -> dict[str, Content]:
    """Add all files of a folder, and return their contents by name. Of files that never change, those known are not read again."""
    infos, present = source.infos(), contents.present()
    copied = {
        name: content
        for name, content in known.items()
        if name in infos and is_unique(name) and infos[name].size == content.size and content in present
    }
    missing = [name for name in infos if name not in copied]
    total, done = sum(infos[name].size for name in missing), 0
    for name in missing:
        copied[name] = contents.add(source / name, present)
        present.add(copied[name])
        done += infos[name].size
        progress(done, total)
    return copied


def restore(context: Context, source: str, progress: Progress = no_progress) -> Backup:
    """Copy a backup into a home, a catalog and a folder of tables that are all unused.

    Raises:
        ConflictError: Something has been created there.
        NotFoundError: There is no backup, or one that did not end.
        StorageError: The backup is damaged.
    """
    folder, warehouse = Folder.at(source), Folder.at(context.settings.tables_uri)
    manifest, contents = read_manifest(folder), Contents(folder / CONTENTS)
    if manifest is None:
        raise NotFoundError(f"{source} has no complete backup", hint=f"its file {MANIFEST} is written last; see `headrace backup`")
    if not context.catalog.is_unused or warehouse.infos():
        raise ConflictError("the home is in use", hint="restore into a new home, catalog and warehouse, or remove these first")
    require_no_snode(context)
    targets = [(content, below(warehouse, name)) for name, content in manifest.tables.items()]
    done = 0
    for content, target in targets:
        contents.extract(content, target, is_private=False)
        done += content.size
        progress(done, manifest.backup.bytes)
    if manifest.key is not None:
        contents.extract(manifest.key, Folder.at(str(context.settings.create_home())) / KEY_FILE)
    with tempfile.TemporaryDirectory() as temporary:
        contents.extract(manifest.catalog, Folder.at(temporary) / CATALOG)
        context.catalog.restore(Path(temporary) / CATALOG)
    return manifest.backup


def require_no_snode(context: Context) -> None:
    """Raise `ConflictError` if an snode is alive: it would write while files are copied."""
    snode = next(living_snodes(context), None)
    if snode is not None:
        hint = "stop it first: `headrace down`, or pause its DAG and wait until its driver has ended"
        raise ConflictError(f"snode {snode.snode} is running", hint=hint)


def read_manifest(folder: Folder) -> Manifest | None:
    """Return what a backup has; None if there is none, or it did not end. Raise `StorageError` if it is damaged."""
    text = (folder / MANIFEST).read()
    if not text:
        return None
    try:
        read = json.loads(text)
        tables = {name: _content(content) for name, content in read["tables"].items()}
        key = _content(read["key"]) if read["key"] else None
        return Manifest(Backup(**read["backup"]), tables, _content(read["catalog"]), key)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        hint = "use another copy of the backup, or back up into a new folder"
        raise StorageError(f"{folder.path}/{MANIFEST} is damaged, or not of this release", hint=hint) from error


def _content(read: dict[str, object]) -> Content:
    """Return a content of a manifest. Its digest becomes the name of a file, so it must be one."""
    digest, size = str(read["digest"]), int(str(read["size"]))
    if not DIGEST.fullmatch(digest):
        raise ValueError(digest)
    return Content(digest, size)
