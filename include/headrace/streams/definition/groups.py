"""Groups of a query and the subtables that hold their results: ids, names and tags, as TDengine gives them."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from headrace.model.types import DataType, TypeKind

ACCOUNT: Final = 1
NAME_BYTES: Final = 192
AUTO_NAME: Final = re.compile(r"t_.{32}", re.DOTALL)
FIXED: Final = {
    TypeKind.BOOL: "<?",
    TypeKind.TINYINT: "<b",
    TypeKind.SMALLINT: "<h",
    TypeKind.INT: "<i",
    TypeKind.BIGINT: "<q",
    TypeKind.UTINYINT: "<B",
    TypeKind.USMALLINT: "<H",
    TypeKind.UINT: "<I",
    TypeKind.UBIGINT: "<Q",
    TypeKind.FLOAT: "<f",
    TypeKind.DOUBLE: "<d",
    TypeKind.TIMESTAMP: "<q",
}


class GroupKind(StrEnum):
    """What names a group: nothing (one group), the source's subtable, or the values of its keys."""

    ONE = "one"
    SUBTABLE = "subtable"
    VALUES = "values"


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A key of a group: its column in the frames and its type."""

    column: str
    type: DataType


@dataclass(frozen=True, slots=True)
class TagSource:
    """A tag of the target: its type, and the column with its values; None where it stays NULL."""

    name: str
    type: DataType
    column: str | None


@dataclass(frozen=True, slots=True)
class GroupRule:
    """How a group becomes a subtable of the target.

    `name` is the column of the SUBTABLE expression, where one is given. `id_tag` is the tag that takes the group's id.
    """

    kind: GroupKind
    database: str
    table: str
    keys: tuple[KeyColumn, ...] = ()
    name: str | None = None
    tags: tuple[TagSource, ...] = ()
    id_tag: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that tell groups and what hangs on them, each once."""
        named = (*(key.column for key in self.keys), self.name, *(tag.column for tag in self.tags))
        return tuple(dict.fromkeys(column for column in named if column is not None))

    def identity(self, values: Sequence[Any]) -> int:
        """The id of the group with these key values; not of groups named by their subtable, whose id is the subtable's uid."""
        return 0 if self.kind is GroupKind.ONE else group_id(values, [key.type for key in self.keys])

    def subtable(self, identity: int, written: str | None) -> str:
        """Name of the subtable of a group; `written` is what the SUBTABLE expression gave for it."""
        if not written:
            return auto_name(self.database, self.table, identity)
        return expression_name(written, self.table, identity)


def group_id(values: Sequence[Any], types: Sequence[DataType]) -> int:
    """The first eight bytes, little-endian, of the MD5 over null flags and values; the last eight where those are zero."""
    flags = bytes(value is None for value in values)
    known = (encode(value, type_) for value, type_ in zip(values, types, strict=True) if value is not None)
    digest = hashlib.md5(flags + b"".join(known), usedforsecurity=False).digest()
    first, last = struct.unpack("<QQ", digest)
    return int(first or last)


def encode(value: Any, type_: DataType) -> bytes:
    """A value as the bytes that enter a group's id: fixed types as they are in memory, others with their length before them."""
    if type_.kind in FIXED:
        number = value if isinstance(value, bool | float) else int(value)
        return struct.pack(FIXED[type_.kind], number)
    if type_.kind is TypeKind.DECIMAL:
        unscaled = int(Decimal(value).scaleb(type_.scale or 0))
        return unscaled.to_bytes(8 if (type_.length or 38) <= 18 else 16, "little", signed=True)
    raw = value if isinstance(value, bytes) else str(value).encode("utf-32-le" if type_.kind is TypeKind.NCHAR else "utf-8")
    return struct.pack("<H", len(raw) & 0xFFFF) + raw


def auto_name(database: str, table: str, identity: int) -> str:
    """The name of a group's subtable where no SUBTABLE expression gives one."""
    text = f"{ACCOUNT}.{database}.{table},group_id=".encode() + struct.pack("<Q", identity)
    return "t_" + hashlib.md5(text, usedforsecurity=False).hexdigest()


def expression_name(written: str, table: str, identity: int) -> str:
    """The name that a SUBTABLE expression gave, told apart from other groups' by a suffix unless it is so already."""
    if identity == 0 or written.endswith(str(identity)) or AUTO_NAME.fullmatch(written):
        return cut(written, NAME_BYTES)
    suffix = f"_{table}_{identity}"
    return (cut(written, NAME_BYTES - len(suffix.encode())) + suffix).replace(".", "_")


def cut(text: str, size: int) -> str:
    """At most so many bytes of a text, whole characters."""
    return text.encode()[: max(0, size)].decode(errors="ignore")
