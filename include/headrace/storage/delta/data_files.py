"""Reading data files with pushed-down filters, pruning row groups by subtable."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.storage.delta.row_groups import series_dataset
from headrace.storage.object_store import file_system, locate

if TYPE_CHECKING:
    from headrace.storage.delta.external_rows import ExternalRows
    from headrace.storage.delta.pruning import Bounds

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
    external: ExternalRows | None = None,
    bounds: Bounds | None = None,
) -> pa.Table:
    """Read columns of data files, all by default, whose `paths` are relative to `uri`; `schema` has all of the table's columns.

    `where` is pushed down into the files, and may compare text only by `text_field`; `further` filters the rows that it selects.
    With `series`, a series key and names, row groups that cannot contain these are skipped; other rows may be returned too.
    Files of another writer are read as `external` says; `bounds` are times of rows that `where` selects.
    """
    import pyarrow.dataset as ds  # imports pandas, which takes as long as all other imports together

    empty = pa.schema([schema.field(name) for name in columns] if columns is not None else schema).empty_table()
    if not paths:
        return empty
    if external is not None:
        batches = external.batches(uri, paths, empty.column_names, where, further, bounds=bounds, max_rows=BATCH_ROWS)
        return pa.Table.from_batches(batches, schema=empty.schema.remove_metadata()).cast(empty.schema)
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
    external: ExternalRows | None = None,
    bounds: Bounds | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read rows as `read_data_files` does, in batches of at most `max_rows`. With `encoded`, the series key is a dictionary.

    `further` may not compare text. `ahead` is how many batches and files are read ahead: fewer need less memory. Without names,
    `series` means all.
    """
    key, names = series
    if external is not None:
        batches = external.batches(uri, paths, columns, where, further, bounds=bounds, max_rows=max_rows, ahead=ahead)
        yield from (with_dictionary(batch, key) for batch in batches) if encoded else batches
        return
    where = further if where is None else where if further is None else further & where
    system, root = file_system(uri)
    uris = [locate(root, path) for path in paths]
    if encoded:
        schema = schema.set(schema.get_field_index(key), pa.field(key, pa.dictionary(pa.int32(), pa.string())))
    dataset = series_dataset(uris, schema, system, key, names, encoded=encoded)
    scanner = dataset.scanner(columns=columns, filter=where, batch_size=max_rows, batch_readahead=ahead, fragment_readahead=ahead)
    yield from scanner.to_batches()


def with_dictionary(batch: pa.RecordBatch, key: str) -> pa.RecordBatch:
    """Return rows with their series key, if they have it, as a dictionary."""
    position = batch.schema.get_field_index(key)
    return batch if position < 0 else batch.set_column(position, key, batch.column(position).dictionary_encode())


def text_field(name: str) -> pc.Expression:
    """Return a text column for a pushed-down filter.

    delta-rs writes text as `string_view`, and Arrow fails to compare the statistics of such files with text. A cast keeps Arrow
    from using the statistics.
    """
    return pc.field(name).cast(pa.string())
