"""Rows of small data files that this process has written. Most are compacted or replaced soon, and need not be read for that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.storage.delta.data_files import read_data_files, with_stored_columns
from headrace.storage.delta.handles import Handle
from headrace.storage.delta.row_order import encoded_schema, with_encoded_series

MAX_KEPT_ROWS: Final = 10_000
"""Rows of a data file that stays in memory."""


def keep_written(handle: Handle, path: str, rows: pa.Table) -> None:
    """Keep the rows of a data file in memory if they are few."""
    if rows.num_rows > MAX_KEPT_ROWS:
        return
    if rows.get_total_buffer_size() > 2 * rows.nbytes:
        # A copy is without what else is in the buffers of the rows.
        rows = rows.take(pa.array(np.arange(rows.num_rows)))
    handle.written.put(f"{handle.uri}/{path}", rows)


def forget_written(handle: Handle, paths: Iterable[str]) -> None:
    """Forget the rows of files that are no longer part of the table."""
    for path in paths:
        handle.written.discard(f"{handle.uri}/{path}")


def written_or_read(handle: Handle, paths: Sequence[str], schema: pa.Schema, series_key: str) -> pa.Table:
    """Return the rows of data files, in no particular order, whose series key is a dictionary. Those not in memory are read."""
    kept = {path: handle.written.get(f"{handle.uri}/{path}") for path in paths}
    others = read_data_files(handle.uri, [path for path, rows in kept.items() if rows is None], schema, None, None)
    parts = [others.cast(schema), *(rows for rows in kept.values() if rows is not None)]
    encoded = encoded_schema(schema, series_key)
    return pa.concat_tables(with_stored_columns(with_encoded_series(rows, series_key), encoded) for rows in parts)
