"""From records to rows: records are times and devices with lists of measurements and their values, as texts.

All rows of a device end up in the same table, in the order of the messages, so that the last of several values of a time wins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.time import Precision
from headrace.pipes.events import DEVICE, TIME, DeviceRows, Measurement
from headrace.pipes.formats.devices import device_path, measurement_node
from headrace.pipes.formats.messages import FormatOptions, Unreadable
from headrace.pipes.formats.scalars import TYPES, as_array

ID: Final = "id"
MEASUREMENTS: Final = "measurements"
VALUES: Final = "values"
Values = Callable[[pa.Array], Iterable[pa.Array]]
"""Makes values of texts: an array for each of their types."""


@dataclass(slots=True)
class Block:
    """Rows with the same columns: `id`, `time`, `device`, and the columns of measurements by their names."""

    rows: pa.Table
    columns: Mapping[str, Measurement]


@dataclass(slots=True)
class Problems:
    """Messages that cannot be read: the first reason for each, by its id."""

    reasons: dict[int, str] = field(default_factory=dict)

    def add(self, table: pa.Table, is_bad: pa.Array, reason: str) -> pa.Table:
        """Note the messages of bad rows; return the rows of all other messages."""
        if not pc.any(is_bad).as_py():
            return table
        for message in pc.unique(table[ID].filter(is_bad)).to_pylist():
            self.reasons.setdefault(message, reason)
        return self.without(table)

    def without(self, table: pa.Table) -> pa.Table:
        """Return the rows of messages that can be read as far as is known."""
        if not self.reasons:
            return table
        return table.filter(pc.invert(pc.is_in(table[ID], pa.array(list(self.reasons), pa.int64()))))

    def unreadable(self) -> list[Unreadable]:
        """Return the messages in order."""
        return [Unreadable(message, self.reasons[message]) for message in sorted(self.reasons)]


def as_ticks(times: pa.Array, precision: Precision) -> pa.Array:
    """Return times, which are numbers of ticks or ISO 8601 texts (UTC without a zone), as ticks; NULL if they are neither."""
    try:
        return pc.cast(times, pa.int64())
    except pa.ArrowInvalid:
        import pandas as pd

    is_number = pc.match_substring_regex(times, r"^[+-]?\d{1,19}$")
    ticks = pd.to_numeric(pc.if_else(is_number, times, None).to_pandas(), errors="coerce").astype("Int64")
    dates = pd.to_datetime(pc.if_else(is_number, None, times).to_pandas(), utc=True, format="ISO8601", errors="coerce")
    instants = pc.cast(pa.Array.from_pandas(dates), pa.timestamp("ns", "UTC")).cast(pa.int64())
    whole = pc.cast(pc.floor(pc.divide(instants, precision.nanoseconds)), pa.int64())
    return pc.coalesce(pa.Array.from_pandas(ticks, type=pa.int64()), whole)


def with_devices(table: pa.Table, database: str, problems: Problems) -> pa.Table:
    """Return records with the paths of their devices."""
    encoded = as_array(as_array(table[DEVICE]).dictionary_encode())
    paths = pa.array([device_path(text or "", database) for text in encoded.dictionary.to_pylist()], pa.string())
    devices = paths.take(encoded.indices)
    table = table.set_column(table.column_names.index(DEVICE), DEVICE, devices)
    hint = "" if database else ", and there is no database for it to be below"
    return problems.add(table, pc.is_null(devices), f"its device is missing or no path{hint}")


def with_times(table: pa.Table, precision: Precision, problems: Problems) -> pa.Table:
    """Return records with their times in ticks."""
    ticks = as_ticks(as_array(table[TIME]), precision)
    table = table.set_column(table.column_names.index(TIME), TIME, ticks)
    return problems.add(table, pc.is_null(ticks), "its time is missing, or neither a whole number nor an ISO 8601 text")


def checked(table: pa.Table, options: FormatOptions, problems: Problems) -> pa.Table:
    """Return those records that have a time, a device, and as many values as measurements."""
    table = with_times(table, options.input_precision, problems)
    table = with_devices(table, options.database, problems)
    lengths = pc.coalesce(pc.list_value_length(table[MEASUREMENTS]), -1), pc.coalesce(pc.list_value_length(table[VALUES]), -1)
    is_uneven = pc.or_(pc.not_equal(*lengths), pc.less(lengths[0], 0))
    return problems.add(table, is_uneven, "it does not have as many values as measurements")


def blocks_of(records: pa.Table, values: Values) -> Iterator[Block]:
    """Yield records by the list of their measurements.

    Args:
        records: `id`, `time`, `device`, and the lists `measurements` and `values` of equal length.
        values: Makes values of texts.
    """
    if not records.num_rows:
        return
    encoded = list_names(as_array(records[MEASUREMENTS]))
    for number, names in enumerate(encoded.dictionary.to_pylist()):
        rows = records if len(encoded.dictionary) == 1 else records.filter(pc.equal(encoded.indices, number))
        yield block_of(rows, split_names(names), values)


def list_names(lists: pa.Array) -> pa.DictionaryArray:
    """Return lists of names as texts, by number."""
    return as_array(pc.binary_join(pc.cast(lists, pa.list_(pa.string())), "\x1f")).dictionary_encode()


def split_names(names: str) -> list[str]:
    return names.split("\x1f") if names else []


def block_of(rows: pa.Table, names: Sequence[str], values: Values) -> Block:
    """Return rows with the same measurements, with a column for each of the measurements and types."""
    flat = as_array(rows[VALUES]).flatten()
    width = len(names)
    block = Block(rows.select([ID, TIME, DEVICE]), {})
    columns: dict[str, Measurement] = {}
    last = {measurement_node(name): position for position, name in enumerate(names)}
    for name, position in last.items():
        texts = flat.take(pa.array(np.arange(position, len(flat), width))) if width > 1 else flat
        for array in values(pc.cast(texts, pa.string())):
            block.rows = block.rows.append_column(unique_name(name, array.type, columns), array)
            columns[block.rows.column_names[-1]] = Measurement(name, TYPES[array.type])
    block.columns = columns
    return block


def unique_name(name: str, kind: pa.DataType, taken: Mapping[str, Measurement]) -> str:
    """Return the name of a column, which names the type too."""
    text = f"{name} {TYPES[kind]}"
    return text if text not in taken else unique_name(f"{name}_", kind, taken)


def events_of(blocks: Sequence[Block], precision: Precision, database: str) -> list[DeviceRows]:
    """Return blocks as rows of devices. All rows of a device are in one element, in the order of messages.

    Devices that have the same columns in these blocks share an element, so that few values are NULL.
    """
    blocks = [block for block in blocks if block.columns and block.rows.num_rows]
    if not blocks:
        return []
    if len(blocks) == 1:
        return [rows_of(blocks, [None], precision, database)]
    classes = device_classes(blocks)
    return [rows_of(blocks, [None if len(classes) == 1 else devices] * len(blocks), precision, database) for devices in classes]


def device_classes(blocks: Sequence[Block]) -> list[pa.Array]:
    """Return the devices of blocks in groups, in each of which devices have the same columns."""
    columns: dict[str, set[str]] = defaultdict(set)
    for block in blocks:
        for device in pc.unique(block.rows[DEVICE]).to_pylist():
            columns[device].update(block.columns)
    classes: dict[frozenset[str], list[str]] = defaultdict(list)
    for device, names in columns.items():
        classes[frozenset(names)].append(device)
    return [pa.array(devices, pa.string()) for devices in classes.values()]


def rows_of(blocks: Sequence[Block], devices: Sequence[pa.Array | None], precision: Precision, database: str) -> DeviceRows:
    """Return the rows of some devices from all blocks."""
    parts: list[pa.Table] = []
    columns: dict[str, Measurement] = {}
    for block, some in zip(blocks, devices, strict=True):
        rows = block.rows if some is None else block.rows.filter(pc.is_in(block.rows[DEVICE], some))
        if rows.num_rows:
            parts.append(rows)
            columns.update(block.columns)
    table = parts[0] if len(parts) == 1 else pa.concat_tables(parts, promote_options="default")
    if len(parts) > 1:
        table = table.take(pa.array(np.argsort(table[ID].to_numpy(), kind="stable")))
    table, merged = with_short_names(*with_numbers_merged(table.drop_columns([ID]), columns))
    encoded = as_array(table[DEVICE]).dictionary_encode()
    return DeviceRows(table.set_column(1, DEVICE, encoded), merged, precision, database)


def with_numbers_merged(table: pa.Table, columns: Mapping[str, Measurement]) -> tuple[pa.Table, dict[str, Measurement]]:
    """Return a table in which a measurement with whole and other numbers has one column of DOUBLE."""
    merged = dict(columns)
    by_name = {(one.name, one.type): column for column, one in columns.items()}
    for (name, kind), column in by_name.items():
        other = by_name.get((name, TYPES[pa.float64()]))
        if kind == TYPES[pa.int64()] and other is not None:
            numbers = pc.coalesce(table[other], pc.cast(table[column], pa.float64(), safe=False))
            table = table.set_column(table.column_names.index(other), other, numbers).drop_columns([column])
            del merged[column]
    return table, merged


def with_short_names(table: pa.Table, columns: Mapping[str, Measurement]) -> tuple[pa.Table, dict[str, Measurement]]:
    """Return a table whose columns are called as their measurements, if those have a single column."""
    names = [one.name for one in columns.values()]
    new = {
        column: one.name if names.count(one.name) == 1 and one.name not in (TIME, DEVICE) else column
        for column, one in columns.items()
    }
    renamed = table.rename_columns([new.get(name, name) for name in table.column_names])
    return renamed, {new[column]: one for column, one in columns.items()}
