"""The rows of data frames as Arrow tables: in this process, one batch at a time, or in Spark's tasks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def read_batches(frame: DataFrame) -> Iterator[pa.Table]:
    """Yield the rows of a frame, one batch of Spark's at a time."""
    serialized = frame.mapInArrow(serialize, "batch binary").toLocalIterator()
    for row in serialized:
        yield pa.ipc.open_stream(bytes(row["batch"])).read_all()


def map_partitions(frame: DataFrame, function: Callable[[Iterator[pa.Table]], Any]) -> Iterator[Any]:
    """Apply a function to the rows of each partition of a frame in Spark's tasks, and yield what it returns."""

    def apply(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        outcome = function(pa.Table.from_batches([batch]) for batch in batches)
        yield pa.RecordBatch.from_pydict({"outcome": [pickle.dumps(outcome)]})

    for row in frame.mapInArrow(apply, "outcome binary").collect():
        yield pickle.loads(bytes(row["outcome"]))


def serialize(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn batches into values of their own."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"batch": [sink.getvalue().to_pybytes()]})
