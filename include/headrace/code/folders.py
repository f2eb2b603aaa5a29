"""Folders of small files, on a file system or in an object store, whose files are written as a whole."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace import durable


class Folder(Protocol):
    """Files by their paths relative to the folder. Methods raise `OSError`, and `FileNotFoundError` for a missing file."""

    def read(self, path: str) -> bytes:
        """Return the content of a file."""

    def write(self, path: str, content: bytes) -> None:
        """Create or replace a file. Readers see the old content or the new one."""

    def modified(self) -> dict[str, float]:
        """Return when each file was written, in seconds since the epoch."""

    def delete(self, path: str) -> None:
        """Remove a file, and its folder if that has no other file."""


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder of a file system, closed to other users."""

    root: Path

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return (self.root / path).read_bytes()

    def write(self, path: str, content: bytes) -> None:
        """Create or replace a file, which survives a power failure then."""
        target = self.root / path
        durable.make_folder(target.parent, 0o700)
        durable.write(target, content, mode=0o600)

    def modified(self) -> dict[str, float]:
        """Return when each file was written, also those whose writer has died."""
        times = {}
        for path in self.root.rglob("*"):
            # Another process may have removed its draft.
            with suppress(FileNotFoundError):
                if path.is_file():
                    times[path.relative_to(self.root).as_posix()] = path.stat().st_mtime
        return times

    def delete(self, path: str) -> None:
        """Remove a file, and its folder if that has no other file."""
        target = self.root / path
        target.unlink(missing_ok=True)
        with suppress(OSError):
            target.parent.rmdir()


@dataclass(frozen=True, slots=True)
class ObjectFolder:
    """A folder in an object store."""

    uri: str

    def read(self, path: str) -> bytes:
        """Return the content of an object."""
        from headrace.storage.object_store import file_system

        system, root = file_system(self.uri)
        with system.open_input_file(f"{root}/{path}") as file:
            content: bytes = file.read()
        return content

    def write(self, path: str, content: bytes) -> None:
        """Create or replace an object."""
        from headrace.storage.object_store import write_whole

        write_whole(f"{self.uri}/{path}", [content])

    def modified(self) -> dict[str, float]:
        """Return when each object was written."""
        import pyarrow.fs as pafs

        from headrace.storage.object_store import file_system

        system, root = file_system(self.uri)
        files = system.get_file_info(pafs.FileSelector(root, allow_not_found=True, recursive=True))
        return {file.path.removeprefix(f"{root}/"): file.mtime.timestamp() for file in files if file.is_file}

    def delete(self, path: str) -> None:
        """Remove an object. A folder is no more than the names of its objects."""
        from headrace.storage.object_store import file_system

        system, root = file_system(self.uri)
        system.delete_file(f"{root}/{path}")


def open_folder(uri: str) -> Folder:
    """Return the folder at a path or a URI of an object store."""
    return ObjectFolder(uri) if uri.startswith("s3://") else LocalFolder(Path(uri))
