"""Events of pipes in messages: descriptions in the header, and one Arrow IPC stream after the other in the body.

This runs in code hosts, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from headrace.code.protocol import GarbageError, Header
from headrace.pipe import DeleteEvent, Event, MeasurementSchema, SchemaEvent, TabletBatch, TabletEvent, Type

PRECISIONS: Final = ("ms", "us", "ns")


def encode_events(events: Sequence[Event]) -> tuple[list[Header], pa.Buffer]:
    """Return the descriptions of events, and their rows. Tablets that follow each other become a batch."""
    sink = pa.BufferOutputStream()
    headers = [_encode(event, sink) for event in merge_tablets(events)]
    return headers, sink.getvalue()


def decode_events(headers: Any, body: Any) -> list[Event]:
    """Return the events of a message. Raise `GarbageError` for what is none: it may come from hostile code."""
    if not isinstance(headers, list):
        raise GarbageError("not a list of events")
    try:
        return list(_decode_all(headers, pa.py_buffer(body)))
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise GarbageError(f"not an event: {error}") from None


def merge_tablets(events: Iterable[Event]) -> Iterator[Event]:
    """Yield events, with tablets of one database that follow each other as a batch."""
    for key, group in groupby(events, _merge_key):
        if key is None:
            yield from group
        else:
            yield TabletBatch.of([event for event in group if isinstance(event, TabletEvent)])


def rows_of(event: Event) -> int:
    """Return the number of rows of an event; a statement counts as one."""
    match event:
        case TabletEvent():
            return event.row_size
        case TabletBatch():
            return int(event.table.num_rows)
        case DeleteEvent():
            return int(event.points.table.num_rows)
    return 1


def _merge_key(event: Event) -> tuple[str, str] | None:
    return (event.database, event.timestamp_precision) if isinstance(event, TabletEvent) else None


def _encode(event: Event, sink: pa.BufferOutputStream) -> Header:
    match event:
        case SchemaEvent():
            return {"kind": "schema", "sql": event.sql, "category": event.category}
        case DeleteEvent():
            return _encode_batch("delete", event.points, sink)
        case TabletBatch():
            return _encode_batch("insert", event, sink)
    raise TypeError(f"{type(event).__name__} is not an event")


def _encode_batch(kind: str, batch: TabletBatch, sink: pa.BufferOutputStream) -> Header:
    first = sink.tell()
    with pa.ipc.new_stream(sink, batch.table.schema) as writer:
        writer.write_table(batch.table)
    return {
        "kind": kind,
        "bytes": sink.tell() - first,
        "columns": {name: [schema.measurement_id, schema.type.value] for name, schema in batch.schemas.items()},
        "timestamp_precision": batch.timestamp_precision,
        "database": batch.database,
        "aligned": sorted(batch.aligned),
    }


def _decode_all(headers: list[Any], body: pa.Buffer) -> Iterator[Event]:
    offset = 0
    for header in headers:
        if header["kind"] == "schema":
            yield SchemaEvent(_text(header["sql"]), _text(header["category"]))
            continue
        size = header["bytes"]
        if not isinstance(size, int) or not 0 <= size <= body.size - offset:
            raise ValueError("its rows are missing")
        batch = _decode_batch(header, body.slice(offset, size))
        offset += size
        yield DeleteEvent(batch) if header["kind"] == "delete" else batch


def _decode_batch(header: Header, body: pa.Buffer) -> TabletBatch:
    with pa.ipc.open_stream(body) as reader:
        table = reader.read_all()
    table.validate(full=True)
    schemas = {_text(name): MeasurementSchema(_text(column[0]), Type(column[1])) for name, column in header["columns"].items()}
    precision = header["timestamp_precision"]
    if precision not in PRECISIONS:
        raise ValueError(f"{precision} is no unit of time")
    return TabletBatch(table, schemas, precision, _text(header["database"]), frozenset(map(_text, header["aligned"])))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value
