"""`StateTable`: rows of a stream's state, of which a micro-batch reads and replaces a few without touching the others.

A table is immutable: `replace` returns another one that shares all blocks of rows with it. A removed row is only marked. Blocks of
similar size are merged, so that there are few, and each row is copied a few times at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.streams.state.hashing import Hashes, distinct_hashes, hash_rows

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Condition = Callable[[pa.Table], Bools]
"""Returns a mask of the rows of a table."""

ROW_ID: Final = "_id"
"""The number of a row in its state table. Later rows have larger ones; none is used twice."""

NO_IDS: Final = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Block:
    """Rows with ascending numbers, and an index of their keys that is built on first use."""

    rows: pa.Table
    ids: Int64s
    keys: tuple[str, ...]

    @cached_property
    def is_dense(self) -> bool:
        return bool(self.ids[-1] - self.ids[0] == len(self.ids) - 1)

    @cached_property
    def hashes(self) -> Hashes:
        return hash_rows(self.rows, self.keys)

    @cached_property
    def order(self) -> Int64s:
        return np.argsort(self.hashes)

    @cached_property
    def sorted_hashes(self) -> Hashes:
        return self.hashes[self.order]

    def rows_of(self, hashes: Hashes) -> Int64s:
        first, last = (np.searchsorted(self.sorted_hashes, hashes, side) for side in ("left", "right"))
        counts = last - first
        shift = np.repeat(first - np.concatenate(([0], np.cumsum(counts)[:-1])), counts)
        return np.asarray(self.order[np.arange(len(shift)) + shift])


@dataclass(frozen=True, eq=False)
class Part:
    """A block without the rows that have been removed."""

    block: Block
    is_live: Bools
    count: int

    @classmethod
    def of(cls, block: Block) -> Part:
        return cls(block, np.ones(len(block.ids), np.bool_), len(block.ids))

    def live_rows(self, first: int = 0) -> pa.Table:
        rows = self.block.rows.slice(first)
        return rows if self.count == len(self.is_live) else rows.filter(pa.array(self.is_live[first:]))

    def live_ids(self, first: int = 0) -> Int64s:
        return self.block.ids[first:] if self.count == len(self.is_live) else self.block.ids[first:][self.is_live[first:]]

    def index_of(self, ids: Int64s) -> Int64s:
        """Return the indexes of those of some rows, with ascending numbers, that are in this part."""
        first, last = np.searchsorted(ids, (self.block.ids[0], self.block.ids[-1] + 1))
        within = ids[first:last]
        if self.block.is_dense:
            return np.asarray(within - self.block.ids[0])
        index = np.searchsorted(self.block.ids, within)
        return np.asarray(index[self.block.ids[index] == within])

    def without(self, ids: Int64s) -> Part:
        index = self.index_of(ids)
        if not len(index):
            return self
        is_live = self.is_live.copy()
        is_live[index] = False
        return Part(self.block, is_live, int(np.count_nonzero(is_live)))


@dataclass(frozen=True, eq=False)
class StateTable:
    """Rows of a state, which are looked up by the `keys`. The parts have the oldest first, and none is empty.

    `origin` is what `saved_as` was called with; since then, rows from the number `saved_id` on have been added, and the rows in
    `removed` have been removed.
    """

    keys: tuple[str, ...]
    parts: tuple[Part, ...]
    schema: pa.Schema
    next_id: int
    origin: object | None = None
    saved_id: int = 0
    removed: tuple[Int64s, ...] = ()

    @classmethod
    def of(cls, rows: pa.Table, keys: Sequence[str], ids: Int64s | None = None, next_id: int | None = None) -> StateTable:
        numbers = np.arange(rows.num_rows) if ids is None else ids
        block = Block(rows.combine_chunks(), numbers, tuple(keys))
        parts = (Part.of(block),) if rows.num_rows else ()
        return cls(tuple(keys), parts, rows.schema, rows.num_rows if next_id is None else next_id)

    def __eq__(self, other: object) -> bool:
        """Tables with the same rows in the same order are equal."""
        return isinstance(other, StateTable) and self.to_table().equals(other.to_table())

    @property
    def num_rows(self) -> int:
        return sum(part.count for part in self.parts)

    @property
    def nbytes(self) -> int:
        """The size in memory, with rows that are marked as removed."""
        return sum(part.block.rows.nbytes for part in self.parts)

    def to_table(self, *, from_id: int = 0, numbered: bool = False) -> pa.Table:
        """Return the rows with numbers from `from_id` on, oldest first, with `_id` if `numbered`."""
        firsts = [int(np.searchsorted(part.block.ids, from_id)) for part in self.parts]
        tables = [part.live_rows(first) for part, first in zip(self.parts, firsts, strict=True) if first < len(part.is_live)]
        rows = concat(tables) if tables else self.schema.empty_table()
        ids = [part.live_ids(first) for part, first in zip(self.parts, firsts, strict=True)]
        return rows.append_column(ROW_ID, pa.array(np.concatenate([NO_IDS, *ids]))) if numbered else rows

    def matching(self, groups: pa.Table) -> Int64s:
        """Return the numbers of the rows with the keys of some groups, and maybe of a few others, ascending."""
        if not self.keys:
            return self.ids()
        hashes = distinct_hashes(groups, self.keys)
        return sorted_ids(
            part.block.ids[index[part.is_live[index]]] for part in self.parts for index in [part.block.rows_of(hashes)]
        )

    def where(self, condition: Condition) -> Int64s:
        """Return the numbers of the rows that meet a condition, ascending."""
        return sorted_ids(part.block.ids[condition(part.block.rows) & part.is_live] for part in self.parts)

    def count(self, condition: Condition) -> int:
        """Return the number of rows that meet a condition."""
        return sum(int(np.count_nonzero(condition(part.block.rows) & part.is_live)) for part in self.parts)

    def ids(self) -> Int64s:
        """Return the numbers of all rows, ascending."""
        return sorted_ids(part.live_ids() for part in self.parts)

    def take(self, ids: Int64s) -> pa.Table:
        """Return some rows by their ascending numbers, with `_id`."""
        indexes = [(part, part.index_of(ids)) for part in self.parts]
        rows = [part.block.rows.take(pa.array(index)) for part, index in indexes if len(index)]
        return (concat(rows) if rows else self.schema.empty_table()).append_column(ROW_ID, pa.array(ids))

    def replace(self, removed: Int64s, added: pa.Table) -> StateTable:
        """Return the table without some rows, and with others. `_id` of the added rows is ignored."""
        if len(removed) == 0 and added.num_rows == 0:
            return self
        removed = np.sort(removed)
        parts = [part.without(removed) for part in self.parts] if len(removed) else list(self.parts)
        if added.num_rows:
            rows = added.select(self.schema.names).combine_chunks()
            parts.append(Part.of(Block(rows, self.next_id + np.arange(rows.num_rows), self.keys)))
        return replace(
            self,
            parts=tuple(merge_similar([part for part in parts if part.count])),
            next_id=self.next_id + added.num_rows,
            removed=(*self.removed, removed) if self.origin is not None else (),
        )

    def saved_as(self, origin: object) -> StateTable:
        return replace(self, origin=origin, saved_id=self.next_id, removed=())

    def removed_since(self) -> Int64s:
        """Return the numbers of the rows that `origin` has, and that have been removed since, ascending."""
        removed = sorted_ids(self.removed)
        return removed[: np.searchsorted(removed, self.saved_id)]


def sorted_ids(parts: Iterable[Int64s]) -> Int64s:
    """Return numbers in ascending order."""
    return np.sort(np.concatenate([NO_IDS, *parts]))


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables, of which columns may differ in their types."""
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")


def join_tables(tables: Sequence[pa.Table | None]) -> pa.Table | None:
    """Return the rows of all tables; None if there is no table."""
    some = [table for table in tables if table is not None]
    with_rows = [table for table in some if table.num_rows]
    if not with_rows:
        return some[0] if some else None
    return concat(with_rows)


def merge_similar(parts: list[Part]) -> list[Part]:
    """Merge the last parts until each is much smaller than the one before it. Copy those that are half empty."""
    merged = [part if part.count * 2 >= len(part.is_live) else merge_parts([part]) for part in parts]
    while len(merged) > 1 and merged[-2].count <= 2 * merged[-1].count:
        merged[-2:] = [merge_parts(merged[-2:])]
    return merged


def merge_parts(parts: Sequence[Part]) -> Part:
    rows = concat([part.live_rows() for part in parts]).combine_chunks()
    block = Block(rows, np.concatenate([part.live_ids() for part in parts]), parts[0].block.keys)
    if all("hashes" in part.block.__dict__ for part in parts):
        block.__dict__["hashes"] = np.concatenate([part.block.hashes[part.is_live] for part in parts])
    return Part.of(block)
