"""Messages about window events: JSON with the fields that TDengine sends."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import IS_START, STATE, WEND, WSTART
from headrace.model.notifications import EventType
from headrace.model.positions import Position
from headrace.model.time import Precision
from headrace.storage.sandbox import open_database
from headrace.streams.definition.define import StreamPlan
from headrace.streams.notifications.events import NEXT_STATE, PREVIOUS_STATE, WindowEvents
from headrace.streams.sinks.target import TargetTable
from headrace.streams.sinks.target_groups import plain
from headrace.streams.windows.change_batch import to_numpy

MAX_EVENTS_PER_MESSAGE: Final = 1_000
MAX_MESSAGE_BYTES: Final = 256 * 1024
"""A message with more than one event is not larger than this."""
UNDISPLAYABLE: Final = "<Unable to display this data type>"

Fields = dict[str, pa.Array]


class MessageEncoder:
    """Encodes the events of one stream's micro-batches."""

    def __init__(self, plan: StreamPlan, target: TargetTable) -> None:
        self._plan = plan
        self._target = target

    def encode(self, events: WindowEvents, position: Position, now: int) -> list[bytes]:
        """Return the messages of a micro-batch, in the order of event time; `now` is in epoch ms.

        The same events at the same position have the same message ids.
        """
        fields = {type_: self._fields(type_, rows.combine_chunks(), now) for type_, rows in events.windows.items() if rows.num_rows}
        if not fields:
            return []
        texts_by_type = to_json({type_: struct(values) for type_, values in fields.items()})
        ends = {type_: WSTART if type_ is EventType.WINDOW_OPEN else WEND for type_ in texts_by_type}
        instant = np.concatenate([to_numpy(events.windows[type_][end]).astype(np.int64) for type_, end in ends.items()])
        opens = np.repeat([end == WSTART for end in ends.values()], [len(texts) for texts in texts_by_type.values()])
        texts = [text for own in texts_by_type.values() for text in own]
        # A window that ends at the instant at which it starts opens first.
        ordered = [texts[index] for index in np.lexsort((~opens, instant))]
        return [self._message(chunk, position, number, now) for number, chunk in enumerate(chunks(ordered))]

    def _fields(self, type_: EventType, windows: pa.Table, now: int) -> Fields:
        size = windows.num_rows
        group_ids, names = self._target.groups.identify(windows)
        ids = window_ids(group_ids, to_numpy(windows[WSTART]).astype(np.int64))
        precision, keys = self._plan.query.precision, self._plan.groups.keys
        tags = {key.name: displayable(plain(windows[key.column]), precision) for key in keys}
        fields: Fields = {
            "eventType": constant(type_.value, size),
            "eventTime": constant(now, size),
            "windowId": ids,
            "windowUid": pc.binary_join_element_wise(f"{self._plan.database}.{self._plan.name}", ids, "/"),
            "windowType": constant(self._plan.query.kind.name, size),
            "groupId": pa.array(group_ids, pa.uint64()).cast(pa.string()),
            **({"tags": struct(tags)} if tags else {}),
            "windowStart": self._to_target_ticks(windows[WSTART]),
        }
        if type_ is not EventType.WINDOW_OPEN:
            # The end is exclusive for INTERVAL, else the last row.
            is_interval = self._plan.query.interval is not None
            fields["windowEnd"] = self._to_target_ticks(pc.add(windows[WEND], 1) if is_interval else windows[WEND])
        if type_ is not EventType.WINDOW_INVALIDATION:
            fields |= self._window_type_fields(type_, windows)
        if type_ is EventType.WINDOW_CLOSE:
            fields["result"] = self._result(windows)
        return fields | {"tableName": names}

    def _window_type_fields(self, type_: EventType, windows: pa.Table) -> Fields:
        opens = type_ is EventType.WINDOW_OPEN
        if self._plan.conditions.state:
            columns = {"prevState": PREVIOUS_STATE, "curState": STATE} if opens else {"curState": STATE, "nextState": NEXT_STATE}
            return {name: combine(windows[column]) for name, column in columns.items()}
        if IS_START not in self._plan.query.kind.row_columns:
            return {}
        conditions = self._plan.conditions.start if opens else self._plan.conditions.end
        values = {name: displayable(windows[column], self._plan.query.precision) for name, column in conditions}
        return {"triggerCondition": struct({"conditionIndex": constant(0, windows.num_rows), "fieldValues": struct(values)})}

    def _result(self, windows: pa.Table) -> pa.Array:
        """Return the row of the target for each window."""
        schema, precision = self._target.schema, self._plan.target_database.precision
        values = {
            name: displayable(self._target.to_stored(windows[f"o{index}"], schema.field(name)), precision)
            for index, name in enumerate(self._plan.columns)
        }
        return struct(values)

    def _to_target_ticks(self, ticks: pa.ChunkedArray) -> pa.Array:
        return combine(convert_ticks(ticks, self._plan.query.precision, self._plan.target_database.precision))

    def _message(self, events: Sequence[str], position: Position, number: int, now: int) -> bytes:
        id_ = uuid.uuid5(uuid.NAMESPACE_URL, f"headrace:{self._plan.id}/{position.batch}/{number}")
        database, name = (json.dumps(part, ensure_ascii=False) for part in (self._plan.database, self._plan.name))
        stream = f'"streamName":{name},"database":{database},"events":[{",".join(events)}]'
        return f'{{"messageId":"{id_}","timestamp":{now},"streams":[{{{stream}}}]}}'.encode()


def chunks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    ends = np.cumsum([len(text.encode()) + 1 for text in texts])
    first = 0
    while first < len(texts):
        sent = ends[first - 1] if first else 0
        fitting = int(np.searchsorted(ends, sent + MAX_MESSAGE_BYTES, side="right"))
        last = max(first + 1, min(fitting, first + MAX_EVENTS_PER_MESSAGE))
        yield texts[first:last]
        first = last


def to_json(arrays: Mapping[EventType, pa.Array]) -> dict[EventType, list[str]]:
    """Return each value as JSON. Opening a database takes longer than encoding thousands of events, so one encodes all."""
    texts = {}
    with open_database() as database:
        for type_, values in arrays.items():
            database.register("events", pa.table({"event": values}))
            texts[type_] = database.sql("SELECT CAST(to_json(event) AS VARCHAR) FROM events").to_arrow_table()[0].to_pylist()
            database.unregister("events")
    return texts


def displayable(values: pa.ChunkedArray, precision: Precision) -> pa.Array:
    """Return stored values as they appear in messages: booleans, numbers, texts; timestamps as ticks; NULL if not finite."""
    array, type_ = combine(values), values.type
    if pa.types.is_floating(type_):
        return pc.if_else(pc.is_finite(array), array, pa.scalar(None, type_))
    if pa.types.is_timestamp(type_):
        ticks = array.cast(pa.int64())
        return pc.divide(ticks, 1000) if precision is Precision.MILLISECOND else ticks
    if pa.types.is_decimal(type_) and type_.scale == 0:
        return array.cast(pa.decimal128(20, 0)).cast(pa.uint64())
    if pa.types.is_decimal(type_):
        return array.cast(pa.float64())
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return pc.if_else(pc.is_valid(array), pa.scalar(UNDISPLAYABLE), pa.scalar(None, pa.string()))
    return array


def constant(value: str | int, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), size)


def struct(values: Fields) -> pa.Array:
    return pa.StructArray.from_arrays([combine(array) for array in values.values()], list(values))


def combine(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    return values if isinstance(values, pa.Array) else values.combine_chunks()


def convert_ticks(ticks: pa.ChunkedArray, source: Precision, target: Precision) -> pa.ChunkedArray:
    """Convert ticks of one precision to another, rounding down."""
    ratio = target.ticks_per_second / source.ticks_per_second
    if ratio >= 1:
        return pc.multiply(ticks, int(ratio))
    return pa.chunked_array([pa.array(np.floor_divide(to_numpy(ticks).astype(np.int64), round(1 / ratio)))])


def window_ids(group_ids: npt.NDArray[np.uint64], start: npt.NDArray[np.int64]) -> pa.Array:
    """Return the id of each window: 64 bits of the MurmurHash3 of its group's id and its start, as decimal text."""
    return pa.array(murmur3(group_ids, start.view(np.uint64)), pa.uint64()).cast(pa.string())


def murmur3(first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the first 64 bits of MurmurHash3 x64 128 (seed 0) over two words, for each pair.

    Austin Appleby's algorithm, in the public domain.
    """
    c1, c2, length = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F), np.uint64(16)
    h1 = rotate(first * c1, 31) * c2
    h1 = rotate(h1, 27) * np.uint64(5) + np.uint64(0x52DCE729)
    h2 = rotate(second * c2, 33) * c1
    h2 = (rotate(h2, 31) + h1) * np.uint64(5) + np.uint64(0x38495AB5)
    h1, h2 = h1 ^ length, h2 ^ length
    h1 = h1 + h2
    return mix(h1) + mix(h2 + h1)


def rotate(words: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.uint64]:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def mix(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return words whose bits all depend on all bits."""
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> np.uint64(33))
