"""A load of files, as a user asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """Files to load into a table or a tree of devices; the fields are the arguments of `Connection.load`."""

    files: Sequence[Path]
    into: str
    subtable: str | None = None
    device: str | None = None
    aligned: bool = False
    file_format: str | None = None
