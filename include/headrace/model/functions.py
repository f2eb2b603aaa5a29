"""Functions that users register, and the content of their code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final

from headrace.model.expressions import Call

MAX_STATE_BYTES: Final = 256 * 1024
"""The largest BUFSIZE."""


class FunctionKind(StrEnum):
    """What a function is: of series (UDTF), an aggregate (UDAF), or of the rows of a block (SCALAR, in the TDengine language)."""

    UDTF = "UDTF"
    UDAF = "UDAF"
    SCALAR = "SCALAR"


@dataclass(frozen=True, slots=True)
class Artifact:
    """Content of user code: its SHA-256 in hexadecimal digits, the name of the file, and the size in bytes."""

    sha256: str
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class RegisteredFunction:
    """A function of a language under a name of the user's.

    Attributes:
        name: In upper case in the IoTDB language, which ignores case, and in lower case in that of TDengine.
        class_name: The class, with its module; of a function of the TDengine language, the module.
        artifact: The code; None for a class of Headrace's own library.
        vectorized: Whether it processes Arrow batches instead of rows.
        owner: The user whose statement created it, and as whom it runs.
        created: Epoch milliseconds.
        output_type: The type of its values, if the statement declares it.
        buffer_size: Maximum size of an aggregate's state in bytes, if the statement declares it; 0 for the largest one.
        version: Counts how often the function was replaced.
    """

    name: str
    class_name: str
    dialect: str = "iotdb"
    kind: FunctionKind = FunctionKind.UDTF
    artifact: Artifact | None = None
    vectorized: bool = False
    owner: str = ""
    created: int = 0
    output_type: str = ""
    buffer_size: int = 0
    comment: str = ""
    version: int = 0

    @property
    def is_aggregate(self) -> bool:
        """Whether it turns a group of rows into one value."""
        return self.kind is FunctionKind.UDAF

    @property
    def module(self) -> str:
        """The module of its code."""
        return self.class_name if self.dialect == "tdengine" else self.class_name.rpartition(".")[0]


def stored_name(dialect: str, name: str) -> str:
    """Return the name of a function as the catalog stores it."""
    return name.upper() if dialect == "iotdb" else name.lower()


def called_functions(statement: Any) -> Iterator[str]:
    """Yield the functions and operators that the expressions of a statement, or of a part of it, call."""
    parts = [statement]
    while parts:
        part = parts.pop()
        kind: Any = type(part)
        if isinstance(part, Call):
            yield part.function
        parts += part if isinstance(part, tuple) else [getattr(part, name) for name in _field_names(kind)]


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
