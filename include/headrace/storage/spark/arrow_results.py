"""Results of Spark as Arrow tables. The rows of a large one are in a file that is mapped into memory, not on the heap."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.errors import Error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_MEMORY_BYTES: Final = 64 << 20
"""A result of more bytes goes to a file."""

Check = Callable[[int, int], None]
"""Receives the rows and bytes of a part of a result; raises to end the query."""


def collect_arrow(frame: DataFrame, check: Check) -> pa.Table:
    """Return all rows of a data frame, as `toArrow` does.

    Batches are taken as fast as Spark sends them: its scheduler, which all jobs share, waits for this process to do so.
    """
    from pyspark.errors.exceptions.captured import unwrap_spark_exception
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(frame.schema, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
    port, secret, server = frame._jdf.collectAsArrowToPython()
    try:
        table = _receive(port, secret, schema, check)
    except Error:
        with contextlib.suppress(Exception):  # the sender fails since nothing receives its batches
            server.getResult()
        raise
    except Exception:
        with unwrap_spark_exception():
            server.getResult()  # raises what ended the job
        raise
    with unwrap_spark_exception():
        server.getResult()
    return table


def _receive(port: int, secret: str, schema: pa.Schema, check: Check) -> pa.Table:
    from pyspark.sql.pandas.serializers import ArrowCollectSerializer
    from pyspark.util import _load_from_socket

    with contextlib.ExitStack() as stack:
        received = stack.enter_context(_load_from_socket((port, secret), ArrowCollectSerializer()))  # type: ignore[no-untyped-call]
        batches, order = _keep(received, stack, check)
    return pa.Table.from_batches([batches[index] for index in order], batches[0].schema if batches else schema).cast(schema)


def _keep(received: Iterator[Any], stack: contextlib.ExitStack, check: Check) -> tuple[list[pa.RecordBatch], list[int]]:
    """Return the batches in the order in which they arrive, and their numbers in the order of the result."""
    kept: list[pa.RecordBatch] = []
    size, spool = 0, None
    for item in received:
        if isinstance(item, list):
            return (kept if spool is None else spool.read()), item
        check(item.num_rows, item.nbytes)
        size += item.nbytes
        if spool is None and size > MAX_MEMORY_BYTES:
            spool = stack.enter_context(_Spool(item.schema))
            for batch in kept:
                spool.write(batch)
            kept.clear()
        (kept.append if spool is None else spool.write)(item)
    return kept, []


class _Spool:
    """A temporary file of batches. Its space is freed with the last batch that was read from it."""

    def __init__(self, schema: pa.Schema) -> None:
        descriptor, path = tempfile.mkstemp(prefix="headrace-result-")
        self._path = Path(path)
        self._file = os.fdopen(descriptor, "wb")
        self._writer = pa.ipc.new_file(self._file, schema)

    def __enter__(self) -> _Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        self._writer.write_batch(batch)

    def read(self) -> list[pa.RecordBatch]:
        """Return all batches."""
        self._writer.close()
        self._file.close()
        reader = pa.ipc.open_file(pa.memory_map(str(self._path)))
        return [reader.get_batch(number) for number in range(reader.num_record_batches)]
