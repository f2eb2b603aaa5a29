"""Groups of a query and the subtables that hold their results: ids, names and tags, as in TDengine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.types import DataType
from headrace.streams.definition.digests import md5
from headrace.streams.definition.group_ids import UInt64s, fixed_size_values, group_ids

ACCOUNT_ID: Final = 1
MAX_NAME_BYTES: Final = 192
AUTO_NAME: Final = r"(?s)\At_.{32}\z"
HEX: Final = np.frombuffer(bytes(range(256)).hex().encode(), np.uint16)
"""The two digits of each byte, as one number."""


class GroupKind(StrEnum):
    """What identifies a group: nothing (there is one group), the source's subtable, or the values of its keys."""

    ONE = "one"
    SUBTABLE = "subtable"
    VALUES = "values"


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A key of a group: its column in the DataFrames, its type, and the name of its item in PARTITION BY."""

    column: str
    type: DataType
    name: str


@dataclass(frozen=True, slots=True)
class TagSource:
    """A tag of the target: its type, and the column with its values; None if it stays NULL."""

    name: str
    type: DataType
    column: str | None


@dataclass(frozen=True, slots=True)
class GroupRule:
    """How a group, identified by the partition keys, becomes a subtable of the target.

    `name` is the column of the SUBTABLE expression, `id_tag` the tag that takes the group's id; None if there is none.
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

    def ids_of(self, groups: pa.Table) -> UInt64s:
        """Return the ids of groups with these keys. The id of a SUBTABLE group is the subtable's uid instead."""
        if self.kind is GroupKind.ONE:
            return np.zeros(groups.num_rows, np.uint64)
        columns = [groups[key.column].combine_chunks() for key in self.keys]
        return group_ids(columns, [key.type for key in self.keys])

    def is_generated(self, names: pa.Array) -> pa.Array:
        """Return a mask of the names that groups of this target get, so that they were hardly made by hand."""
        return pc.match_substring_regex(names, f"^t_[0-9a-f]{{32}}$|_{re.escape(self.table)}_[0-9]+$")

    def subtable_names(self, ids: UInt64s, custom_names: pa.Array | None) -> pa.Array:
        """Return the names of groups' subtables; `custom_names` has the values of the SUBTABLE expression."""
        if custom_names is None:
            return default_subtable_names(self.database, self.table, ids)
        is_missing = pc.equal(pc.binary_length(custom_names), 0).fill_null(True)
        default_names = default_subtable_names(self.database, self.table, ids) if pc.any(is_missing).as_py() else custom_names
        return pc.if_else(is_missing, default_names, custom_subtable_names(custom_names.fill_null(""), self.table, ids))


def default_subtable_names(database: str, table: str, ids: UInt64s) -> pa.Array:
    prefix = np.frombuffer(f"{ACCOUNT_ID}.{database}.{table},group_id=".encode(), np.uint8)
    messages = np.empty((len(ids), len(prefix) + 8), np.uint8)
    messages[:, : len(prefix)] = prefix
    messages[:, len(prefix) :] = ids.astype("<u8")[:, None].view(np.uint8)
    names = np.empty((len(ids), 34), np.uint8)
    names[:, :2] = np.frombuffer(b"t_", np.uint8)
    names[:, 2:] = HEX[md5(fixed_size_values(messages))].view(np.uint8)
    return fixed_size_values(names).cast(pa.string())


def custom_subtable_names(custom_names: pa.Array, table: str, ids: UInt64s) -> pa.Array:
    """Return the subtable names for SUBTABLE values, with a suffix that keeps groups apart unless they have one already."""
    texts = pa.array(ids).cast(pa.string())
    suffixes = pc.binary_join_element_wise(f"_{table}", texts, "_")
    is_complete = pc.or_(ends_with(custom_names, texts), pc.match_substring_regex(custom_names, AUTO_NAME))
    is_complete = pc.or_(is_complete, pa.array(ids == 0))
    limit = pa.array(np.full(len(ids), MAX_NAME_BYTES, np.int32))
    beginnings = truncate(custom_names, pc.subtract(limit, pc.binary_length(suffixes)))
    suffixed = pc.replace_substring(pc.binary_join_element_wise(beginnings, suffixes, ""), ".", "_")
    return pc.if_else(is_complete, truncate(custom_names, limit), suffixed)


def ends_with(texts: pa.Array, suffixes: pa.Array) -> pa.Array:
    matches, sizes = np.zeros(len(texts), np.bool_), pc.binary_length(suffixes).to_numpy(zero_copy_only=False)
    for size in np.unique(sizes):
        index = pa.array(np.flatnonzero(sizes == size))
        ends = pc.utf8_slice_codeunits(texts.take(index), -int(size), None)
        matches[index] = pc.equal(ends, suffixes.take(index)).to_numpy(zero_copy_only=False)
    return pa.array(matches)


def truncate(texts: pa.Array, max_bytes: pa.Array) -> pa.Array:
    """Truncate each text to a number of UTF-8 bytes, at a character boundary."""
    is_long = pc.greater(pc.binary_length(texts), max_bytes)
    if not pc.any(is_long).as_py():
        return texts
    long_texts = zip(texts.filter(is_long).to_pylist(), max_bytes.filter(is_long).to_pylist(), strict=True)
    truncated = [text.encode()[: max(0, size)].decode(errors="ignore") for text, size in long_texts]
    return pc.replace_with_mask(texts, is_long, pa.array(truncated, texts.type))
