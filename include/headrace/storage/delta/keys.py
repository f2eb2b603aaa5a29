"""Rows by primary key: deduplication, lookup of stored keys, and SQL conditions on keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DataError, InternalError
from headrace.model.tables import Table
from headrace.storage.delta.data_files import read_data_files
from headrace.storage.delta.handles import Handle
from headrace.storage.delta.key_digests import key_digests
from headrace.storage.delta.pruning import Bounds, as_stored_integers, key_filter, prune_files, time_bounds
from headrace.storage.delta.row_order import decoded, has_distinct_times, with_encoded_series
from headrace.storage.delta.series_ends import MAX_ROWS, may_have_any, series_ends
from headrace.storage.types import MICROSECONDS

_ORDER: Final = "__order"
MIN_CHECKED_ROWS: Final = 500
MAX_CACHED_ROWS: Final = 131_072
"""Rows of a data file whose keys stay in memory."""


def conform_rows(rows: pa.Table, schema: pa.Schema, key: Sequence[str], owner: str) -> pa.Table:
    """Return rows with exactly the stored columns in order; a missing column is NULL. `owner` names the table in messages.

    Raises:
        InternalError: A column has another type, or is not one of the table's.
        DataError: A timestamp or subtable name is NULL.
    """
    unknown = [name for name in rows.column_names if name not in schema.names]
    if unknown:
        raise InternalError(f"{owner} has no stored column {unknown[0]}", hint="write the stored columns only")
    columns = [
        rows[name] if name in rows.column_names else pa.nulls(rows.num_rows, schema.field(name).type) for name in schema.names
    ]
    try:
        cast = [
            column if column.type == field.type else column.cast(field.type) for column, field in zip(columns, schema, strict=True)
        ]
        conformed = pa.Table.from_arrays(cast, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InternalError(f"rows for {owner} do not have its stored types: {error}") from error
    for name in key:
        if conformed[name].null_count:
            raise DataError(f"{owner}: {name} cannot be NULL, it is part of the key of a row", hint="give every row its key")
    return conformed


def keep_last_per_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    if rows.num_rows < 2 or (rows.num_rows >= MIN_CHECKED_ROWS and are_distinct(rows, key)):
        return rows
    rows = decoded(rows)
    numbered = rows.select(list(key)).append_column(_ORDER, pa.array(np.arange(rows.num_rows)))
    last = numbered.group_by(list(key), use_threads=False).aggregate([(_ORDER, "max")])[f"{_ORDER}_max"]
    return rows if len(last) == rows.num_rows else rows.take(last.take(pc.sort_indices(last)))


def are_distinct(rows: pa.Table, key: Sequence[str]) -> bool:
    """Return whether rows are seen to be distinct by less work than finding the last row of each key.

    Series and time alone may tell all rows apart. Rows of a series each, as tags are, may be in ascending order.
    """
    if has_nulls(rows, key[:2]):
        return False
    if len(key) == 1:
        names = rows[key[0]]
        return bool(pc.all(pc.less(names[:-1], names[1:])).as_py())
    return has_distinct_times(rows, *key[:2])


def has_nulls(rows: pa.Table, columns: Sequence[str]) -> bool:
    return any(rows[name].null_count for name in columns)


def keep_last_values_per_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Combine rows of one key, keeping the last value of each column that is not NULL."""
    if rows.num_rows < 2 or (len(key) == 2 and not has_nulls(rows, key) and has_distinct_times(rows, *key)):
        return rows
    rows = decoded(rows)
    values = [name for name in rows.column_names if name not in key]
    grouped = rows.group_by(list(key), use_threads=False)
    combined = grouped.aggregate([(name, "last", pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)) for name in values])
    if combined.num_rows == rows.num_rows:
        return rows
    return combined.rename_columns(
        [name.removesuffix("_last") if name not in key else name for name in combined.column_names]
    ).select(rows.column_names)


def anti_join(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows whose key is not among the others."""
    return rows.join(others.select(list(key)), keys=list(key), join_type="left anti") if others.num_rows and rows.num_rows else rows


def semi_join(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
    return rows.join(others.select(list(key)), keys=list(key), join_type="left semi") if rows.num_rows else rows


def find_stored_keys(handle: Handle, files: pa.Table, table: Table, schema: pa.Schema, keys: pa.Table) -> pa.Table:
    """Return the keys that the table holds, whose data files are `files`.

    The series of `keys` may be a dictionary. Files are pruned by statistics: for keys newer than all rows, none is read. The
    keys of small files are read once.
    """
    nothing = keys.slice(0, 0)
    if keys.num_rows == 0:
        return nothing
    files = without_earlier(handle, files, table, keys)
    if not files.num_rows:
        return nothing
    keys = decoded(keys)
    bounds, primary = time_bounds(keys, table.timestamp.name), list(table.primary_key)
    names = pc.unique(keys[table.series_key]).to_pylist()
    pruned = prune_files(files, table, schema, bounds, names)
    is_small = pc.fill_null(pc.less_equal(pruned["num_records"], MAX_CACHED_ROWS), False)
    small, large = pruned.filter(is_small), pruned.filter(pc.invert(is_small))
    stored = [keys_in_small_files(handle, small, table, schema, keys)] if small.num_rows else []
    if paths := [file["path"] for file in large.to_pylist() if may_hold_any(handle, file, table, schema, keys)]:
        pushed, series = key_filter(table, schema, bounds, names), (table.series_key, names)
        stored.append(read_data_files(handle.uri, paths, schema, primary, pushed, series=series))
    stored = [rows for rows in stored if rows.num_rows]
    return semi_join(keys, pa.concat_tables(stored), primary) if stored else nothing


def without_earlier(handle: Handle, files: pa.Table, table: Table, keys: pa.Table) -> pa.Table:
    """Return files without those whose latest times are known, if the keys are later than all that these have of their series."""
    if handle.latest_times.may_have_any(keys, table):
        return files
    unknown = handle.latest_times.unknown(files["path"].to_pylist())
    return files.filter(pc.is_in(files["path"], pa.array(unknown, pa.string()))) if unknown else files.slice(0, 0)


def may_hold_any(handle: Handle, file: Mapping[str, Any], table: Table, schema: pa.Schema, keys: pa.Table) -> bool:
    """Return whether a large file may have one of some keys, which it has not if they are later than all of their series."""
    rows, path = file["num_records"], f"{handle.uri}/{file['path']}"
    if rows is None or rows > MAX_ROWS:
        return True
    ends = handle.ends.get(path)
    if ends is None:
        ends = series_ends(read_data_files(handle.uri, [file["path"]], schema, list(table.primary_key), None), table)
        handle.ends.put(path, ends)
    handle.latest_times.add(file["path"], ends)
    return may_have_any(ends, keys, table)


def keys_in_small_files(handle: Handle, files: pa.Table, table: Table, schema: pa.Schema, keys: pa.Table) -> pa.Table:
    """Return the stored keys of small files at the instants of some keys; none if no file has one of them."""
    paths: list[str] = files["path"].to_pylist()
    if pc.sum(files["num_records"]).as_py() <= handle.digests.max_digests:
        for path in handle.digests.missing(paths):
            handle.digests.add(path, key_digests(cached_keys(handle, table, schema, path), table.primary_key))
        if handle.digests.show_absence(paths, key_digests(keys, table.primary_key)):
            return keys.slice(0, 0)
    return rows_at(pa.concat_tables(cached_keys(handle, table, schema, path) for path in paths), keys, table)


def cached_keys(handle: Handle, table: Table, schema: pa.Schema, path: str) -> pa.Table:
    """Return the keys of a data file, with the series as a dictionary."""
    keys = handle.keys.get(f"{handle.uri}/{path}")
    if keys is None:
        rows = read_data_files(handle.uri, [path], schema, list(table.primary_key), None)
        keys = keep_keys(handle, table, path, rows)
    return keys


def keep_keys(handle: Handle, table: Table, path: str, rows: pa.Table) -> pa.Table:
    """Keep the keys of the rows of a small data file in memory, and return them."""
    keys = with_encoded_series(rows.select(list(table.primary_key)).combine_chunks(), table.series_key)
    if keys.num_rows <= MAX_CACHED_ROWS:
        handle.keys.put(f"{handle.uri}/{path}", keys)
    handle.latest_times.add(path, series_ends(keys, table))
    return keys


def rows_at(rows: pa.Table, keys: pa.Table, table: Table) -> pa.Table:
    """Return the stored keys at instants of others: few, or none, where these are of other series or new."""
    name = table.timestamp.name
    found = rows.filter(pc.is_in(as_stored_integers(rows[name]), as_stored_integers(keys[name]).combine_chunks()))
    return found.cast(keys.schema)


def quote_identifier(name: str) -> str:
    """Quote a name for SQL of delta-rs."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def text_literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def instant_literal(schema: pa.Schema, name: str, value: int) -> str:
    """Return a stored timestamp's integer as a literal of its column's type."""
    if schema.field(name).type != MICROSECONDS:
        return str(value)
    return f"arrow_cast({value}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


# Timestamps past the year 9999, in microseconds: delta-rs cannot write them into the log.
UNBOUNDED: Final = 253_402_300_800_000_000


def time_condition(schema: pa.Schema, name: str, bounds: Bounds, prefix: str = "") -> str:
    """Return the condition that a timestamp lies within bounds. An end beyond the calendar's range is left out."""
    column = f"{prefix}{quote_identifier(name)}"
    if bounds.low == bounds.high:
        return f"{column} = {instant_literal(schema, name, bounds.low)}"
    limit = UNBOUNDED if pa.types.is_timestamp(schema.field(name).type) else 2**63 - 1
    ends = [(">=", bounds.low)] if bounds.low > -limit else []
    ends += [("<=", bounds.high)] if bounds.high < limit else []
    return " AND ".join(f"{column} {sign} {instant_literal(schema, name, end)}" for sign, end in ends) or "true"


def subtable_condition(names: Sequence[str], column: str, prefix: str = "") -> str:
    """The condition that a row belongs to one of some series, by its series key."""
    return f"{prefix}{quote_identifier(column)} IN ({', '.join(text_literal(name) for name in names)})"
