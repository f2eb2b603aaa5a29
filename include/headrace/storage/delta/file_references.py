"""What names data files of other writers, and which of their rows count."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.storage.delta.deletion_vectors import AMONG, VECTOR, Descriptor, vector_files

VALUES_FOLLOW: Final = "\n"
"""What separates a file's path from what else is said of it; paths in a log are escaped."""


@dataclass(frozen=True, slots=True)
class FileReference:
    """A data file by its path in the log, with what the log says of its rows.

    Attributes:
        path: The path.
        partition_values: Those of all rows, which the file itself lacks.
        gone: The deletion vector of rows that do not count; None if there are none.
        among: The one of rows of which others do not count; None if all do.
    """

    path: str
    partition_values: Mapping[str, str | None]
    gone: Descriptor | None = None
    among: Descriptor | None = None

    @classmethod
    def parse(cls, text: str) -> FileReference:
        """Return the reference of a text."""
        path, _, said = text.partition(VALUES_FOLLOW)
        return cls(path, *json.loads(said)) if said else cls(path, {})

    @property
    def text(self) -> str:
        """What names the file to readers: the path alone if that is all."""
        said = [dict(self.partition_values), self.gone, self.among]
        return f"{self.path}{VALUES_FOLLOW}{json.dumps(said)}" if any(said) else self.path

    @property
    def is_whole(self) -> bool:
        """Whether all rows of the file count."""
        return not self.gone and not self.among

    @property
    def files(self) -> list[str]:
        """The paths of the data file and of those with vectors."""
        return [self.path, *vector_files({VECTOR: self.gone, AMONG: self.among})]
