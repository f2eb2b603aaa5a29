"""Which rows a window had at a version inside a batch: stored rows at the batch's end, with what the batch changed undone.

A window that is evaluated again must hold what it held at the write that made that necessary; rows that the batch writes later
come upon it as they would in a batch of their own. So each stored row carries the range of versions in which it was there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.streams.windows.changes import CHANGE, VERSION, Bools, Int64s, to_numpy

FROM = "_from"
TO = "_to"
ALWAYS = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)


def with_versions(stored: pa.Table, changed: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Stored rows that the batch left alone, and every value that the batch's keys had, with `_from` and `_to`."""
    untouched = stored
    if changed.num_rows and stored.num_rows:
        untouched = stored.join(changed.select(list(key)).group_by(list(key)).aggregate([]), list(key), join_type="left anti")
    first, last = ALWAYS
    spans = {FROM: pa.repeat(pa.scalar(first), untouched.num_rows), TO: pa.repeat(pa.scalar(last), untouched.num_rows)}
    for name, values in spans.items():
        untouched = untouched.append_column(name, values)
    names = [*stored.column_names, FROM, TO]
    return pa.concat_tables([untouched.select(names), values_of(changed, key).select(names)], promote_options="permissive")


def values_of(changed: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Each value that a batch's rows had before, between and after its changes, with the versions in which they had it."""
    gone = to_numpy(pc.is_in(changed[CHANGE], pa.array(["delete", "update_preimage"]))).astype(np.bool_)
    version = to_numpy(changed[VERSION]).astype(np.int64)
    codes = [code(changed[name]) for name in key]
    order = np.lexsort((~gone, version, *codes))
    first, last = lifetimes(gone[order], version[order], [one[order] for one in codes])
    rows = changed.take(pa.array(order)).append_column(FROM, pa.array(first)).append_column(TO, pa.array(last))
    return rows.filter(pa.array(first <= last))


def lifetimes(gone: Bools, version: Int64s, codes: list[Int64s]) -> tuple[Int64s, Int64s]:
    """First and last version of each row's value, of rows in the order of their keys and writes.

    A value that is gone at a write was there from the key's write before; one that is written lasts until the key's next.
    """
    count = len(version)
    if count == 0:
        return version, version
    same = np.ones(count - 1, np.bool_)
    for one in codes:
        same &= one[1:] == one[:-1]
    before = np.concatenate(([ALWAYS[0]], np.where(same, version[:-1], ALWAYS[0])))
    after = np.concatenate((np.where(same, version[1:], ALWAYS[1]), [ALWAYS[1]]))
    until = np.where(after == ALWAYS[1], ALWAYS[1], after - 1)
    return np.where(gone, before, version), np.where(gone, version - 1, until)


def code(column: pa.ChunkedArray) -> Int64s:
    """Numbers that tell the values of a column apart."""
    return to_numpy(pc.index_in(column, pc.unique(column))).astype(np.int64)
