"""Row groups of data files by the series that they may hold. A data file never changes, so its footer is read once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from headrace.storage.delta.lru_cache import LruCache

if TYPE_CHECKING:
    import pyarrow.dataset as ds

MAX_FOOTER_BYTES: Final = 64 << 20
"""Memory of the footers that are kept: some 3,000 of small files, which streams read most."""
FILE_BYTES, COLUMN_BYTES, CHUNK_BYTES = 4_800, 1_600, 900
"""What a footer takes as objects, measured: for itself, for each column of its schema, and for each column of a row group."""


@dataclass(frozen=True, slots=True)
class GroupedFile:
    """A data file with its footer, the least and greatest series of each row group (None if unknown), and the memory it takes."""

    fragment: ds.ParquetFileFragment
    ranges: tuple[tuple[str, str] | None, ...]
    bytes: int

    def select(self, names: Sequence[str]) -> ds.ParquetFileFragment | None:
        """Return the file without the row groups that cannot hold any of these series (sorted); None if it cannot."""
        groups = [group for group, range_ in enumerate(self.ranges) if range_ is None or may_contain(range_, names)]
        if len(groups) == len(self.ranges):
            return self.fragment
        return self.fragment.subset(row_group_ids=groups) if groups else None


def may_contain(range_: tuple[str, str], names: Sequence[str]) -> bool:
    """Return whether one of some sorted names lies within a range."""
    least, greatest = range_
    position = bisect_left(names, least)
    return position < len(names) and names[position] <= greatest


FOOTERS: Final[LruCache[tuple[str, str, bool], GroupedFile]] = LruCache(MAX_FOOTER_BYTES, lambda file: file.bytes)


def grouped_file(uri: str, system: pafs.FileSystem, key: str, *, encoded: bool) -> GroupedFile:
    """Return a file with its row groups. With `encoded`, the series key is read as a dictionary."""
    file = FOOTERS.get((uri, key, encoded))
    if file is None:
        file = read_footer(uri, system, key, encoded=encoded)
        FOOTERS.put((uri, key, encoded), file)
    return file


def read_footer(uri: str, system: pafs.FileSystem, key: str, *, encoded: bool) -> GroupedFile:
    fragment = parquet_format(key, encoded=encoded).make_fragment(uri, filesystem=system)
    fragment.ensure_complete_metadata()
    metadata = fragment.metadata
    column = metadata.schema.to_arrow_schema().get_field_index(key)
    ranges = tuple(text_range(metadata.row_group(group).column(column).statistics) for group in range(metadata.num_row_groups))
    size = FILE_BYTES + metadata.num_columns * (COLUMN_BYTES + CHUNK_BYTES * metadata.num_row_groups)
    return GroupedFile(fragment, ranges, size)


def text_range(statistics: pq.Statistics | None) -> tuple[str, str] | None:
    """Return the least and greatest text of a column of a row group; None if unknown."""
    if statistics is None or not statistics.has_min_max or not isinstance(statistics.max, str):
        return None
    return statistics.min, statistics.max


def parquet_format(key: str, *, encoded: bool) -> ds.ParquetFileFormat:
    """Return the format of data files, in which the series key is read as a dictionary if `encoded`."""
    import pyarrow.dataset as ds  # imports pandas, which takes as long as all other imports together

    return ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(dictionary_columns=[key] if encoded else []))


def series_dataset(
    uris: Sequence[str], schema: pa.Schema, system: pafs.FileSystem, key: str, names: Collection[str] | None, *, encoded: bool
) -> ds.FileSystemDataset:
    """Return data files without the row groups that cannot hold any of the series `names`; None for all series.

    Arrow does not leave them out itself: `text_field` keeps it from that. With `encoded`, the series key is a dictionary, also in
    `schema`.
    """
    import pyarrow.dataset as ds

    if names is None:
        return ds.dataset(list(uris), schema=schema, format=parquet_format(key, encoded=encoded), filesystem=system)
    wanted = sorted(names)
    selected = (grouped_file(uri, system, key, encoded=encoded).select(wanted) for uri in uris)
    fragments = [fragment for fragment in selected if fragment is not None]
    return ds.FileSystemDataset(fragments, schema, parquet_format(key, encoded=encoded), filesystem=system)
