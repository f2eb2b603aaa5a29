"""Packages of source as zips that are the same for the same source."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from headrace.errors import LimitError, StorageError

FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip can have."""
LEFT_OUT: Final = ("__pycache__",)
COMPILED: Final = (".pyc", ".pyo")


def zip_package(name: str, folders: Sequence[Path], max_bytes: int) -> bytes:
    """Return a zip of a package, or of the parts of a namespace package. It has no times, and its order is that of the names.

    Raises:
        LimitError: It is too large.
        StorageError: A file cannot be read.
    """
    buffer, total = io.BytesIO(), 0
    # Not compressed: what a compressor returns depends on its version.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path, member in _members(name, folders):
            try:
                total += path.stat().st_size
                content = path.read_bytes() if total <= max_bytes else b""
            except OSError as error:
                raise StorageError(f"{path} cannot be read: {error.strerror}", hint="check its permissions") from error
            if total > max_bytes:
                raise LimitError(
                    f"the package {name} has more than {max_bytes} bytes",
                    hint="put the class into a smaller package, or raise HEADRACE_CODE_MAX_BYTES",
                )
            archive.writestr(_entry(member), content)
    return buffer.getvalue()


def holds_module(archive: Path, module: str) -> bool:
    """Return whether a zip or wheel has a module; a damaged archive has none."""
    try:
        with zipfile.ZipFile(archive) as opened:
            names = set(opened.namelist())
    except (OSError, ValueError, NotImplementedError, struct.error, zipfile.BadZipFile):
        return False
    return not names.isdisjoint(module_paths(module))


def module_paths(module: str) -> tuple[str, str]:
    """Return the paths that the file of a module may have, relative to the folder of its top-level package."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__init__.py"


def _members(name: str, folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield the files of a package with their names in the zip, sorted by these; the first of two files of a name."""
    members: dict[str, Path] = {}
    for folder in folders:
        for parent, children, files in os.walk(folder):
            children[:] = [child for child in children if child not in LEFT_OUT]
            for file in files:
                path = Path(parent, file)
                if path.suffix not in COMPILED and path.is_file():
                    members.setdefault(f"{name}/{path.relative_to(folder).as_posix()}", path)
    for member in sorted(members):
        yield members[member], member


def _entry(member: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(member, FIXED_TIME)
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    return entry
