"""Matching rows of Arrow tables by some of their columns; NULL equals NULL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]


def row_ids(tables: Sequence[pa.Table], columns: Sequence[str]) -> list[Int64s]:
    """Return for each table numbers of its rows, from 0 without gaps, that are equal if the columns are equal."""
    offsets = np.cumsum([table.num_rows for table in tables])[:-1]
    code = np.zeros(sum(table.num_rows for table in tables), np.int64)
    for name in columns:
        column = pa.chunked_array([chunk for table in tables for chunk in table[name].chunks], type=tables[0][name].type)
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        indices = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if name == columns[0] and not pa.types.is_dictionary(column.type):
            code = indices  # without gaps
        else:
            code = np.unique(code * (len(encoded.dictionary) + 1) + indices, return_inverse=True)[1].astype(np.int64)
    return np.split(code, offsets)


def anti_join(rows: pa.Table, others: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the rows without an equal among the others (a left anti-join)."""
    if rows.num_rows == 0 or others.num_rows == 0:
        return rows
    row_id, other_id = row_ids([rows, others], columns)
    return rows.filter(pa.array(~np.isin(row_id, other_id)))


def match_rows(rows: pa.Table, others: pa.Table, columns: Sequence[str]) -> Int64s:
    """Return for each row the index of its equal among the others, -1 if there is none. The others must be distinct."""
    if rows.num_rows == 0 or others.num_rows == 0:
        return np.full(rows.num_rows, -1)
    row_id, other_id = row_ids([rows, others], columns)
    index = np.full(max(int(row_id.max()), int(other_id.max())) + 1, -1)
    index[other_id] = np.arange(len(other_id))
    return index[row_id]
