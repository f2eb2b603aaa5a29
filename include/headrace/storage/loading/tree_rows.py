"""Converts a split of a file into rows of a tree: each value goes to the column of its series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.paths import join_path, parse_path
from headrace.model.tables import Column, Database, Table
from headrace.model.trees import TIME_COLUMN
from headrace.storage.delta.keys import keep_last_per_key, keep_last_values_per_key
from headrace.storage.loading.conversion import ConvertedSplit
from headrace.storage.loading.splits import FileSplit, SplitContent, read_split
from headrace.storage.loading.tree_header import SeriesColumn, TreeHeader, is_in_tree, read_header
from headrace.storage.types import assemble, rows_schema
from headrace.storage.values.columns import InvalidValues, to_array, to_stored_column
from headrace.storage.values.scalars import TimeContext
from headrace.storage.values.tree_columns import to_series_values


@dataclass(frozen=True, slots=True)
class TreeFiles:
    """What files are loaded for: a tree, the device of all rows (None: the files name it), and `now` (epoch ms)."""

    database: Database
    device: str | None
    now: int

    @property
    def time_context(self) -> TimeContext:
        return TimeContext(self.now, self.database.timezone, self.database.precision)


@dataclass(frozen=True)
class SeriesColumns:
    """The stored column of each series of a load.

    Attributes:
        table: The tree's table, with the columns that the load adds.
        series: Rows of `device`, `measurement` as the files spell it, and `column`, the position in `table.columns`.
    """

    table: Table
    series: pa.Table

    def names(self) -> Iterator[tuple[tuple[str, str], str]]:
        """Yield device and measurement of each series with the name of its column."""
        devices, measurements, positions = (self.series[name].to_pylist() for name in self.series.column_names)
        return zip(zip(devices, measurements, strict=True), (self.table.columns[at].name for at in positions), strict=True)

    @cached_property
    def _by_measurement(self) -> dict[str, tuple[pa.Array, pa.Array]]:
        ordered = self.series.sort_by("measurement").combine_chunks()
        names, starts = np.unique(ordered["measurement"].to_numpy(zero_copy_only=False), return_index=True)
        ends = np.append(starts, ordered.num_rows)[1:]
        parts = [ordered.slice(start, end - start) for start, end in zip(starts, ends, strict=True)]
        return {
            name: (part["device"].combine_chunks(), part["column"].combine_chunks())
            for name, part in zip(names, parts, strict=True)
        }

    def positions(self, measurement: str, devices: Sequence[str]) -> np.ndarray:
        """Return the position of the column of a measurement for each device, -1 if the device does not have it."""
        owners, columns = self._by_measurement.get(measurement, (pa.array([], pa.string()), pa.array([], pa.int32())))
        at = pc.index_in(pa.array(devices, pa.string()), owners)
        positions: np.ndarray = pc.fill_null(columns.take(at), -1).to_numpy(zero_copy_only=False)
        return positions


@dataclass(frozen=True, slots=True)
class RowDevices:
    """The device of each row: `paths`, and for each row a position in it, -1 if it is invalid; None if there is one device."""

    paths: Sequence[str]
    codes: np.ndarray | None


@dataclass(frozen=True, slots=True)
class TreeTarget:
    """Where splits are loaded to: a tree, whose series have columns already or will have them before the rows are committed."""

    files: TreeFiles
    columns: SeriesColumns

    @property
    def table(self) -> Table:
        """The tree's table with the columns that the load adds."""
        return self.columns.table

    def convert(self, file_split: FileSplit) -> ConvertedSplit:
        """Read and convert a split."""
        return convert_tree_split(file_split, self)


def row_devices(content: SplitContent, header: TreeHeader, files: TreeFiles, invalid_values: InvalidValues) -> RowDevices | None:
    """Return the devices of rows; None if column names have them."""
    if header.device is None:
        return None if files.device is None else RowDevices([files.device], None)
    values = to_array(content.columns[header.device])
    texts = pa.array([None if value is None else str(value) for value in values]) if isinstance(values, list) else values
    texts = texts.cast(pa.string())
    encoded = texts.dictionary_encode()
    written = encoded.dictionary.to_pylist()
    paths = [device_path(text, files.database.name) for text in written]
    valid = np.array([path is not None for path in paths], bool)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    codes = np.where((codes >= 0) & np.append(valid, False)[codes], codes, -1)
    for row in np.flatnonzero(codes < 0).tolist():
        value = texts[row].as_py()
        shown = "NULL" if value is None else repr(value)
        invalid_values.add_text(row, header.device, shown, f"a device below {files.database.name}")
    return RowDevices([path or "" for path in paths], codes)


def device_path(text: str, database: str) -> str | None:
    """Return the canonical path of a device as written, None if it is not a path in the database."""
    nodes = parse_path(text.strip())
    path = None if nodes is None else join_path(nodes)
    return path if path is not None and is_in_tree(path, database) else None


@dataclass(slots=True)
class SplitRows:
    """The conversion of one split."""

    target: TreeTarget
    content: SplitContent
    header: TreeHeader
    devices: RowDevices | None
    invalid_values: InvalidValues = field(default_factory=InvalidValues)

    def times(self) -> pa.Array:
        """Return the instants of the rows as stored."""
        column, context = self.target.table.timestamp, self.target.files.time_context
        values = self.content.columns[self.header.time]
        return to_stored_column(values, column, context, self.invalid_values, is_key=True, is_time=False)

    def parts(self) -> Iterator[pa.Table]:
        """Yield rows as stored, without those that have no value; of files whose columns name devices, device by device."""
        times = self.times()
        if self.devices is not None:
            yield self.with_values(times, self.row_paths(self.devices), self.stored(self.header.series, self.devices))
            return
        by_device: dict[str, list[SeriesColumn]] = {}
        for column in self.header.series:
            by_device.setdefault(column.device or "", []).append(column)
        for device, columns in by_device.items():
            devices = RowDevices([device], None)
            yield self.with_values(times, self.row_paths(devices), self.stored(columns, devices))

    def row_paths(self, devices: RowDevices) -> pa.Array:
        paths = pa.array(devices.paths, pa.string())
        codes = np.zeros(self.content.rows, np.int64) if devices.codes is None else devices.codes
        return paths.take(pa.array(codes, mask=codes < 0))

    def stored(self, columns: Sequence[SeriesColumn], devices: RowDevices) -> dict[str, pa.Array]:
        """Return the values of columns of the file by stored column."""
        stored: dict[str, pa.Array] = {}
        for column in columns:
            for target, values in self.converted(column, devices):
                earlier = stored.get(target.name)
                stored[target.name] = values if earlier is None else pc.coalesce(values, earlier)
        return stored

    def converted(self, column: SeriesColumn, devices: RowDevices) -> Iterator[tuple[Column, pa.Array]]:
        """Yield each stored column that a column of the file has values of, and the values."""
        positions = self.target.columns.positions(column.measurement, devices.paths)
        values = to_array(self.content.columns[column.name])
        for position in np.unique(positions[positions >= 0]).tolist():
            target = self.target.table.columns[position]
            chosen = values
            if devices.codes is not None and (positions != position).any():
                belongs = np.append(positions == position, False)[devices.codes]
                chosen = only(values, belongs)

            def series_of(row: int) -> str:
                code = 0 if devices.codes is None else devices.codes[row]
                return join_path((devices.paths[code], column.measurement))

            yield target, to_series_values(chosen, target, series_of, self.target.files.time_context, self.invalid_values)

    def with_values(self, times: pa.Array, paths: pa.Array, stored: dict[str, pa.Array]) -> pa.Table:
        """Return rows with a value as the table has them."""
        table = self.target.table
        schema = rows_schema(table, self.target.files.database)
        own = {**stored, TIME_COLUMN: times, table.series_key: paths}
        has_value = np.zeros(self.content.rows, bool)
        for values in stored.values():
            has_value |= pc.is_valid(values).to_numpy(zero_copy_only=False)
        return assemble(own, schema, self.content.rows).filter(pa.array(has_value))


def only(values: pa.Array | list[object], belongs: np.ndarray) -> pa.Array | list[object]:
    """Return values with NULL in the rows that do not belong."""
    if isinstance(values, list):
        return [value if own else None for value, own in zip(values, belongs.tolist(), strict=True)]
    return pc.if_else(pa.array(belongs), values, pa.scalar(None, values.type))


def convert_tree_split(file_split: FileSplit, target: TreeTarget) -> ConvertedSplit:
    invalid_values = InvalidValues()
    content = read_split(file_split, invalid_values)
    schema = rows_schema(target.table, target.files.database)
    rows, nothing = schema.empty_table(), pa.table({})
    if content.rows:
        header = read_header(content.columns, file_split.name, target.files.database.name, target.files.device)
        devices = row_devices(content, header, target.files, invalid_values)
        split = SplitRows(target, content, header, devices, invalid_values)
        rows = pa.concat_tables([rows, *split.parts()])
    if not invalid_values.count:
        rows = combine_rows(rows, target.table)
    columns = frozenset(name for name in rows.column_names if rows[name].null_count < rows.num_rows)
    return ConvertedSplit(file_split, rows, content.rows, columns, nothing, invalid_values)


def combine_rows(rows: pa.Table, table: Table) -> pa.Table:
    keys = rows.select(list(table.primary_key))
    if keep_last_per_key(keys, table.primary_key).num_rows == rows.num_rows:
        return rows
    return keep_last_values_per_key(rows, table.primary_key)
