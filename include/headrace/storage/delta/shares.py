"""Shares of a table: what one of several tasks reads of its data files, with Arrow, ordered by series and time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import NotSupportedError
from headrace.model.failpoints import failpoint
from headrace.storage.delta.data_files import DataFiles
from headrace.storage.delta.pruning import Bounds
from headrace.storage.delta.row_order import Array, as_dictionary, sort_rows, to_integers

SLICE_ROWS: Final = 1 << 20
"""Rows that `Share.read` returns at a time, unless a series has more."""


@dataclass(frozen=True, slots=True)
class SeriesRange:
    """Series from `first` (inclusive) to `end` (exclusive), in the order of their names; None for no limit."""

    first: str | None = None
    end: str | None = None

    def overlaps(self, low: str | None, high: str | None) -> bool:
        """Return whether names from `low` to `high` (inclusive, None if unknown) may be in the range."""
        is_before = high is not None and self.first is not None and high < self.first
        is_after = low is not None and self.end is not None and low >= self.end
        return not is_before and not is_after

    def mask(self, names: pa.Array) -> Array | None:
        """Return which names are in the range; None for all."""
        mask = None
        for limit, compare in ((self.first, pc.greater_equal), (self.end, pc.less)):
            if limit is not None:
                side = compare(names, pa.scalar(limit, names.type)).to_numpy(zero_copy_only=False)
                mask = side if mask is None else mask & side
        return None if mask is None or mask.all() else mask


MAX_TAGGED_SERIES: Final = 200_000
"""Greatest number of series whose tags are sent to tasks."""
ALL_SERIES: Final = SeriesRange()


@dataclass(frozen=True, slots=True)
class FilePart:
    """Row groups of a data file."""

    path: str
    groups: tuple[int, ...]


@dataclass(frozen=True)
class Share:
    """The rows of one task. Shares are sent to Spark's workers.

    Attributes:
        files: The data files of the table.
        parts: Row groups to read, in the order of time. They may hold other rows too, which `read` leaves out.
        schema: Stored columns of the table. A column that a file lacks is NULL.
        key: The series key; `time` is the timestamp column.
        series: The series of the share.
        bounds: Range of stored timestamps, inclusive; None for all times.
        tags: The series key and the tags that a query reads; None if it reads none.
        by_series: Whether it has all rows of its series. Such shares are in the order of series.
        whole: Whether slices have all rows of their series too, so that the share has to be read before the first slice.
    """

    files: DataFiles
    parts: tuple[FilePart, ...]
    schema: pa.Schema
    key: str
    time: str
    series: SeriesRange = ALL_SERIES
    bounds: Bounds | None = None
    tags: pa.Table | None = None
    by_series: bool = False
    whole: bool = True

    def read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield slices of about a million rows, each ordered by series and time; slices are cut between series if `whole`.

        Rows are in no order if nothing depends on their series. Among `columns` may be tags, whose text is a dictionary, as is the
        series key.
        """
        failpoint("storage.share.read")
        for tables in self._batches(columns):
            rows = pa.concat_tables(tables)
            if self.key in rows.column_names:
                rows = sort_rows(rows, self.key, self.time)
            for part in slice_rows(rows, self.key) if self.whole else [rows]:
                yield self._select(part, columns)

    def _depends_on_series(self, columns: Sequence[str]) -> bool:
        has_tags = any(name not in self.schema.names for name in columns)
        return self.whole or has_tags or self.key in columns or self.series != ALL_SERIES

    def _batches(self, columns: Sequence[str]) -> Iterator[list[pa.Table]]:
        """Yield tables to order together: all of a whole share, else as many as have the rows of a slice."""
        gathered: list[pa.Table] = []
        for table in self._row_groups(columns):
            gathered.append(table)
            if not self.whole and sum(part.num_rows for part in gathered) >= SLICE_ROWS:
                yield gathered
                gathered = []
        if gathered:
            yield gathered

    def _row_groups(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        keys = [self.key, self.time] if self._depends_on_series(columns) else [self.time]
        names = list(dict.fromkeys([*keys, *(name for name in columns if name in self.schema.names)]))
        for part in self.parts:
            for rows in self.files.row_groups(part.path, part.groups, names, self.key):
                table = self._filter(self._conform(rows, names))
                if table.num_rows:
                    yield table

    def _conform(self, table: pa.Table, names: Sequence[str]) -> pa.Table:
        return pa.table(
            {
                name: as_dictionary(table[name]) if name == self.key else as_type(table, name, self.schema.field(name).type)
                for name in names
            }
        )

    def _filter(self, table: pa.Table) -> pa.Table:
        masks = [self._series_mask(table), self._time_mask(table)]
        present = [mask for mask in masks if mask is not None]
        if not present:
            return table
        mask = np.logical_and.reduce(present)
        return table if mask.all() else table.filter(pa.array(mask))

    def _series_mask(self, table: pa.Table) -> Array | None:
        if self.key not in table.column_names:
            return None
        encoded = table[self.key].combine_chunks()
        mask = self.series.mask(encoded.dictionary)
        return None if mask is None else mask[encoded.indices.to_numpy()]

    def _time_mask(self, table: pa.Table) -> Array | None:
        if self.bounds is None:
            return None
        times = to_integers(table[self.time])
        mask: Array = (times >= self.bounds.low) & (times <= self.bounds.high)
        return mask

    def _select(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Return the columns that were asked for, tags included."""
        return pa.table({name: rows[name] if name in rows.column_names else self._tag(name, rows) for name in columns})

    def _tag(self, name: str, rows: pa.Table) -> pa.Array:
        """Return a tag of the rows' series, NULL for series without tags."""
        assert self.tags is not None
        encoded = rows[self.key].combine_chunks()
        positions = pc.index_in(encoded.dictionary, self._tag_names)
        values = self.tags[name].combine_chunks().take(positions)
        if not pa.types.is_string(values.type):
            return values.take(encoded.indices)
        distinct = values.dictionary_encode()
        return pa.DictionaryArray.from_arrays(distinct.indices.take(encoded.indices), distinct.dictionary)

    @cached_property
    def _tag_names(self) -> pa.Array:
        assert self.tags is not None
        return self.tags[self.key].combine_chunks()

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without cached values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def as_type(table: pa.Table, name: str, type_: pa.DataType) -> pa.ChunkedArray:
    """Return a column in a type; NULL if the table lacks it."""
    if name not in table.column_names:
        return pa.chunked_array([pa.nulls(table.num_rows, type_)])
    column = table[name]
    return column if column.type == type_ else column.cast(type_)


def slice_rows(rows: pa.Table, key: str) -> Iterator[pa.Table]:
    ranks = rows[key].combine_chunks().indices.to_numpy()
    start = 0
    while start < rows.num_rows:
        last = min(start + SLICE_ROWS, rows.num_rows) - 1
        end = int(np.searchsorted(ranks, ranks[last], side="right"))
        yield rows.slice(start, end - start)
        start = end


def with_tags(shares: list[Share], tags: pa.Table, columns: Sequence[str]) -> list[Share]:
    """Return shares with some tags of their series.

    Raises:
        NotSupportedError: There are too many series to send their tags to tasks.
    """
    if not columns:
        return shares
    if tags.num_rows > MAX_TAGGED_SERIES:
        raise NotSupportedError(f"{tags.num_rows} series have tags", hint="leave tags out")
    return [replace(share, tags=tags_of(share, tags.select([share.key, *columns]))) for share in shares]


def tags_of(share: Share, tags: pa.Table) -> pa.Table:
    mask = share.series.mask(tags[share.key].combine_chunks())
    return tags if mask is None else tags.filter(pa.array(mask))
