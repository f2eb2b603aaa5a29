"""The order of rows by series and time, as NumPy arrays. Names are compared once each, and not for each row."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = np.ndarray[Any, Any]
KEY_TYPE: Final = pa.dictionary(pa.int32(), pa.string())


def as_dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    if not pa.types.is_dictionary(column.type):
        column = combined(column.cast(pa.string())).dictionary_encode()
    elif column.type != KEY_TYPE:
        column = column.cast(KEY_TYPE)
    unified = pa.table({"": column}).unify_dictionaries()[0].combine_chunks()
    return unified.chunk(0) if isinstance(unified, pa.ChunkedArray) else unified


def combined(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in as few chunks as possible: to unify their dictionaries takes as long as to make them."""
    return pa.table({"": column}).combine_chunks()[0]


def with_encoded_series(rows: pa.Table, series_key: str) -> pa.Table:
    """Return rows whose series key is a dictionary."""
    return rows.set_column(rows.schema.get_field_index(series_key), series_key, as_dictionary(rows[series_key]))


def encoded_schema(schema: pa.Schema, series_key: str) -> pa.Schema:
    """Return the schema of such rows."""
    return schema.set(schema.get_field_index(series_key), pa.field(series_key, KEY_TYPE))


def decoded(rows: pa.Table) -> pa.Table:
    """Return rows with texts in place of dictionaries."""
    fields = [field.with_type(value_type(field.type)) for field in rows.schema]
    return rows.cast(pa.schema(fields))


def value_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of the values of a column, which may be a dictionary."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def least_and_greatest(column: pa.ChunkedArray) -> pa.StructScalar:
    """Return the least and the greatest value of a column as `min` and `max`, which are NULL if it has none."""
    if pa.types.is_dictionary(column.type):
        encoded = as_dictionary(column)
        column = encoded.dictionary.take(encoded.indices.unique())
    return pc.min_max(column)


def ranked(encoded: pa.DictionaryArray) -> tuple[Array, pa.Array]:
    """Return the rank of each row's name, and the names in order."""
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order), dtype=np.int32)
    return ranks[encoded.indices.to_numpy()], encoded.dictionary.take(pa.array(order))


def ordering(ranks: Array, times: Array) -> Array | None:
    """Return the positions of rows in the order of series and time; None if they are ordered. Equal rows keep their order."""
    if is_ordered(ranks, times):
        return None
    narrow = narrowed(ranks)
    order = np.argsort(narrow, kind="stable")
    # Rows are often written and read in the order of time.
    if is_ordered(ranks[order], times[order]):
        return order
    by_time = np.argsort(times, kind="stable")
    return by_time[np.argsort(narrow[by_time], kind="stable")]


def narrowed(numbers: Array) -> Array:
    """Return numbers of up to 16 bits as such, whose sort is a radix sort."""
    return numbers.astype(np.uint16) if not len(numbers) or numbers.max() < 1 << 16 else numbers


def is_ordered(ranks: Array, times: Array) -> bool:
    """Return whether rows are ordered by series and time."""
    return bool(np.all((ranks[1:] > ranks[:-1]) | ((ranks[1:] == ranks[:-1]) & (times[1:] >= times[:-1]))))


def to_integers(times: pa.ChunkedArray) -> Array:
    """Return stored timestamps as integers of their unit."""
    integers: Array = pc.cast(times, pa.int64()).to_numpy()
    return integers


def sort_rows(rows: pa.Table, series_key: str, time: str) -> pa.Table:
    """Return rows ordered by series and time. The series key is a dictionary, which is ordered too."""
    position = rows.schema.get_field_index(series_key)
    ranks, names = ranked(as_dictionary(rows[series_key]))
    order = ordering(ranks, to_integers(rows[time]))
    others = rows.remove_column(position)
    if order is not None:
        others, ranks = others.take(pa.array(order)), ranks[order]
    return others.add_column(position, series_key, pa.DictionaryArray.from_arrays(pa.array(ranks), names))


def has_distinct_times(rows: pa.Table, series_key: str, time: str) -> bool:
    codes, times = as_dictionary(rows[series_key]).indices.to_numpy(), to_integers(rows[time])
    order = ordering(codes, times)
    if order is not None:
        codes, times = codes[order], times[order]
    return bool(np.all((codes[1:] != codes[:-1]) | (times[1:] != times[:-1])))
