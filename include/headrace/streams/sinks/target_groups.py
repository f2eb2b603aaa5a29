"""The subtables of a stream's target: which group has which, and the creation of those of new groups, all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.errors import DataError, ExistsError, TransientError
from headrace.model.types import TypeKind
from headrace.storage.row_matching import match_rows, row_ids
from headrace.storage.types import arrow_type
from headrace.streams.definition.define import StreamPlan
from headrace.streams.definition.group_ids import UInt64s, empty_text, subtable_uids
from headrace.streams.definition.groups import GroupKind, TagSource
from headrace.streams.state.tables import NO_IDS, StateTable, concat
from headrace.streams.windows.change_batch import Int64s, from_ticks

MAX_CACHED_GROUPS: Final = 2_000_000
"""When more groups than this are cached, the cache is cleared."""
MAX_NAMES: Final = 200_000
"""Names that the catalog looks up or adds in one transaction, so that neither memory nor its lock follow the number of groups."""
ONE_GROUP: Final = "_group"
GROUP_ID: Final = "_group_id"
SUBTABLE: Final = "_subtable"


class TargetGroups:
    """Identifies the groups of one stream, creates their subtables, and caches both."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan
        self._identified = GroupCache(plan.groups.columns)
        self._assigned = GroupCache(plan.groups.columns)
        self._drops = self._read_drops(0)
        self._committing: list[pa.Table] | None = None

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Commit rows of assigned subtables in a `with` block. Those that were dropped before, or meanwhile, are created again."""
        self._forget_dropped()
        assigned: list[pa.Table] = []
        self._committing = assigned
        yield
        self._committing = None
        if self._forget_dropped():
            for groups in assigned:
                self._assigned.values_of(groups, self.create_subtables)

    def assign(self, windows: pa.Table) -> pa.ChunkedArray:
        """Return for each window the target's subtable for its group; NULL if the group's source subtable was dropped."""
        if windows.num_rows == 0:
            return pa.chunked_array([], pa.string())
        groups, group_index = distinct_groups(windows, self.plan.groups.columns)
        if self._committing is not None:
            self._committing.append(groups)
        names = self._assigned.values_of(groups, self.create_subtables)[SUBTABLE]
        return pa.chunked_array([names.combine_chunks().take(pa.array(group_index))])

    def identify(self, windows: pa.Table) -> tuple[UInt64s, pa.Array]:
        """Return for each window the id of its group, and the name of the group's subtable, whether or not it exists.

        Of a group whose source subtable was dropped they are 0 and NULL.
        """
        if windows.num_rows == 0:
            return np.empty(0, np.uint64), pa.array([], pa.string())
        groups, group_index = distinct_groups(windows, self.plan.groups.columns)
        identified = self._identified.values_of(groups, self.identified).take(pa.array(group_index))
        ids = identified[GROUP_ID].fill_null(0).to_numpy()
        return ids.astype(np.uint64), identified[SUBTABLE].combine_chunks()

    def identified(self, groups: pa.Table) -> pa.Table:
        """Add their ids and the names of their subtables to groups. Leave out those whose source subtable was dropped."""
        rule = self.plan.groups
        if rule.kind is GroupKind.SUBTABLE:
            groups = self.with_source(groups)
            ids = subtable_uids(self.plan.source_database.name, groups[rule.keys[0].column].combine_chunks())
        else:
            ids = rule.ids_of(groups)
        custom_names = None if rule.name is None else groups[rule.name].combine_chunks()
        names = rule.subtable_names(ids, custom_names)
        return groups.append_column(GROUP_ID, pa.array(ids)).append_column(SUBTABLE, names)

    def with_source(self, groups: pa.Table) -> pa.Table:
        """Return the groups whose source subtable exists.

        A series of an external table does as soon as it has rows, which may be before the catalog knows it.
        """
        names = groups[self.plan.groups.keys[0].column].combine_chunks()
        if self.plan.source.external is not None:
            return groups.filter(pc.is_valid(names))
        database, subtables = self.plan.source_database.name, self.context.catalog.subtables
        # In the order of the catalog's index, in which each of its pages is read once.
        sources = names.drop_null()
        sources = distinct_neighbors(sources.take(text_order(sources)))
        missing = [name for part in parts(sources) for name in subtables.missing(database, part.to_pylist())]
        if not missing and not names.null_count:
            return groups
        is_missing = pc.is_in(names, pa.array([*missing, None], names.type))
        return groups.filter(pc.invert(is_missing))

    def create_subtables(self, groups: pa.Table) -> pa.Table:
        """Create the subtables of groups and set their tags.

        Return the groups with their subtables, NULL for those whose source subtable was dropped.
        """
        identified = self.identified(groups)
        names = identified[SUBTABLE].combine_chunks()
        # In the order of the catalog's index, in which each of its pages is written once.
        order = text_order(names)
        in_order = distinct_neighbors(names.take(order))
        for part in parts(in_order):
            self.add_subtables(part)
        if identified.num_rows and self.plan.target.tags:
            self.context.tables.tags.upsert(self.plan.target, self.tag_rows(identified).take(order))
        if identified.num_rows == groups.num_rows:
            return identified.drop_columns([GROUP_ID])
        index = pa.array(match_rows(groups, identified, groups.column_names))
        names = identified[SUBTABLE].take(pc.if_else(pc.less(index, 0), None, index))
        return groups.append_column(SUBTABLE, names)

    def add_subtables(self, names: pa.Array) -> None:
        """Add missing subtables to the target.

        Raises:
            ExistsError: A name belongs to another table. The micro-batch is not committed, so that no result is lost.
        """
        database, target = self.plan.target_database.name, self.plan.target.name
        try:
            self.context.catalog.subtables.add(database, target, names.to_pylist())
        except ExistsError as error:
            raise ExistsError(
                f"a group's results cannot be written to {target}: {error.message}",
                hint=f"{error.hint}; drop that table, or give the stream another SUBTABLE, then RESUME STREAM",
            ) from None

    def _forget_dropped(self) -> bool:
        """Clear the cache and return True if subtables of the target were dropped since this was last called."""
        before, self._drops = self._drops, self._read_drops(self._drops)
        if self._drops != before:
            self._assigned = GroupCache(self.plan.groups.columns)
        return self._drops != before

    def _read_drops(self, default: int) -> int:
        """Return how many times subtables of the target were dropped; the default while the catalog cannot be reached."""
        try:
            return self.context.catalog.subtables.drops(self.plan.target_database.name, self.plan.target.name)
        except TransientError:
            return default

    def tag_rows(self, groups: pa.Table) -> pa.Table:
        """Return the tags of new subtables, in stored types."""
        columns = {self.plan.target.series_key: groups[SUBTABLE]}
        for tag in self.plan.groups.tags:
            columns[tag.name] = self.tag_values(groups, tag)
        if self.plan.groups.id_tag is not None:
            columns[self.plan.groups.id_tag] = groups[GROUP_ID].cast(pa.decimal128(20, 0))
        return pa.table(columns)

    def tag_values(self, groups: pa.Table, tag: TagSource) -> pa.ChunkedArray:
        """Return a tag for groups, or for windows by their groups, in its stored type."""
        type_ = arrow_type(tag.type, self.plan.target_database.precision)
        if tag.column is None:
            return pa.chunked_array([pa.nulls(groups.num_rows, type_)])
        values = groups[tag.column]
        if tag.type.kind is TypeKind.TIMESTAMP:
            return convert_precision(from_ticks(values.cast(pa.int64()), self.plan.query.precision), type_)
        return values.cast(type_)


class GroupCache:
    """Groups with something that belongs to them, found by the hash of their columns."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)
        self._rows: StateTable | None = None

    def values_of(self, groups: pa.Table, compute: Callable[[pa.Table], pa.Table]) -> pa.Table:
        """Return the row of each of some distinct groups, NULL if there is none.

        `compute` is called with the groups that are not cached. It returns them with other columns, in the same order. What it
        leaves out is computed again by the next call.
        """
        if self._rows is not None and self._rows.num_rows > MAX_CACHED_GROUPS:
            self._rows = None
        index, rows = self._match(groups)
        is_new = index < 0
        if is_new.any():
            new = groups if is_new.all() else groups.filter(pa.array(is_new))
            computed = compute(new)
            self._add(computed)
            if computed.num_rows == groups.num_rows:
                return computed
            is_complete = computed.num_rows == new.num_rows
            new_index = np.arange(new.num_rows) if is_complete else match_rows(new, computed, self._columns)
            index[is_new] = np.where(new_index < 0, -1, new_index + rows.num_rows)
            rows = concat([rows.select(computed.column_names), computed] if rows.num_rows else [computed])
        return rows.take(pa.array(index, mask=index < 0))

    def _match(self, groups: pa.Table) -> tuple[Int64s, pa.Table]:
        """Return cached rows, and for each group the index of its row; -1 if it is not cached."""
        if self._rows is None:
            return np.full(groups.num_rows, -1), groups.slice(0, 0)
        # Looking up most of the rows takes longer than matching the groups with all of them.
        are_most = 2 * groups.num_rows >= self._rows.num_rows
        rows = self._rows.to_table() if are_most else self._rows.take(self._rows.matching(groups))
        return match_rows(groups, rows, self._columns), rows

    def _add(self, rows: pa.Table) -> None:
        self._rows = StateTable.of(rows, self._columns) if self._rows is None else self._rows.replace(NO_IDS, rows)


def parts(names: pa.Array) -> Iterator[pa.Array]:
    return (names[start : start + MAX_NAMES] for start in range(0, len(names), MAX_NAMES))


def distinct_groups(windows: pa.Table, columns: Sequence[str]) -> tuple[pa.Table, Int64s]:
    if not columns:
        return pa.table({ONE_GROUP: [0]}), np.zeros(windows.num_rows, np.int64)
    (group_index,) = row_ids([windows], columns)
    first = np.empty(int(group_index.max(initial=-1)) + 1, np.int64)
    first[group_index[::-1]] = np.arange(windows.num_rows)[::-1]
    groups = windows.select(columns)
    if len(first) < windows.num_rows or not np.array_equal(first, np.arange(len(first))):
        groups = groups.take(pa.array(first))
    return pa.table({name: plain(groups[name]) for name in columns}), group_index


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that are the same in all tables: texts may be dictionaries or large."""
    type_ = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    return values.cast(pa.string() if pa.types.is_large_string(type_) else type_)


def convert_precision(values: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Convert stored timestamps from one precision to another: nanoseconds are integers, others microseconds.

    Raises:
        DataError: An instant is beyond the range of nanoseconds.
    """
    if values.type == type_:
        return values
    if pa.types.is_integer(type_):
        try:
            return pc.multiply_checked(values.cast(pa.int64()), 1000)
        except pa.ArrowInvalid:
            raise DataError(
                "a timestamp of a result is not of the years 1677 to 2262, which nanoseconds hold",
                hint="leave such rows out with WHERE, or write to a database with PRECISION 'ms' or 'us'",
            ) from None
    micros = pc.divide(values, 1000)
    rounded_up = pc.greater(pc.multiply(micros, 1000), values)
    return pc.subtract(micros, rounded_up.cast(pa.int64())).cast(type_)


KEY_BYTES: Final = 8


def text_order(texts: pa.Array) -> pa.Array:
    """Return the indexes of texts in ascending order. Equal texts keep their order; NULL is not supported.

    Integers are compared instead of texts, which takes a third of the time, and texts only where these are equal.
    """
    if len(texts) < 2:
        return pa.array(np.arange(len(texts)))
    keys = sort_keys(texts)
    order = np.argsort(keys)
    ordered_keys = keys[order]
    is_equal = np.concatenate(([False], ordered_keys[1:] == ordered_keys[:-1], [False]))
    positions = np.flatnonzero(is_equal[1:] | is_equal[:-1])
    equal = pa.array(np.sort(order[positions]))
    order[positions] = equal.take(pc.sort_indices(texts.take(equal)))
    return pa.array(order)


def sort_keys(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the bytes of texts after those that all begin with, as integers in the same order."""
    ends = pc.min_max(texts).as_py()
    pairs = enumerate(zip(*(ends[end].encode() for end in ("min", "max")), strict=False))
    start = next((index for index, (byte, other) in pairs if byte != other), len(ends["min"].encode()))
    bytes_ = pc.binary_slice(texts.cast(pa.large_binary()), start, start + KEY_BYTES)
    if pc.min(pc.binary_length(bytes_)).as_py() < KEY_BYTES:
        padding = pa.scalar(bytes(KEY_BYTES), pa.large_binary())
        padded = pc.binary_join_element_wise(bytes_, padding, empty_text())
        bytes_ = pc.binary_slice(padded, 0, KEY_BYTES)
    return np.frombuffer(bytes_.buffers()[2], ">u8", len(bytes_)).astype(np.uint64)


def distinct_neighbors(texts: pa.Array) -> pa.Array:
    """Return texts in ascending order without duplicates."""
    if len(texts) < 2:
        return texts
    differs = pc.not_equal(texts[1:], texts[:-1])
    return texts if pc.all(differs).as_py() else texts.filter(pa.concat_arrays([pa.array([True]), differs]))
