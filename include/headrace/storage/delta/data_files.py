"""Reading data files with pushed-down filters, pruning row groups by subtable."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.storage.delta.row_groups import series_dataset
from headrace.storage.object_store import file_system, locate

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
    encoded: bool = True,
    max_rows: int = BATCH_ROWS,
    ahead: int = 2,
) -> Iterator[pa.RecordBatch]:
    """Read rows as `read_data_files` does, in batches of at most `max_rows`. With `encoded`, the series key is a dictionary.

    `ahead` is how many batches and files are read ahead: fewer need less memory. Without names, `series` means all.
    """
    key, names = series
    system, root = file_system(uri)
    uris = [locate(root, path) for path in paths]
    if encoded:
        schema = schema.set(schema.get_field_index(key), pa.field(key, pa.dictionary(pa.int32(), pa.string())))
    dataset = series_dataset(uris, schema, system, key, names, encoded=encoded)
    scanner = dataset.scanner(columns=columns, filter=where, batch_size=max_rows, batch_readahead=ahead, fragment_readahead=ahead)
    yield from scanner.to_batches()


def text_field(name: str) -> pc.Expression:
    """Return a text column for a pushed-down filter.

    delta-rs writes text as `string_view`, and Arrow fails to compare the statistics of such files with text. A cast keeps Arrow
    from using the statistics.
    """
    return pc.field(name).cast(pa.string())
