"""Data files of other writers as rows of an external table: each column an expression over what the files have."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from headrace.errors import HistoryGoneError
from headrace.model.external_tables import TIME_UNITS, External, OnChange, time_limits
from headrace.model.tables import Table
from headrace.model.time import Precision
from headrace.storage.delta.column_mapping import (
    BY_ID,
    MAPPED,
    check_ids,
    check_names,
    physical_name,
    physical_schema,
)
from headrace.storage.delta.data_files import BATCH_ROWS, DataFiles, footer_ends
from headrace.storage.delta.deletion_vectors import (
    AMONG,
    VECTOR,
    Descriptor,
    RowSelection,
    cardinality,
    filter_batches,
    read_vector,
    row_group_masks,
)
from headrace.storage.delta.external_places import locate_below
from headrace.storage.delta.file_references import FileReference
from headrace.storage.delta.pruning import Bounds, as_stored_integers
from headrace.storage.delta.row_groups import text_range
from headrace.storage.types import MICROSECONDS, field

NAIVE: Final = pa.timestamp("us")
MICROSECOND_NS: Final = 1_000
DAY_US: Final = 86_400_000_000
NANOSECONDS: Final = b"headrace.nanoseconds"
"""Metadata of a whole number that is a time in the files, of a unit that Delta Lake lacks: its zone, or nothing."""
PARTITION: Final = "partition."
"""How delta-rs begins the names of partition columns."""
STATISTICS: Final = ("min", "max")


@dataclass(frozen=True)
class ExternalRows(DataFiles):
    """How rows are read from the data files of an external table, which are named by references.

    Attributes:
        table: The table, whose rows have its columns, its tags and the series key.
        external: Where they come from.
        declared: The columns of the files in the log, partition columns included.
        mapping: The mode of the names in the files; see `column_mapping`.
    """

    table: Table
    external: External
    declared: pa.Schema
    mapping: str = ""

    @cached_property
    def stored(self) -> pa.Schema:
        """The columns with the types that the files have."""
        return file_schema(self.declared)

    @cached_property
    def physical(self) -> pa.Schema:
        """The same by the names that they have in the files."""
        return physical_schema(self.stored) if self.mapping in MAPPED else self.stored

    def in_files(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Return the path of a stored column in the files."""
        if self.mapping not in MAPPED:
            return path
        return tuple(map(physical_name, fields_along(self.stored, path, self.external.location)))

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, the tags and the series key, as our own tables store them."""
        columns = (field(column, self.external.precision) for column in (*self.table.columns, *self.table.tags))
        return pa.schema([*columns, pa.field(self.table.series_key, pa.string())])

    @cached_property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """The stored column of each column and tag."""
        names = (column.name for column in (*self.table.columns, *self.table.tags))
        if self.external.format.is_text:
            return {name: (name,) for name in names}
        return dict(zip(names, self.external.sources, strict=True))

    @property
    def on_change(self) -> OnChange:
        """See `DataFiles`."""
        return self.external.on_change

    def references(self, actions: Sequence[Mapping[str, Any]]) -> list[str]:
        """See `DataFiles`."""
        return [
            FileReference(action["path"], action.get("partitionValues") or {}, action.get(VECTOR), action.get(AMONG)).text
            for action in actions
        ]

    # Rows

    def read(
        self,
        paths: list[str],
        schema: pa.Schema,
        columns: list[str] | None,
        where: pc.Expression | None,
        further: pc.Expression | None = None,
        *,
        series: tuple[str, Collection[str] | None] | None = None,  # noqa: ARG002
        bounds: Bounds | None = None,
    ) -> pa.Table:
        """See `DataFiles`."""
        read = pa.schema([schema.field(name) for name in (schema.names if columns is None else columns)])
        batches = self._scan(paths, read.names, where, further, bounds, BATCH_ROWS) if paths else ()
        return pa.Table.from_batches(batches, schema=read.remove_metadata()).cast(read)

    def batches(
        self,
        paths: list[str],
        schema: pa.Schema,  # noqa: ARG002
        columns: list[str],
        where: pc.Expression | None,
        series: tuple[str, Collection[str] | None],
        *,
        further: pc.Expression | None = None,
        encoded: bool = True,
        max_rows: int = BATCH_ROWS,
        ahead: int = 2,
        bounds: Bounds | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """See `DataFiles`."""
        batches = self._scan(paths, columns, where, further, bounds, max_rows, ahead)
        return (with_dictionary(batch, series[0]) for batch in batches) if encoded else batches

    def row_groups(
        self,
        path: str,
        groups: Sequence[int],
        columns: Sequence[str],
        key: str,  # noqa: ARG002
    ) -> Iterator[pa.Table]:
        """See `DataFiles`. The series key is text."""
        schema = pa.schema([self.schema.field(name).remove_metadata() for name in columns])
        for group in groups:
            batches = self._scan([path], columns, None, None, None, BATCH_ROWS, row_groups=[group])
            yield pa.Table.from_batches(batches, schema=schema)

    def _scan(
        self,
        references: Sequence[str],
        columns: Sequence[str],
        where: pc.Expression | None,
        further: pc.Expression | None,
        bounds: Bounds | None,
        max_rows: int,
        ahead: int = 2,
        row_groups: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of data files that have a time and a series, in batches of at most `max_rows`.

        `where` may compare the time and the series key, `further` any column. `columns` may have others of the files, which are
        texts, such as those of changes. With `row_groups` only these are read, in this thread.
        """
        import pyarrow.dataset as ds

        keys = (self.table.timestamp.name, self.table.series_key)
        also = [name for name in columns if name not in self.schema.names]
        names = self.schema.names if further is not None else list(dict.fromkeys((*columns, *keys)))
        values = {name: pc.field(name) if name in also else self.value(name) for name in dict.fromkeys((*names, *also))}
        options = {"columns": values, "batch_size": max_rows, "batch_readahead": ahead, "fragment_readahead": ahead}
        options["use_threads"] = row_groups is None
        conditions = [pc.field(name).is_valid() for name in keys] + [part for part in (where, further) if part is not None]
        condition = reduce(lambda left, right: left & right, conditions)
        for reader in self._readers(references, also, row_groups, self._pushed(bounds), options):
            yield from ds.Scanner.from_batches(reader, columns=list(columns), filter=condition).to_batches()

    def _readers(
        self,
        references: Sequence[str],
        also: Sequence[str],
        row_groups: Sequence[int] | None,
        pushed: pc.Expression | None,
        options: Mapping[str, Any],
    ) -> Iterator[pa.RecordBatchReader]:
        """Yield readers of rows of data files that may meet a condition on stored columns."""
        files = [FileReference.parse(one) for one in references]
        fragments = [self._fragment(one, row_groups) for one in files if one.is_whole]
        if fragments:
            yield self._dataset(fragments, also).scanner(filter=pushed, **options).to_reader()
        for file in (one for one in files if not one.is_whole):
            among = read_vector(file.among, self._read_part) if file.among else None
            selection = RowSelection(read_vector(file.gone, self._read_part), among)
            fragment = self._fragment(file, row_groups)
            if pushed is not None:
                fragment = fragment.subset(filter=pushed, schema=self.physical)
            masks = row_group_masks(fragment, selection)
            if not masks:
                continue
            scanner = self._dataset([fragment.subset(row_group_ids=list(masks))], also).scanner(**options)
            batches = filter_batches(scanner.to_batches(), np.concatenate(list(masks.values())))
            yield pa.RecordBatchReader.from_batches(scanner.projected_schema, batches)

    def _read_part(self, path: str, start: int, length: int) -> bytes:
        system, key = self._locate(path)
        with system.open_input_file(key) as file:
            file.seek(start)
            return bytes(file.read(length))

    def value(self, name: str) -> pc.Expression:
        """Return the value of a column, tag or the series key of a row."""
        if name == self.table.series_key:
            return self._series()
        path = self.sources[name]
        stored = stored_type(self.stored, path, self.external.location)
        value = pc.field(*self.in_files(path))
        if self.is_time(name, stored):
            return self.times(value, stored)
        type_ = self.schema.field(name).type
        return value if type_ == stored else value.cast(type_)

    def is_time(self, name: str, stored: pa.DataType) -> bool:
        """Return whether the values of a column, of a stored type, become times."""
        return name == self.table.timestamp.name or pa.types.is_temporal(stored)

    def _series(self) -> pc.Expression:
        names = [pc.field(*self.in_files(self.sources[tag])).cast(pa.string()) for tag in self.external.series]
        if not names:
            return pc.scalar(self.table.name)
        return names[0] if len(names) == 1 else pc.binary_join_element_wise(*names, self.table.series_separator)

    def times(self, values: Any, type_: pa.DataType) -> Any:
        """Convert stored times, an expression or an array, to those of our own tables, cut to the precision.

        They keep their order. Those that our tables cannot hold are NULL: a row of another writer may have any.
        """
        precision = self.external.precision
        is_long = precision is Precision.NANOSECOND
        if pa.types.is_integer(type_):
            unit_ns = TIME_UNITS[self.external.unit or "s"]
            values = within(values.cast(pa.int64()), time_limits(unit_ns, precision), pa.int64())
            if is_long:
                return scaled(values, unit_ns, 1)
            times = scaled(values, unit_ns, MICROSECOND_NS).cast(NAIVE).cast(MICROSECONDS)
        else:
            limits, is_zoned = time_limits(MICROSECOND_NS, precision), pa.types.is_timestamp(type_) and type_.tz is not None
            own = MICROSECONDS if is_zoned else NAIVE
            times = within(values.cast(own, safe=False), limits, own)
            times = times if is_zoned else local_times(times, self.external.timezone)
        if is_long:
            return pc.multiply(times.cast(pa.int64()), MICROSECOND_NS)
        return pc.floor_temporal(times, unit="millisecond") if precision is Precision.MILLISECOND else times

    def time_range(self, path: str, name: str, schema: pa.Schema) -> Bounds | None:  # noqa: ARG002
        """See `DataFiles`."""
        stored = ".".join(self.in_files(self.sources[name]))
        return self._range_of(footer_ends(*self._locate(FileReference.parse(path).path), stored))

    def _range_of(self, ends: Sequence[object]) -> Bounds | None:
        """Return the range of times of rows by values of the stored time; None if there are none, or some are no times."""
        stored = stored_type(self.stored, self.sources[self.table.timestamp.name], self.external.location)
        times = as_stored_integers(self.times(pa.array(ends).cast(stored), stored))
        return None if times.null_count or not len(times) else Bounds(pc.min(times).as_py(), pc.max(times).as_py())

    def _pushed(self, bounds: Bounds | None) -> pc.Expression | None:
        """Return a condition on the stored time that all rows within bounds meet, which the statistics of row groups decide."""
        if bounds is None:
            return None
        path = self.sources[self.table.timestamp.name]
        type_ = stored_type(self.stored, path, self.external.location)
        unit_ns = 1 if self.external.precision is Precision.NANOSECOND else MICROSECOND_NS
        low, high = bounds.low * unit_ns, bounds.high * unit_ns + unit_ns - 1
        value = pc.field(*self.in_files(path))
        if pa.types.is_integer(type_):
            own_ns = TIME_UNITS[self.external.unit or "s"]
            ends = [clamped(low // own_ns, type_), clamped(-(-high // own_ns), type_)]
        elif pa.types.is_timestamp(type_):
            slack = 0 if type_.tz is not None else 2 * DAY_US  # zones are less than a day from UTC
            per_unit = TIME_UNITS[type_.unit]
            slack_units = slack * MICROSECOND_NS // per_unit
            ends = [clamp(low // per_unit - slack_units), clamp(-(-high // per_unit) + slack_units)]
            ends = [pa.scalar(end, pa.int64()).cast(type_) for end in ends]
        else:
            return None
        return (value >= ends[0]) & (value <= ends[1])

    def _fragment(self, file: FileReference, row_groups: Sequence[int] | None) -> Any:
        """Return a data file with its partition values, or some row groups of it."""
        system, key = self._locate(file.path)
        constants = self._constants(file.partition_values) if file.partition_values else None
        fragment = parquet_format().make_fragment(key, filesystem=system, partition_expression=constants)
        if self.mapping == BY_ID:
            check_ids(fragment.physical_schema, self.declared, file.path)
        elif self.mapping:
            time = self.in_files(self.sources[self.table.timestamp.name])[0]
            check_names(fragment.physical_schema, self.physical, time, self.mapping, file.path)
        return fragment if row_groups is None else fragment.subset(row_group_ids=row_groups)

    def _dataset(self, fragments: Sequence[Any], also: Sequence[str]) -> Any:
        import pyarrow.dataset as ds  # imports pandas, which takes as long as all other imports together

        schema = pa.schema([*self.physical, *(pa.field(name, pa.string()) for name in also)])
        return ds.FileSystemDataset(fragments, schema, parquet_format(), filesystem=fragments[0].filesystem)

    def check_places(self, references: Iterable[str]) -> None:
        """Raise `EgressDeniedError` unless files are below the location. Spark would read them wherever they are."""
        for one in references:
            for path in FileReference.parse(one).files:
                self._locate(path)

    def _locate(self, path: str) -> tuple[pafs.FileSystem, str]:
        """Return where a file is; raise `EgressDeniedError` unless that is below their place, also by links."""
        place = self.uri if self.external.format.is_text else self.external.location
        return locate_below(self.uri, path, place, f"{self.table.database}.{self.table.name}")

    def _constants(self, values: Mapping[str, str | None]) -> pc.Expression:
        """Return what holds for all rows of a file by its partition values, which a log has as text."""
        parts = []
        for name, text in values.items():
            column, type_ = pc.field(name), self.physical.field(name).type
            value = pa.scalar(text or None, pa.string()).cast(type_)
            parts.append(column == value if value.is_valid else column.is_null())
        return reduce(lambda left, right: left & right, parts)

    # Row groups

    def describe_row_groups(self, reference: str) -> Iterator[tuple[int, int, tuple[str | None, str | None], Bounds | None]]:
        """Yield the number of each row group of a file, that of its rows, the range of its series, and that of its times."""
        file = FileReference.parse(reference)
        system, key = self._locate(file.path)
        metadata = pq.read_metadata(key, filesystem=system)
        positions = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
        partition = file.partition_values
        series, time = self.text_series, ".".join(self.in_files(self.sources[self.table.timestamp.name]))
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            names = (partition[series],) * 2 if series is not None and series in partition else None
            if names is None and series in positions:
                names = text_range(group.column(positions[series]).statistics)
            times = group.column(positions[time]).statistics if time in positions else None
            bounds = None if times is None or not times.has_min_max else self._range_of([times.min, times.max])
            yield number, group.num_rows, names or (None, None), bounds

    # Files

    def listed(self, files: pa.Table) -> pa.Table:
        """See `DataFiles`: references, and statistics of the keys as those of our own tables."""
        partitions = [name for name in files.column_names if name.startswith(PARTITION)]
        names = {name: self.in_files((name.removeprefix(PARTITION),))[0] for name in partitions}
        paths, records, vectors = files["path"].to_pylist(), files["num_records"], vectors_of(files)
        if vectors:
            records = pc.subtract(records, pa.array([cardinality(vectors.get(path)) for path in paths], pa.int64()))
        if partitions or vectors:
            rows = files.select(partitions).to_pylist() if partitions else [{}] * len(paths)
            paths = [
                FileReference(path, {names[name]: as_text(value) for name, value in own.items()}, vectors.get(path)).text
                for path, own in zip(paths, rows, strict=True)
            ]
        columns = {
            "path": pa.array(paths, pa.string()),
            "size_bytes": files["size_bytes"],
            "num_records": records,
            **self._statistics(files),
        }
        return pa.table(columns)

    def _statistics(self, files: pa.Table) -> dict[str, Any]:
        time, known = self.table.timestamp.name, dict[str, Any]()
        path = self.sources[time]
        type_ = stored_type(self.stored, path, self.external.location)
        for end in STATISTICS:
            stored = f"{end}.{'.'.join(self.in_files(path))}"
            if stored in files.column_names:
                known[f"{end}.{time}"] = self.times(files[stored].cast(type_), type_)
            if (series := self.text_series) is not None and f"{end}.{series}" in files.column_names:
                known[f"{end}.{self.table.series_key}"] = files[f"{end}.{series}"]
        return known

    @property
    def text_series(self) -> str | None:
        """The column of the files whose values are the names of series as they are; None if there is none."""
        if len(self.external.series) != 1:
            return None
        path = self.sources[self.external.series[0]]
        is_text = len(path) == 1 and path[0] in self.stored.names and pa.types.is_string(self.stored.field(path[0]).type)
        return self.in_files(path)[0] if is_text else None


def vectors_of(files: pa.Table) -> dict[str, Descriptor]:
    """Return the deletion vectors of files that have one, by their paths."""
    if VECTOR not in files.column_names:
        return {}
    some = files.filter(files[VECTOR].is_valid())
    return dict(zip(some["path"].to_pylist(), map(json.loads, some[VECTOR].to_pylist()), strict=True))


def parquet_format() -> Any:
    """Return the format of data files."""
    import pyarrow.dataset as ds

    # Spark writes times as INT96 unless a setting says otherwise, which Arrow takes for nanoseconds.
    return ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))


def with_dictionary(batch: pa.RecordBatch, key: str) -> pa.RecordBatch:
    """Return rows with their series key, if they have it, as a dictionary."""
    position = batch.schema.get_field_index(key)
    return batch if position < 0 else batch.set_column(position, key, batch.column(position).dictionary_encode())


def file_schema(declared: pa.Schema) -> pa.Schema:
    """Return the columns of a log with the types that the files have."""
    zones = [(one.metadata or {}).get(NANOSECONDS) for one in declared]
    return pa.schema(
        one if zone is None else pa.field(one.name, pa.timestamp("ns", zone.decode() or None))
        for one, zone in zip(declared, zones, strict=True)
    )


def stored_type(stored: pa.Schema, path: Sequence[str], location: str) -> pa.DataType:
    """Return the type of a stored column, or of a part of a nested one; raise what `fields_along` raises."""
    return fields_along(stored, path, location)[-1].type


def fields_along(stored: pa.Schema, path: Sequence[str], location: str) -> list[pa.Field]:
    """Return a stored column and the parts of it to which a path leads.

    Raises:
        HistoryGoneError: One does not exist any more.
    """
    fields: list[pa.Field] = []
    type_: pa.DataType = pa.struct(list(stored))
    for name in path:
        index = type_.get_field_index(name) if pa.types.is_struct(type_) else -1
        if index < 0:
            raise HistoryGoneError(
                f"column {'.'.join(path)} of {location} does not exist any more",
                hint="drop the external table, create it with the columns that there are, and create its streams again",
            )
        fields.append(type_.field(index))
        type_ = fields[-1].type
    return fields


def within(values: Any, limits: tuple[int, int], type_: pa.DataType) -> Any:
    """Return values of a type, an expression or an array, with NULL for those beyond some limits (inclusive)."""
    low, high = (pa.scalar(limit, pa.int64()).cast(type_) for limit in limits)
    missing = pa.scalar(None, type_)
    # A conjunction has other names for expressions than for arrays.
    return pc.if_else(pc.greater_equal(values, low), pc.if_else(pc.less_equal(values, high), values, missing), missing)


def local_times(values: Any, zone: str) -> Any:
    """Return times of a zone's clock, an expression or an array, as instants.

    Of times that a clock shows twice it is the first; those that it skips are as many minutes after the change, as Spark has them.
    """
    existing = pc.assume_timezone(values, zone, ambiguous="earliest", nonexistent="earliest")
    skipped = pc.subtract(values, pc.local_timestamp(existing))
    return pc.add(existing.cast(MICROSECONDS), skipped)


def scaled(values: Any, unit_ns: int, target_ns: int) -> Any:
    """Convert whole numbers of a unit, an expression or an array, to those of another, rounded down."""
    if unit_ns >= target_ns:
        return pc.multiply_checked(values, unit_ns // target_ns)
    factor = target_ns // unit_ns
    # Division truncates, also below zero.
    remainder = pc.subtract(values, pc.multiply(pc.divide(values, factor), factor))
    return pc.subtract(pc.divide(values, factor), pc.if_else(pc.less(remainder, 0), 1, 0))


def as_text(value: object) -> str | None:
    """Return a partition value as a log has it."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def clamp(value: int) -> int:
    return min(max(value, -(2**63) + 1), 2**63 - 1)


def clamped(value: int, type_: pa.DataType) -> pa.Scalar:
    """Return a number as a scalar of an integer type, at its end if it is beyond."""
    low, high = -(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1
    return pa.scalar(min(max(value, low), high), type_)
