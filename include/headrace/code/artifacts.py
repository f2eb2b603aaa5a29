"""The artifact store: the content of user code beside the tables, under its SHA-256.

What was registered is what runs: every process loads the content that a statement stored, by its hash, whatever became of the file
that it was read from.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.code.folders import Folder, LocalFolder, open_folder
from headrace.errors import IntegrityError, LimitError, StorageError
from headrace.model.functions import Artifact
from headrace.settings import Settings

FOLDER: Final = ".artifacts"
UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.+-]")
MAX_NAME: Final = 128
GRACE_S: Final = 86_400
"""Seconds for which an artifact stays that no object refers to, since a statement may be about to, and queries may still run it."""


@dataclass(frozen=True, slots=True)
class ArtifactStore:
    """The artifacts of one warehouse. Picklable, since Spark's tasks load code, too.

    Attributes:
        uri: The folder of the artifacts, `<tables>/.artifacts`, which has `<SHA-256>/<name>`.
        cache: The folder of this machine's copies. Where it cannot be created, they are in the folder for temporary files.
        max_bytes: The maximum size of an artifact.
    """

    uri: str
    cache: Path
    max_bytes: int

    @classmethod
    def of(cls, settings: Settings) -> ArtifactStore:
        """Return the store of the settings."""
        uri = f"{settings.tables_uri}/{FOLDER}"
        if settings.is_on_object_store:
            from headrace.storage.object_store import register

            register(settings.tables_uri, settings)
        return cls(uri, settings.home_path / "cache" / "artifacts", settings.code_max_bytes)

    def put(self, name: str, content: bytes) -> Artifact:
        """Store content, and return its artifact. Storing it again only renews its time, so that `collect` keeps it.

        Raises:
            LimitError: It is too large.
            StorageError: It cannot be written.
        """
        if len(content) > self.max_bytes:
            raise LimitError(
                f"{name} has {len(content)} bytes, the maximum is {self.max_bytes}",
                hint="leave out what the code does not need, or raise HEADRACE_CODE_MAX_BYTES",
            )
        artifact = Artifact(hashlib.sha256(content).hexdigest(), safe_name(name), len(content))
        with storage_errors(f"{artifact.name} cannot be stored in {self.uri}"):
            self._folder.write(path_of(artifact), content)
        return artifact

    def read(self, artifact: Artifact) -> bytes:
        """Return the content of an artifact.

        Raises:
            IntegrityError: The stored content is missing, or another one.
            StorageError: It cannot be read.
        """
        with storage_errors(f"{artifact.name} cannot be read from {self.uri}"):
            try:
                content = self._folder.read(path_of(artifact))
            except FileNotFoundError:
                raise _damaged(artifact, "is missing in") from None
        if not _is_content(artifact, content):
            raise _damaged(artifact, "was changed in")
        return content

    def local_path(self, artifact: Artifact) -> Path:
        """Return a file of this machine with the content of an artifact, which is downloaded once. Checks the content.

        Raises:
            IntegrityError: The stored content is missing, or another one.
            StorageError: It cannot be read, or the copy cannot be written.
        """
        copies = LocalFolder(self._copies())
        path = copies.root / path_of(artifact)
        with storage_errors(f"{path} cannot be read"):
            if path.is_file() and _is_content(artifact, path.read_bytes()):
                return path
        content = self.read(artifact)
        with storage_errors(f"{path} cannot be written"):
            copies.write(path_of(artifact), content)
        return path

    def renew(self, artifact: Artifact) -> None:
        """Keep an artifact for another day, since what refers to it is about to go, and may still be running."""
        with storage_errors(f"{artifact.name} cannot be stored in {self.uri}"):
            try:
                self._folder.write(path_of(artifact), self._folder.read(path_of(artifact)))
            except FileNotFoundError:
                return

    def collect(self, in_use: Collection[str], grace_s: float = GRACE_S) -> list[str]:
        """Remove artifacts that no object refers to, and this machine's copies of them, once they are older than a day.

        The caller holds a lock, so that no process can `put` at the same time.

        Args:
            in_use: The hashes that objects refer to.
            grace_s: Seconds for which the others stay.

        Returns:
            The hashes of the artifacts that were removed.
        """
        with storage_errors(f"{self.uri} cannot be cleaned up"):
            removed = _collect(self._folder, in_use, grace_s)
            _collect(LocalFolder(self._copies()), in_use, grace_s)
        return removed

    @property
    def _folder(self) -> Folder:
        return open_folder(self.uri)

    def _copies(self) -> Path:
        """Return the folder of copies, which belongs to this user alone."""
        try:
            self.cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            pass
        else:
            if os.access(self.cache, os.W_OK):
                return self.cache
        folder = Path(tempfile.gettempdir()) / f"headrace-artifacts-{os.getuid()}"
        with storage_errors(f"{folder} cannot be created"):
            folder.mkdir(mode=0o700, exist_ok=True)
            status = folder.lstat()
        if status.st_uid != os.getuid() or status.st_mode & 0o77:
            raise StorageError(
                f"{folder} is open to other users", hint="remove it, or set HEADRACE_HOME to a folder that can be written"
            )
        return folder


def safe_name(name: str) -> str:
    """Return a file name that needs no quotes anywhere. The end stays, which says what kind of file it is."""
    plain = UNSAFE.sub("_", name).lstrip(".")[-MAX_NAME:]
    return plain or "code"


def path_of(artifact: Artifact) -> str:
    return f"{artifact.sha256}/{artifact.name}"


@contextmanager
def storage_errors(message: str) -> Iterator[None]:
    """Turn errors of file systems into `StorageError`."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{message}: {error}", hint="check the disk, or the object store") from error


def _collect(folder: Folder, in_use: Collection[str], grace_s: float) -> list[str]:
    written: dict[str, dict[str, float]] = {}
    for path, modified in folder.modified().items():
        written.setdefault(path.partition("/")[0], {})[path] = modified
    is_old: Callable[[float], bool] = (time.time() - grace_s).__ge__
    removed = [sha256 for sha256, files in written.items() if sha256 not in in_use and all(map(is_old, files.values()))]
    for sha256 in removed:
        for path in written[sha256]:
            folder.delete(path)
    return removed


def _is_content(artifact: Artifact, content: bytes) -> bool:
    return hashlib.sha256(content).hexdigest() == artifact.sha256


def _damaged(artifact: Artifact, what: str) -> IntegrityError:
    return IntegrityError(
        f"the code {artifact.name} ({artifact.sha256[:12]}) {what} the artifact store",
        hint="drop what uses it, and create it again",
    )
