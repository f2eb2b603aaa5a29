"""The rows that a window had at a version within a batch: stored rows at the batch's end, with the batch's changes undone.

A recalculated window must have the rows that it had at the write that made recalculation necessary. Rows that the batch writes
later are added to it as they would be in a batch of their own. So each stored row has the range of versions in which it existed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.streams.windows.change_batch import CHANGE, VERSION, Bools, Int64s, to_numpy

FROM = "_from"
TO = "_to"
ALL_VERSIONS = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)


def with_versions(stored: pa.Table, changed: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Return the stored rows that the batch did not change, and each value of the changed ones, with `_from` and `_to`."""
    untouched = stored
    if changed.num_rows and stored.num_rows:
        untouched = stored.join(changed.select(list(key)).group_by(list(key)).aggregate([]), list(key), join_type="left anti")
    first, last = ALL_VERSIONS
    ranges = {FROM: pa.repeat(pa.scalar(first), untouched.num_rows), TO: pa.repeat(pa.scalar(last), untouched.num_rows)}
    for name, values in ranges.items():
        untouched = untouched.append_column(name, values)
    names = [*stored.column_names, FROM, TO]
    return pa.concat_tables([untouched.select(names), row_values(changed, key).select(names)], promote_options="permissive")


def row_values(changed: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Return each value that a batch's rows had before, between and after its changes, with the versions in which they had it."""
    is_old_value = to_numpy(pc.is_in(changed[CHANGE], pa.array(["delete", "update_preimage"]))).astype(np.bool_)
    version = to_numpy(changed[VERSION]).astype(np.int64)
    codes = [distinct_codes(changed[name]) for name in key]
    order = np.lexsort((~is_old_value, version, *codes))
    first, last = lifetimes(is_old_value[order], version[order], [one[order] for one in codes])
    rows = changed.take(pa.array(order)).append_column(FROM, pa.array(first)).append_column(TO, pa.array(last))
    return rows.filter(pa.array(first <= last))


def lifetimes(is_old_value: Bools, version: Int64s, codes: list[Int64s]) -> tuple[Int64s, Int64s]:
    """Return the first and last version of each row's value. Rows must be ordered by key and write.

    A new value lasts until the key's next write. The old value of the key's first write in the batch lasted until that write.
    Further old values are the new values of earlier writes: these copies get an empty range, which ends before it begins.
    """
    count = len(version)
    if count == 0:
        return version, version
    first, last = ALL_VERSIONS
    is_same_key = np.ones(count - 1, np.bool_)
    for codes_of_column in codes:
        is_same_key &= codes_of_column[1:] == codes_of_column[:-1]
    old_from = np.concatenate(([first], np.where(is_same_key, last, first)))
    new_until = np.concatenate((np.where(is_same_key, version[1:] - 1, last), [last]))
    return np.where(is_old_value, old_from, version), np.where(is_old_value, version - 1, new_until)


def distinct_codes(column: pa.ChunkedArray) -> Int64s:
    return to_numpy(pc.index_in(column, pc.unique(column))).astype(np.int64)
