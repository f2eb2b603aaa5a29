"""Groups of a query and the subtables that hold their results: ids, names and tags, as in TDengine."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from headrace.model.types import DataType, TypeKind

ACCOUNT_ID: Final = 1
MAX_NAME_BYTES: Final = 192
AUTO_NAME: Final = re.compile(r"t_.{32}", re.DOTALL)
FIXED_SIZE_FORMATS: Final = {
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
    """What identifies a group: nothing (there is one group), the source's subtable, or the values of its keys."""

    ONE = "one"
    SUBTABLE = "subtable"
    VALUES = "values"


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A key of a group: its column in the DataFrames, and its type."""

    column: str
    type: DataType


@dataclass(frozen=True, slots=True)
class TagSource:
    """A tag of the target: its type, and the column with its values; None if it stays NULL."""

    name: str
    type: DataType
    column: str | None


@dataclass(frozen=True, slots=True)
class GroupRule:
    """How a group becomes a subtable of the target.

    Attributes:
        keys: The partition keys of the statement.
        name: The column of the SUBTABLE expression; None if there is none.
        tags: The tags to set.
        id_tag: The tag that takes the group's id; None if there is none.
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
        """The columns of keys, name and tags, without duplicates."""
        candidates = (*(key.column for key in self.keys), self.name, *(tag.column for tag in self.tags))
        return tuple(dict.fromkeys(column for column in candidates if column is not None))

    def id_of(self, values: Sequence[Any]) -> int:
        """Return the id of the group with these key values. The id of a SUBTABLE group is the subtable's uid instead."""
        return 0 if self.kind is GroupKind.ONE else group_id(values, [key.type for key in self.keys])

    def subtable_name(self, id_: int, custom_name: str | None) -> str:
        """Return the name of a group's subtable; `custom_name` is the value of the SUBTABLE expression."""
        if not custom_name:
            return default_subtable_name(self.database, self.table, id_)
        return custom_subtable_name(custom_name, self.table, id_)


def group_id(values: Sequence[Any], types: Sequence[DataType]) -> int:
    """Return the first 8 bytes, little-endian, of the MD5 over null flags and values; the last 8 if those are zero."""
    flags = bytes(value is None for value in values)
    encoded = (encode_value(value, type_) for value, type_ in zip(values, types, strict=True) if value is not None)
    digest = hashlib.md5(flags + b"".join(encoded), usedforsecurity=False).digest()
    first, last = struct.unpack("<QQ", digest)
    return int(first or last)


def encode_value(value: Any, type_: DataType) -> bytes:
    """Encode a value for a group's id: fixed-size types as in memory, others with a length prefix."""
    if type_.kind in FIXED_SIZE_FORMATS:
        number = value if isinstance(value, bool | float) else int(value)
        return struct.pack(FIXED_SIZE_FORMATS[type_.kind], number)
    if type_.kind is TypeKind.DECIMAL:
        unscaled = int(Decimal(value).scaleb(type_.scale or 0))
        return unscaled.to_bytes(8 if (type_.length or 38) <= 18 else 16, "little", signed=True)
    raw = value if isinstance(value, bytes) else str(value).encode("utf-32-le" if type_.kind is TypeKind.NCHAR else "utf-8")
    return struct.pack("<H", len(raw) & 0xFFFF) + raw


def default_subtable_name(database: str, table: str, id_: int) -> str:
    """Return the name of a group's subtable if there is no SUBTABLE expression."""
    digest = name_digest(database, table).copy()
    digest.update(struct.pack("<Q", id_))
    return "t_" + digest.hexdigest()


@lru_cache
def name_digest(database: str, table: str) -> hashlib._Hash:
    """Return the digest of what the names of all groups of a target begin with."""
    return hashlib.md5(f"{ACCOUNT_ID}.{database}.{table},group_id=".encode(), usedforsecurity=False)


def custom_subtable_name(custom_name: str, table: str, id_: int) -> str:
    """Return the subtable name for a SUBTABLE value, with a suffix that keeps groups apart unless it has one already."""
    if id_ == 0 or custom_name.endswith(str(id_)) or AUTO_NAME.fullmatch(custom_name):
        return truncate(custom_name, MAX_NAME_BYTES)
    suffix = f"_{table}_{id_}"
    return (truncate(custom_name, MAX_NAME_BYTES - len(suffix.encode())) + suffix).replace(".", "_")


def truncate(text: str, max_bytes: int) -> str:
    """Truncate a text to a number of UTF-8 bytes, at a character boundary."""
    return text.encode()[: max(0, max_bytes)].decode(errors="ignore")
