"""Rows of Arrow tables told apart by some of their columns, NULL being equal to NULL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.streams.windows.changes import Int64s, to_numpy


def identities(tables: Sequence[pa.Table], columns: Sequence[str]) -> list[Int64s]:
    """For each table numbers of its rows, from 0 without gaps, that are equal where the columns are."""
    sizes = np.cumsum([table.num_rows for table in tables])[:-1]
    code = np.zeros(sum(table.num_rows for table in tables), np.int64)
    for name in columns:
        column = pa.chunked_array([chunk for table in tables for chunk in table[name].chunks], type=tables[0][name].type)
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        code = code * (len(encoded.dictionary) + 1) + to_numpy(encoded.indices).astype(np.int64)
        code = np.unique(code, return_inverse=True)[1].astype(np.int64)
    return np.split(code, sizes)


def without(rows: pa.Table, others: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Those rows that have no equal among the others."""
    if rows.num_rows == 0 or others.num_rows == 0:
        return rows
    mine, theirs = identities([rows, others], columns)
    return rows.filter(pa.array(~np.isin(mine, theirs)))


def matches(rows: pa.Table, others: pa.Table, columns: Sequence[str]) -> Int64s:
    """For each row the place of its equal among the others, -1 where it has none; others are equal to none of each other."""
    if rows.num_rows == 0 or others.num_rows == 0:
        return np.full(rows.num_rows, -1)
    mine, theirs = identities([rows, others], columns)
    place = np.full(max(int(mine.max()), int(theirs.max())) + 1, -1)
    place[theirs] = np.arange(len(theirs))
    return place[mine]
