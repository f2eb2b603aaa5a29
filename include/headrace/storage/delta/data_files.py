"""Reading data files with pushed-down filters, pruning row groups by subtable."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from headrace.model.external_tables import OnChange
from headrace.storage.delta.pruning import Bounds, as_stored_integers
from headrace.storage.delta.row_groups import series_dataset
from headrace.storage.object_store import file_system, locate, locate_file

BATCH_ROWS: Final = 1 << 20
"""Rows that `read_batches` returns at a time, at most."""


def read_data_files(
    uri: str,
    paths: list[str],
    schema: pa.Schema,
    columns: list[str] | None,
    where: pc.Expression | None,
    further: pc.Expression | None = None,
    series: tuple[str, Collection[str] | None] | None = None,
) -> pa.Table:
    """Read columns of data files, all by default, whose `paths` are relative to `uri`; `schema` has all of the table's columns.

    `where` is pushed down into the files, and may compare text only by `text_field`; `further` filters the rows that it selects.
    With `series`, a series key and names, row groups that cannot contain these are skipped; other rows may be returned too.
    """
    import pyarrow.dataset as ds  # imports pandas, which takes as long as all other imports together

    if not paths:
        return pa.schema([schema.field(name) for name in columns] if columns is not None else schema).empty_table()
    system, root = file_system(uri)
    uris = [locate(root, path) for path in paths]
    if series is None:
        dataset: Any = ds.dataset(uris, schema=schema, format="parquet", filesystem=system)
    else:
        dataset = series_dataset(uris, schema, system, *series, encoded=False)
    if further is None:
        return dataset.to_table(columns=columns, filter=where)
    reader = dataset.scanner(filter=where).to_reader()
    return ds.Scanner.from_batches(reader, columns=columns, filter=further).to_table()


def with_stored_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows of a data file with all stored columns; those that are younger than the file are NULL."""
    if rows.schema.equals(schema):
        return rows
    present = set(rows.column_names)
    columns = [
        rows[field.name].cast(field.type) if field.name in present else pa.nulls(rows.num_rows, field.type) for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def read_batches(
    uri: str,
    paths: list[str],
    schema: pa.Schema,
    columns: list[str],
    where: pc.Expression | None,
    series: tuple[str, Collection[str] | None],
    *,
    further: pc.Expression | None = None,
    encoded: bool = True,
    max_rows: int = BATCH_ROWS,
    ahead: int = 2,
) -> Iterator[pa.RecordBatch]:
    """Read rows as `read_data_files` does, in batches of at most `max_rows`. With `encoded`, the series key is a dictionary.

    `further` may not compare text. `ahead` is how many batches and files are read ahead: fewer need less memory. Without names,
    `series` means all.
    """
    key, names = series
    where = further if where is None else where if further is None else further & where
    system, root = file_system(uri)
    uris = [locate(root, path) for path in paths]
    if encoded:
        schema = schema.set(schema.get_field_index(key), pa.field(key, pa.dictionary(pa.int32(), pa.string())))
    dataset = series_dataset(uris, schema, system, key, names, encoded=encoded)
    scanner = dataset.scanner(columns=columns, filter=where, batch_size=max_rows, batch_readahead=ahead, fragment_readahead=ahead)
    yield from scanner.to_batches()


@dataclass(frozen=True)
class DataFiles:
    """The data files of one table, and how rows are read from them. Sent to Spark's workers."""

    uri: str

    @property
    def on_change(self) -> OnChange:
        """What a commit that removes or replaces rows means to readers."""
        return OnChange.RECALCULATE

    def references(self, actions: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the files of a log entry's actions as the other methods take them."""
        return [action["path"] for action in actions]

    def listed(self, files: pa.Table) -> pa.Table:
        """Return the files of a version, with statistics of the keys."""
        return files

    def read(
        self,
        paths: list[str],
        schema: pa.Schema,
        columns: list[str] | None,
        where: pc.Expression | None,
        further: pc.Expression | None = None,
        *,
        series: tuple[str, Collection[str] | None] | None = None,
        bounds: Bounds | None = None,  # noqa: ARG002
    ) -> pa.Table:
        """Read rows as `read_data_files` does. `bounds` are of times (as stored) that `where` lets through."""
        return read_data_files(self.uri, paths, schema, columns, where, further, series)

    def batches(
        self,
        paths: list[str],
        schema: pa.Schema,
        columns: list[str],
        where: pc.Expression | None,
        series: tuple[str, Collection[str] | None],
        *,
        further: pc.Expression | None = None,
        encoded: bool = True,
        max_rows: int = BATCH_ROWS,
        ahead: int = 2,
        bounds: Bounds | None = None,  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        """Read rows as `read_batches` does. `bounds` are of times (as stored) that `where` lets through."""
        return read_batches(
            *(self.uri, paths, schema, columns, where, series), further=further, encoded=encoded, max_rows=max_rows, ahead=ahead
        )

    def row_groups(self, path: str, groups: Sequence[int], columns: Sequence[str], key: str) -> Iterator[pa.Table]:
        """Yield those of some columns that a file has, of each of some row groups. The series key may be a dictionary."""
        system, file_key = locate_file(self.uri, path)
        with pq.ParquetFile(file_key, filesystem=system, read_dictionary=[key]) as file:
            present = [name for name in columns if name in file.schema_arrow.names]
            for group in groups:
                yield file.read_row_group(group, columns=present, use_threads=False)

    def time_range(self, path: str, name: str, schema: pa.Schema) -> Bounds | None:
        """Return the least and greatest timestamp (as stored) of a data file from its footer, None if this does not have it."""
        values = as_stored_integers(pa.array(footer_ends(*locate_file(self.uri, path), name), schema.field(name).type)).to_pylist()
        return Bounds(min(values), max(values)) if values else None


def footer_ends(system: pafs.FileSystem, key: str, column: str) -> list[object]:
    """Return the least and greatest values of a column of the row groups of a file; none if its footer does not have all."""
    try:
        footer = pq.read_metadata(key, filesystem=system)
    except FileNotFoundError:
        return []
    positions = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
    if column not in positions:
        return []
    groups = [footer.row_group(group).column(positions[column]).statistics for group in range(footer.num_row_groups)]
    if any(one is None or not one.has_min_max for one in groups):
        return []
    return [end for one in groups for end in (one.min, one.max)]
