"""What the processors that sample have in common: they keep some of the inserted values, and pass all other events on."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipes.attributes import PipeAttributes, pipe_error, without_prefix
from headrace.pipes.events import DeleteEvent, DeviceRows, Event, InsertEvent
from headrace.pipes.plugins import Processor, Tables
from headrace.pipes.processors.grouping import Array, Flags
from headrace.pipes.processors.series import SeriesStates

MAX_INTERVAL: Final = (1 << 63) - 1
DOWN_SAMPLING_KEYS: Final = ("down-sampling.split-file", "down-sampling.memory-limit-in-bytes")
"""Keys that are accepted as in IoTDB, and have no effect: there are no files to split, and memory is not a cache."""


class SamplingProcessor(Processor, ABC):
    """Keeps some of the inserted rows or values.

    The state has one row for each series, so it grows with the number of series, never with time.
    """

    def __init__(self, fields: Mapping[str, Any], fingerprint: str) -> None:
        """Create the processor with the fields of its state."""
        self._states = SeriesStates(fields, fingerprint)

    def process(self, events: Sequence[Event], now: int) -> Sequence[Event]:  # noqa: ARG002
        """Return the events with sampled rows, without those that have none left."""
        sampled = map(self._process, events)
        return [event for event in sampled if not isinstance(event, InsertEvent) or event.data.rows.num_rows]

    def _process(self, event: Event) -> Event:
        if isinstance(event, InsertEvent):
            return InsertEvent(self.sample(event.data))
        if isinstance(event, DeleteEvent):
            self.forget(event.data)
        return event

    def forget(self, data: DeviceRows) -> None:
        """Take note of points that were deleted."""

    @abstractmethod
    def sample(self, data: DeviceRows) -> DeviceRows:
        """Return the rows that are kept."""

    def state(self) -> Tables | None:
        """Return the states of all series."""
        return self._states.to_tables()

    def restore(self, state: Tables) -> None:
        """Continue from a state. One that was kept under other parameters is discarded."""
        self._states.restore(state)


def fingerprint_of(processor: str, parameters: Mapping[str, Any]) -> str:
    """Return the fingerprint of a processor's parameters."""
    return json.dumps({"processor": processor, **parameters}, sort_keys=True, default=str)


def keep_values(data: DeviceRows, kept: Mapping[str, Flags]) -> DeviceRows:
    """Return rows with some of their values, by column; rows without any are dropped.

    Args:
        data: The rows.
        kept: Which values of each column are kept, with a flag for each row.
    """
    if not kept:
        return data.with_rows(data.rows.slice(0, 0))
    rows, any_kept = data.rows, np.logical_or.reduce(list(kept.values()))
    for name, flags in kept.items():
        if not flags[any_kept].all():
            values = pc.if_else(pa.array(flags), rows.column(name), pa.scalar(None, rows.schema.field(name).type))
            rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), values)
    return data.with_rows(rows if any_kept.all() else rows.filter(pa.array(any_kept)))


def is_number(arrow: pa.DataType) -> bool:
    """Return whether values of a type are numbers, which have differences."""
    return bool(pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal(arrow))


def comparable(values: pa.Array) -> Array:
    """Return values as numbers: 64-bit integers, floats, or, of what has no differences, a code for each distinct value.

    A FLOAT counts as the decimal number by which it is shown: differences of 0.1 are those of the numbers that were written.
    """
    type_ = values.type
    if pa.types.is_float32(type_) or pa.types.is_float16(type_):
        numbers = pc.cast(values, pa.string()).cast(pa.float64())
    elif pa.types.is_uint64(type_) or pa.types.is_decimal(type_):
        numbers = pc.cast(values, pa.float64(), safe=False)
    elif is_number(type_):
        numbers = values if pa.types.is_floating(type_) else values.cast(pa.int64())
    else:
        numbers = values.dictionary_encode().indices.cast(pa.int64())
    return np.asarray(numbers.to_numpy(zero_copy_only=False))


def check_keys(attributes: PipeAttributes, namespace: str, allowed: Collection[str]) -> None:
    """Reject keys of a namespace that a processor does not have, which are misspelled."""
    for key in attributes:
        name = without_prefix(key)
        if name.startswith(namespace) and name not in allowed:
            raise pipe_error(f"Unknown parameter {name}", hint=f"the parameters are {', '.join(sorted(allowed))}")


def check_down_sampling(attributes: PipeAttributes) -> None:
    """Check the parameters that all processors that sample have."""
    check_keys(attributes, "down-sampling.", DOWN_SAMPLING_KEYS)
    attributes.boolean(DOWN_SAMPLING_KEYS[0], default=False)
    attributes.integer(DOWN_SAMPLING_KEYS[1], default=0)
