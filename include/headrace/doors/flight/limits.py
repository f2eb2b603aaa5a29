"""What the clients of Flight take: results that wait to be fetched, rows that they send, and calls at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.errors import DataError, LimitError, NotSupportedError, OperationalError
from headrace.runtime.budget import Budget

MAX_WAITING_BYTES: Final = 4 << 30
"""Bytes of all results that wait, of which a user has half. Large ones are in files."""
MAX_SENT_BYTES: Final = 8 << 30
"""Bytes of rows that clients send at once, of which a user has half. They are written to a temporary file."""
MAX_PARAMETER_BYTES: Final = 64 << 20
VIEW_INTEGERS: Final = 4
"""Integers of 32 bits in a view of a text."""
ROW_BYTES, PARAMETER_BYTES = 1, 8
"""The least that a value counts: NULL takes no bytes of a batch, and a parameter becomes an object of Python."""
MAX_CALLS: Final = 64
"""Calls at once, of which a user has half."""


class FlightLimits:
    """What the clients of a server share. Thread-safe."""

    def __init__(self) -> None:
        """Create it with all free."""
        self.waiting = Budget(MAX_WAITING_BYTES, MAX_WAITING_BYTES // 2)
        self._sent = Budget(MAX_SENT_BYTES, MAX_SENT_BYTES // 2)
        self._calls = Budget(MAX_CALLS, MAX_CALLS // 2)

    def call(self, user: str) -> AbstractContextManager[None]:
        """Run a call of a user in the block.

        Raises:
            OperationalError: Too many run.
        """
        return self._calls.at_once(user, 1, OperationalError("too many calls run at the same time", hint="try again later"))

    @contextmanager
    def received(self, user: str, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatchReader]:
        """Yield rows that a user sends, which count until the block ends. Reading raises `LimitError` if they are too many."""
        held = 0

        def batches() -> Iterator[pa.RecordBatch]:
            nonlocal held
            for batch in reader:
                size = checked_size(batch, ROW_BYTES)
                if not self._sent.try_reserve(user, size):
                    raise LimitError(f"more than {MAX_SENT_BYTES // 2} bytes are sent at once", hint="send fewer rows at once")
                held += size
                yield batch

        try:
            yield pa.RecordBatchReader.from_batches(reader.schema, batches())
        finally:
            self._sent.release(user, held)


def limited(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield parameters; raise `LimitError` if they are too large."""
    size = 0
    for batch in batches:
        size += checked_size(batch, PARAMETER_BYTES)
        if size > MAX_PARAMETER_BYTES:
            raise LimitError(f"the parameters have more than {MAX_PARAMETER_BYTES} bytes", hint="send fewer rows at once")
        yield batch


def checked_size(batch: pa.RecordBatch, value_bytes: int) -> int:
    """Return the size of rows that a client sends, as which texts count wherever they are repeated.

    Arrow reads what it is sent as it is: an offset beyond a buffer ends the process once somebody looks at the value.

    Raises:
        DataError: The buffers are not those of the types.
        NotSupportedError: A column has values of a type that no table has.
    """
    nested = next((field for field in batch.schema if pa.types.is_nested(field.type) or is_encoded(field.type)), None)
    if nested is not None:
        raise NotSupportedError(f"column {nested.name} has the type {nested.type}", hint="send columns of plain values")
    try:
        batch.validate(full=True)
    except pa.ArrowException as error:
        raise DataError(f"the rows are malformed: {error}", hint="use a client that writes valid record batches") from None
    return sum(max(column_size(column), value_bytes * len(column)) for column in batch.columns)


def is_encoded(kind: pa.DataType) -> bool:
    """Return whether values are repeated in other ways than as the texts of a dictionary."""
    if pa.types.is_dictionary(kind):
        return not (pa.types.is_primitive(kind.value_type) or is_text(kind.value_type))
    return pa.types.is_run_end_encoded(kind) or isinstance(kind, pa.BaseExtensionType)


def is_text(kind: pa.DataType) -> bool:
    """Return whether values are texts or bytes, one after the other."""
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary))


def column_size(column: pa.Array) -> int:
    """Return the bytes of a column whose values may be views or indices of others."""
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        if not is_text(column.type.value_type):
            return int(column.indices.nbytes + 16 * len(column))
        lengths = pc.binary_length(column.dictionary)
        return int(column.indices.nbytes + (pc.sum(lengths.take(column.indices)).as_py() or 0))
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        # A view is the length, and either the value or where it is.
        views = np.frombuffer(column.buffers()[1], np.int32)[::VIEW_INTEGERS]
        return 4 * VIEW_INTEGERS * len(column) + int(views[column.offset : column.offset + len(column)].sum(dtype=np.int64))
    return int(column.nbytes)
