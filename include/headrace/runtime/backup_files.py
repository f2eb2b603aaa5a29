"""The files of backups: each content is kept once, below a name made of its digest, and verified when it is read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import pyarrow.fs as pafs

from headrace import durable
from headrace.errors import StorageError
from headrace.storage.object_store import file_system

BLOCK_BYTES: Final = 1 << 20
TEMPORARY: Final = (".lock", durable.DRAFT_SUFFIX)
"""Endings of files that are no content: locks, and what a commit or a copy has not finished."""
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds: its SHA-256 digest in hexadecimal, and its size."""

    digest: str
    size: int


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

    @property
    def is_local(self) -> bool:
        return isinstance(self.system, pafs.LocalFileSystem)

    def infos(self) -> dict[str, pafs.FileInfo]:
        """Return all files below, by their paths relative to this folder."""
        selector = pafs.FileSelector(self.path, recursive=True, allow_not_found=True)
        infos = [info for info in self.system.get_file_info(selector) if info.is_file and not info.path.endswith(TEMPORARY)]
        return {info.path[len(self.path) + 1 :]: info for info in infos}

    def blocks(self) -> Iterator[bytes]:
        """Yield the content of this path as a file."""
        with self.system.open_input_stream(self.path) as stream:
            while block := stream.read(BLOCK_BYTES):
                yield block

    def read(self) -> bytes | None:
        """Return the content of this path as a file; None if there is none."""
        return b"".join(self.blocks()) if self.system.get_file_info(self.path).is_file else None

    def write(self, write: Callable[[Callable[[bytes], object]], object], *, is_private: bool = True) -> None:
        """Write a file at this path by one atomic step, and sync its content. A private one is closed to other users.

        Args:
            write: Passes the blocks of the file to the function that it is given.
            is_private: Whether a local file, and folders that are created for it, are closed to other users.
        """
        if not self.is_local:
            with self.system.open_output_stream(self.path) as stream:
                write(stream.write)
            return
        path = Path(self.path)
        durable.make_folder(path.parent, 0o700 if is_private else 0o777)
        durable.write(path, lambda file: write(file.write), mode=0o600 if is_private else 0o666)

    def content(self) -> Content:
        """Read the file at this path, and return what it holds."""
        digest, size = hashlib.sha256(), 0
        for block in self.blocks():
            digest.update(block)
            size += len(block)
        return Content(digest.hexdigest(), size)


@dataclass(frozen=True)
class Contents:
    """A folder of contents, in which each is a file that is named by its digest."""

    folder: Folder

    def present(self) -> set[Content]:
        """Return the contents that are there."""
        return {Content(name.rpartition("/")[2], info.size) for name, info in self.folder.infos().items()}

    def add(self, source: Folder, known: Set[Content]) -> Content:
        """Add the content of a file, unless it is known to be there.

        Raises:
            FileNotFoundError: The file was removed.
            StorageError: It was changed while it was copied.
        """
        content = source.content()
        if content not in known:
            self._copy(source, self._file(content), content)
        return content

    def extract(self, content: Content, target: Folder, *, is_private: bool = True) -> None:
        """Write a content to a file. Raise `StorageError` if it is missing, or another one."""
        try:
            self._copy(self._file(content), target, content, is_private=is_private)
        except FileNotFoundError as error:
            raise damaged(self._file(content), "is missing") from error

    def retain(self, wanted: Set[Content]) -> None:
        """Remove all other contents."""
        for content in self.present() - wanted:
            with suppress(FileNotFoundError):
                self.folder.system.delete_file(self._file(content).path)

    def _file(self, content: Content) -> Folder:
        return self.folder / f"{content.digest[:2]}/{content.digest}"

    def _copy(self, source: Folder, target: Folder, content: Content, *, is_private: bool = True) -> None:
        digest = hashlib.sha256()

        def write(emit: Callable[[bytes], object]) -> None:
            for block in source.blocks():
                digest.update(block)
                emit(block)
            if target.is_local and digest.hexdigest() != content.digest:
                raise damaged(source, "has changed")

        target.write(write, is_private=is_private)
        if digest.hexdigest() != content.digest:
            target.system.delete_file(target.path)
            raise damaged(source, "has changed")


def damaged(file: Folder, what: str) -> StorageError:
    return StorageError(f"{file.path} {what}", hint="stop all writers and repeat a backup; restore from another copy of a backup")


def is_unique(name: str) -> bool:
    """Return whether a file's name has a UUID: then no other file ever has the same name, and it never changes."""
    return UUID.search(name.rpartition("/")[2]) is not None


def below(folder: Folder, name: str) -> Folder:
    """Return the file with a relative name in a folder. Raise `StorageError` if it would be elsewhere."""
    parts = PurePosixPath(name).parts
    is_plain = (
        bool(parts) and not name.startswith("/") and ".." not in parts and "\0" not in name and str(PurePosixPath(name)) == name
    )
    if not is_plain or (folder.is_local and not (Path(folder.path) / name).resolve().is_relative_to(Path(folder.path).resolve())):
        raise StorageError(f"the backup has a file {name!r}, which is outside of {folder.path}", hint="do not use this backup")
    return folder / name
