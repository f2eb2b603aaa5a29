"""The processor that keeps a value if it differs from the last kept one of its series."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DeviceRows
from headrace.pipes.plugins import PipeContext, Processor
from headrace.pipes.processors.grouping import Array, Flags, Integers, Segments, group_by_device, times_of
from headrace.pipes.processors.jumps import Differs, keep_differing, last_true, place_before
from headrace.pipes.processors.limits import Limits, read_limits
from headrace.pipes.processors.sampling import SamplingProcessor, comparable, is_number, keep_values
from headrace.pipes.processors.series import VALUE, ColumnState

NAMESPACE: Final = "changing-value."
NAME: Final = "changing-value-sampling-processor"


class ChangingValueProcessor(SamplingProcessor):
    """Keeps a value that deviates from the last kept one of its series, and drops the others."""

    def __init__(self, limits: Limits, fingerprint: str = "") -> None:
        """Create the processor without state."""
        super().__init__({"time": np.int64, "value": VALUE}, fingerprint or limits.fingerprint(NAME))
        self._limits = limits

    def sample(self, data: DeviceRows) -> DeviceRows:
        """Return the rows with the values that are kept."""
        segments, times = group_by_device(data.rows), times_of(data.rows)
        kept = {name: self.keep(data, name, segments, times) for name in data.columns}
        return keep_values(data, kept)

    def keep(self, data: DeviceRows, name: str, segments: Segments, times: Integers) -> Flags:
        """Return which rows have a value of a column that is kept."""
        column = data.rows.column(name)
        segments = segments.with_values(column)
        values = plain(column.take(pa.array(segments.rows)))
        state = self._states.column(data.columns[name], values.type)
        slots = state.find(segments.devices)
        is_known = slots >= 0
        starts, places = place_before(segments.starts, is_known.astype(np.int64))
        heads = starts[:-1][is_known]

        values = pa.concat_arrays([state.values("value", slots[is_known]), values.cast(state.arrow)])
        numbers = comparable(values)
        arranged_times, arranged = np.empty(starts[-1], np.int64), np.empty(starts[-1], numbers.dtype)
        arranged_times[heads], arranged[heads] = state["time"][slots[is_known]], numbers[: len(heads)]
        arranged_times[places], arranged[places] = times[segments.rows], numbers[len(heads) :]

        chosen = keep_differing(starts, differs(arranged_times, arranged, self._limits, is_number(state.arrow)))
        self._remember(state, segments, slots, last_true(chosen, starts), places, arranged_times, values, len(heads))
        flags = np.zeros(len(times), np.bool_)
        flags[segments.rows] = chosen[places]
        return flags

    def _remember(
        self,
        state: ColumnState,
        segments: Segments,
        slots: Integers,
        last: Integers,
        places: Integers,
        times: Integers,
        values: pa.Array,
        heads: int,
    ) -> None:
        """Store the last kept point of each series, if it is not the one that was stored before."""
        order = np.full(len(times), -1, np.int64)
        order[places] = np.arange(heads, len(values))
        changed = order[last] >= 0
        slots = state.ensure(segments.devices, slots)[changed]
        state["time"][slots] = times[last[changed]]
        state.put("value", slots, values.take(pa.array(order[last[changed]])))


def differs(times: Integers, values: Array, limits: Limits, is_number: bool) -> Differs:
    """Return a function that returns whether a point is kept after another one."""
    deviation = limits.deviation if is_number else 0

    def kept(first: Any, second: Any) -> Flags:
        passed = np.abs(times[second] - times[first])
        before, after = values[first], values[second]
        with np.errstate(invalid="ignore"):
            changed = (before != after) & ~(np.abs(after - before) <= deviation)
        if values.dtype.kind == "f":
            changed &= ~(np.isnan(before) & np.isnan(after))
        result: Flags = (passed > limits.min_interval) & (changed | (passed >= limits.max_interval))
        return result

    return kept


def plain(array: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without a dictionary."""
    combined = array.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        combined = combined.chunk(0) if combined.num_chunks else pa.array([], array.type)
    return combined.dictionary_decode() if isinstance(combined, pa.DictionaryArray) else combined


def validate(attributes: PipeAttributes) -> None:
    """Check the parameters."""
    read_limits(attributes, NAMESPACE)


def create(attributes: PipeAttributes, _: PipeContext) -> Processor:
    """Return the processor."""
    return ChangingValueProcessor(read_limits(attributes, NAMESPACE))
