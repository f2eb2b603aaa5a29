"""A load of files, as a user asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
