"""Types of the series in a file: those that its header or format declares, else those that INSERT would infer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import ProgrammingError
from headrace.model.tree_types import TREE_TYPES, type_name
from headrace.model.types import BOOL, DOUBLE, VARCHAR, DataType
from headrace.storage.loading.splits import FileSplit, SplitContent, read_split
from headrace.storage.loading.tree_header import SeriesColumn, read_header
from headrace.storage.loading.tree_rows import RowDevices, TreeFiles, row_devices
from headrace.storage.values.columns import InvalidValues, to_array

SERIES_SCHEMA: Final = pa.schema(
    [pa.field("device", pa.string()), pa.field("measurement", pa.string()), pa.field("type", pa.string())]
)
_BOOLEANS: Final = ("true", "false")


@dataclass(frozen=True, slots=True)
class ScannedSplit:
    """The series that a split has values of, as `SERIES_SCHEMA`, and what is invalid in it."""

    file_split: FileSplit
    series: pa.Table
    invalid_values: InvalidValues


def scan_split(file_split: FileSplit, files: TreeFiles) -> ScannedSplit:
    invalid_values = InvalidValues()
    content = read_split(file_split, invalid_values)
    if not content.rows:
        return ScannedSplit(file_split, SERIES_SCHEMA.empty_table(), invalid_values)
    header = read_header(content.columns, file_split.name, files.database.name, files.device)
    devices = row_devices(content, header, files, invalid_values)
    parts = [series_of_column(file_split, content, column, devices) for column in header.series]
    return ScannedSplit(file_split, pa.concat_tables([SERIES_SCHEMA.empty_table(), *parts]), invalid_values)


def series_of_column(file_split: FileSplit, content: SplitContent, column: SeriesColumn, devices: RowDevices | None) -> pa.Table:
    """Return the series of one column: one, or one for each device."""
    values = to_array(content.columns[column.name])
    declared = column.type
    if declared is None and file_split.format == "parquet" and not isinstance(values, list):
        declared = declared_type(values.type, column.name)
    firsts = list(first_values(values, devices))
    names = [column.device if devices is None else devices.paths[code] for code, _ in firsts]
    infer = written_type if file_split.format == "csv" else inferred_type
    types = [type_name(declared or infer(value)) for _, value in firsts]
    return pa.table([names, [column.measurement] * len(firsts), types], schema=SERIES_SCHEMA)


def first_values(values: pa.Array | list[object], devices: RowDevices | None) -> Iterator[tuple[int, object]]:
    """Yield the first value that is not NULL of each device, with the device's code; 0 without devices."""
    valid = pa.array([value is not None for value in values]) if isinstance(values, list) else pc.is_valid(values)
    rows = np.flatnonzero(valid.to_numpy(zero_copy_only=False))
    if devices is not None and devices.codes is not None:
        rows = rows[devices.codes[rows] >= 0]
        codes, first = np.unique(devices.codes[rows], return_index=True)
        rows = rows[first]
    else:
        rows, codes = rows[:1], np.zeros(1, np.int64)
    for code, row in zip(codes.tolist(), rows.tolist(), strict=False):
        value = values[row]
        yield code, value.as_py() if isinstance(value, pa.Scalar) else value


def inferred_type(value: object) -> DataType:
    """Return the type that INSERT gives to a series whose first value this is."""
    match value:
        case bool():
            return BOOL
        case int() | float() | Decimal():
            return DOUBLE
    return VARCHAR


def written_type(value: object) -> DataType:
    """Return the type that INSERT gives to a series whose first value is written like this, without quotes."""
    text = str(value).strip()
    if text.lower() in _BOOLEANS:
        return BOOL
    return DOUBLE if is_number(text) else VARCHAR


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def declared_type(type_: pa.DataType, name: str) -> DataType | None:
    """Return the type of a column of Parquet; None if it has no values."""
    kinds = pa.types
    if kinds.is_null(type_):
        return None
    for matches, tree_type in (
        (kinds.is_boolean, "BOOLEAN"),
        (lambda arrow: kinds.is_integer(arrow) and arrow.bit_width + kinds.is_unsigned_integer(arrow) <= 32, "INT32"),
        (kinds.is_integer, "INT64"),
        (lambda arrow: kinds.is_floating(arrow) and arrow.bit_width <= 32, "FLOAT"),
        (lambda arrow: kinds.is_floating(arrow) or kinds.is_decimal(arrow), "DOUBLE"),
        (lambda arrow: kinds.is_string(arrow) or kinds.is_large_string(arrow), "TEXT"),
        (lambda arrow: kinds.is_binary(arrow) or kinds.is_large_binary(arrow), "BLOB"),
        (kinds.is_date, "DATE"),
        (kinds.is_timestamp, "TIMESTAMP"),
    ):
        if matches(type_):
            return TREE_TYPES[tree_type]
    raise ProgrammingError(f"column {name} has the type {type_}, which no series has", hint="convert it, for example to text")


def combine_series(parts: Sequence[pa.Table]) -> pa.Table:
    """Return each series once, with the type of its first part."""
    series = pa.concat_tables([SERIES_SCHEMA.empty_table(), *parts])
    first = series.group_by(["device", "measurement"], use_threads=False).aggregate([("type", "first")])
    return first.rename_columns({"type_first": "type"}).select(SERIES_SCHEMA.names)
