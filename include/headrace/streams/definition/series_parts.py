"""Which subtables of its source a part of a stream computes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.streams.state.hashing import NULL_HASH, hash_array


@dataclass(frozen=True, slots=True)
class SeriesPart:
    """One of `count` parts: the series for which the hash of the name has the remainder `number`.

    The hash is part of what is stored: with another one, parts would take over series without their state.
    """

    number: int
    count: int

    def mask(self, names: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
        """Return which names are those of series of the part."""
        return np.asarray(numbers_of(names, self.count) == self.number)

    def of(self, key: str, rows: pa.Table) -> pa.Table:
        """Return the rows of the part; `key` is the column with the names of series."""
        return rows.filter(pa.array(self.mask(rows[key])))

    def cutter(self, key: str) -> partial[pa.Table]:
        """Return what `of` does for a column. It can be sent to Spark's workers."""
        return partial(self.of, key)


def numbers_of(names: pa.Array | pa.ChunkedArray, count: int) -> npt.NDArray[np.int64]:
    """Return for each series the number of its part. Each name is hashed once."""
    column = names if isinstance(names, pa.ChunkedArray) else pa.chunked_array([names])
    encoded = (column if pa.types.is_dictionary(column.type) else column.dictionary_encode()).unify_dictionaries()
    if not encoded.num_chunks:
        return np.empty(0, np.int64)
    distinct = encoded.chunk(0).dictionary
    numbers = np.append(hash_array(distinct), NULL_HASH) % np.uint64(count)
    indices = [chunk.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False) for chunk in encoded.chunks]
    return np.asarray(numbers.astype(np.int64)[np.concatenate(indices)])
