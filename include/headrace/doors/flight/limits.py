"""What the clients of Flight take: results that wait to be fetched, rows that they send, and calls at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import pyarrow as pa

from headrace.errors import LimitError, OperationalError
from headrace.runtime.budget import Budget

MAX_WAITING_BYTES: Final = 4 << 30
"""Bytes of all results that wait, of which a user has half. Large ones are in files."""
MAX_SENT_BYTES: Final = 8 << 30
"""Bytes of rows that clients send at once, of which a user has half. They are written to a temporary file."""
MAX_PARAMETER_BYTES: Final = 64 << 20
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
                if not self._sent.try_reserve(user, batch.nbytes):
                    raise LimitError(f"more than {MAX_SENT_BYTES // 2} bytes are sent at once", hint="send fewer rows at once")
                held += batch.nbytes
                yield batch

        try:
            yield pa.RecordBatchReader.from_batches(reader.schema, batches())
        finally:
            self._sent.release(user, held)


def limited(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield parameters; raise `LimitError` if they are too large."""
    size = 0
    for batch in batches:
        size += batch.nbytes
        if size > MAX_PARAMETER_BYTES:
            raise LimitError(f"the parameters have more than {MAX_PARAMETER_BYTES} bytes", hint="send fewer rows at once")
        yield batch
