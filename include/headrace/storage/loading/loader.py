"""Loading files: CSV, Parquet and newline-delimited JSON; every value is validated before the first row is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from headrace.errors import DataError, ProgrammingError
from headrace.model.tables import Database, Table
from headrace.storage.delta import merging, spark_writes, staging
from headrace.storage.delta.commits import WriteMetrics
from headrace.storage.delta.handles import Handle, stored_schema, translate_errors
from headrace.storage.delta.keys import keep_last_per_key
from headrace.storage.delta.points import MapRows
from headrace.storage.delta.retirement import refuse_retired
from headrace.storage.delta.staged_files import StagedFile
from headrace.storage.delta.table_handles import Handles
from headrace.storage.delta.writer import Writer
from headrace.storage.loading.conversion import ConvertedSplit, LoadTarget, SplitTarget, StagedSplit, match_columns, stage_converted
from headrace.storage.loading.inserted import InsertedFile, split_inserted
from headrace.storage.loading.splits import FileSplit, describe, split_files
from headrace.storage.object_store import file_system, is_object_store
from headrace.storage.types import rows_schema
from headrace.storage.values.columns import MAX_EXAMPLES, InvalidValues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Larger files are converted by Spark; for smaller ones its start would take longer than the conversion.
MAX_LOCAL_BYTES: Final = 64 * 2**20
WORKERS: Final = 2
# A merge by delta-rs keeps about 300 bytes per row in memory, so Spark merges more rows than this.
MAX_ROWS_MERGED_IN_DRIVER: Final = 20_000_000

Progress = Callable[[int, int], None]
Announce = Callable[[pa.Table], None]
Through = Callable[["LoadedRows"], WriteMetrics]
Spark = Callable[[], "SparkSession"]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How files are read.

    Attributes:
        format: csv, parquet or ndjson; None to go by the files' names.
        tbname: Subtable of all rows; None if a column `tbname` names it.
        device: Device of all rows of a tree; None if the files name it.
        delimiter: Delimiter of CSV.
        now: Epoch milliseconds; None for the machine's clock.
        columns: The columns of the table that columns of the files with other names are for; none leaves a column out.
    """

    format: str | None = None
    tbname: str | None = None
    device: str | None = None
    delimiter: str = ","
    now: int | None = None
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)


DEFAULT_OPTIONS: Final = LoadOptions()


@dataclass(frozen=True, slots=True)
class LoadMetrics:
    """The result of a load: the table's version after it, rows by operation, bytes and rows read.

    Rows that share a key are read several times and written once, and rows of a tree without a value are not written.
    """

    version: int
    inserted: int
    updated: int
    bytes: int
    read: int

    @property
    def written(self) -> int:
        """The number of rows written."""
        return self.inserted + self.updated


@dataclass(frozen=True, slots=True)
class LoadedRows:
    """Converted rows of a load: call it to commit them."""

    commit: Callable[[], WriteMetrics]
    converted: Sequence[ConvertedSplit | StagedSplit]
    uri: str
    table: str
    spark: Spark | None

    def __call__(self) -> WriteMetrics:
        """Commit the rows."""
        return self.commit()

    def batches(self) -> Iterator[pa.Table]:
        """Read the rows, in the columns of the table."""
        for split in self.converted:
            if isinstance(split, ConvertedSplit):
                yield split.rows
            elif split.action is not None:
                yield from read_file(self.uri, split.action.path)

    @property
    def map_in_tasks(self) -> MapRows | None:
        """Applies a function to the rows of each file in Spark's tasks; None if this process has converted the files."""
        return None if self.spark is None else self._map_in_tasks

    def _map_in_tasks(self, function: Callable[[Iterator[pa.Table]], Any]) -> Iterator[Any]:
        assert self.spark is not None
        uri, paths = self.uri, [file.path for file in _staged_files(self.converted)]
        return spark_writes.map_in_tasks(self.spark(), paths, lambda path: function(read_file(uri, path)), self.table)


def read_file(uri: str, path: str) -> Iterator[pa.Table]:
    """Read a staged file, one batch at a time."""
    system, root = file_system(uri)
    with system.open_input_file(f"{root}/{path}") as file:
        yield from (pa.Table.from_batches([batch]) for batch in pq.ParquetFile(file).iter_batches())


class Loader:
    """One load of some files into one table."""

    def __init__(
        self, handles: Handles, writer: Writer, small_write_rows: int, spark: Spark, table: Table, database: Database
    ) -> None:
        self._handles = handles
        self._writer = writer
        self._small_write_rows = small_write_rows
        self._spark = spark
        self._table = table
        self._database = database
        self._schema = rows_schema(table, database)
        self._uri = handles.writer(table).uri

    def load(
        self,
        files: Sequence[Path],
        progress: Progress | None = None,
        *,
        options: LoadOptions = DEFAULT_OPTIONS,
        announce: Announce | None = None,
    ) -> LoadMetrics:
        """Load files of CSV, Parquet or NDJSON, all of one format, all or none of them. The last row of a key wins.

        `progress` is called with the rows and bytes read so far; `announce` once all values are validated and before anything is
        written, with the files' subtables: `tbname` and those tags that have a column. An exception from it ends the load.

        Raises:
            DataError: A value is invalid: names the file, row, column, what is allowed, and how many more there are.
        """
        now = time.time_ns() // 1_000_000 if options.now is None else options.now
        target = LoadTarget(self._table, self._database, options.tbname, now, options.columns)
        with translate_errors(f"table {self._table.database}.{self._table.name}"):
            work = split_files(files, options.format, options.delimiter)
            _check_headers(work, target)
            return self.load_splits(work, target, progress, announce)

    def insert(self, files: Sequence[InsertedFile], now: int, announce: Announce | None) -> LoadMetrics:
        """Read, validate, announce and commit the files of an INSERT."""
        with translate_errors(f"table {self._table.database}.{self._table.name}"):
            work, target = split_inserted(files, self._table, self._database, now)
            return self.load_splits(work, target, None, announce)

    def insert_frame(self, rows: DataFrame, columns: frozenset[str]) -> WriteMetrics:
        """Commit rows of a DataFrame in stored types, which executors write; of rows with equal keys one is kept."""
        with translate_errors(f"table {self._table.database}.{self._table.name}"), staging.StagedFileCleanup(self._uri) as sweep:
            files = spark_writes.stage_frame(rows, self._uri, self._table, self._schema)
            sweep.add(files)
            return self._commit_staged(files, columns, sweep)

    def load_splits(
        self,
        work: list[FileSplit],
        target: SplitTarget,
        progress: Progress | None,
        announce: Announce | None = None,
        through: Through = lambda commit: commit(),
    ) -> LoadMetrics:
        """Read, validate, announce and commit splits; `through` is called with what commits them."""
        with staging.StagedFileCleanup(self._uri) as sweep:
            converted = self._collect(self._convert(work, target), sweep, progress)
            refuse_invalid(converted)
            if announce is not None and converted:
                named = pa.concat_tables([split.subtables for split in converted], promote_options="default")
                announce(keep_last_per_key(named, [self._table.series_key]))
            spark = self._spark if is_large(work, self._small_write_rows) else None
            written = through(LoadedRows(lambda: self._commit(converted, sweep), converted, self._uri, self._table.name, spark))
        read = sum(split.read for split in converted)
        return LoadMetrics(written.version, written.inserted, written.updated, total_bytes(work), read)

    def _convert(self, work: list[FileSplit], target: SplitTarget) -> Iterator[ConvertedSplit | StagedSplit]:
        if is_large(work, self._small_write_rows):
            return spark_writes.stage_splits(self._spark(), work, target, self._uri)
        return self._convert_locally(work, target)

    def _convert_locally(self, work: list[FileSplit], target: SplitTarget) -> Iterator[ConvertedSplit | StagedSplit]:
        """Convert splits by threads of this process; rows stay in memory up to `small_write_rows`, then go to staged files."""
        kept: list[ConvertedSplit] | None = []
        with ThreadPoolExecutor(WORKERS) as executor:
            for converted in executor.map(target.convert, work):
                if kept is None:
                    yield stage_converted(converted, target.table, self._uri)
                    continue
                kept.append(converted)
                if sum(split.rows.num_rows for split in kept) > self._small_write_rows:
                    yield from (stage_converted(split, target.table, self._uri) for split in kept)
                    kept = None
        yield from kept or ()

    def _commit(self, converted: Sequence[ConvertedSplit | StagedSplit], sweep: staging.StagedFileCleanup) -> WriteMetrics:
        present_columns = frozenset(name for split in converted for name in split.present_columns)
        in_memory = [split.rows for split in converted if isinstance(split, ConvertedSplit)]
        if in_memory:
            return self._writer.write(self._table, self._database, pa.concat_tables(in_memory), update_columns=present_columns)
        return self._commit_staged(_staged_files(converted), present_columns, sweep)

    def _collect(
        self, splits: Iterator[ConvertedSplit | StagedSplit], sweep: staging.StagedFileCleanup, progress: Progress | None
    ) -> list[ConvertedSplit | StagedSplit]:
        converted: list[ConvertedSplit | StagedSplit] = []
        rows = read = 0
        for split in splits:
            converted.append(split)
            sweep.add(_staged_files([split]))
            rows, read = rows + split.read, read + split.file_split.bytes
            if progress is not None:
                progress(rows, read)
        return converted

    def _commit_staged(
        self, files: list[StagedFile], present_columns: frozenset[str], sweep: staging.StagedFileCleanup
    ) -> WriteMetrics:
        files = self._deduplicate(files)
        sweep.add(files)

        def work(handle: Handle, delta: DeltaTable) -> WriteMetrics | None:
            if not files:
                return WriteMetrics(delta.version())
            refuse_retired(stored_schema(delta), present_columns, handle.name)
            if not staging.has_stored_keys(handle, delta, self._table, self._schema, files):
                return staging.add_files(delta, sweep.hand_over(files), None)
            sweep.keep_none()
            if by_spark:
                return None
            rows = staging.read_batches(self._uri, files, self._schema)
            return merging.upsert(delta, self._table, self._schema, rows, staging.staged_scope(files), present_columns, None)

        # On an object store, Spark may replace a commit that another writer has made meanwhile.
        by_spark = staging.total_rows(files) > MAX_ROWS_MERGED_IN_DRIVER and not is_object_store(self._uri)
        with self._writer.exclusive(self._writer.lock_name(self._table), needed=by_spark):
            written = self._writer.attempts(self._handles.writer(self._table), work)
            return self._merge_by_spark(files, present_columns) if written is None else written

    def _deduplicate(self, files: list[StagedFile]) -> list[StagedFile]:
        """Return files with one row per key."""
        if staging.total_rows(files) <= staging.MAX_ROWS_COMPARED_IN_MEMORY:
            return staging.deduplicate_in_memory(self._uri, files, self._table, self._schema)
        if staging.may_share_keys(self._uri, files, self._table, self._schema):
            return spark_writes.deduplicate(self._spark(), self._uri, files, self._table, self._schema)
        return files

    def _merge_by_spark(self, files: list[StagedFile], present_columns: frozenset[str]) -> WriteMetrics:
        spark = self._spark()
        rows = spark_writes.staged_frame(spark, self._uri, (file.path for file in files))
        with self._writer.merging_by_spark(self._writer.lock_name(self._table)):
            merged = spark_writes.merge_rows(
                spark, self._uri, rows, self._table, self._schema, staging.combined_bounds(files), present_columns
            )
        handle = self._handles.writer(self._table)
        with handle.latest() as delta:
            self._writer.sync(handle, delta.version())
            return replace(merged, version=delta.version())


def _check_headers(work: list[FileSplit], target: LoadTarget) -> None:
    """Validate column names before anything is read; all files must have the same columns."""
    first: frozenset[str] | None = None
    in_files = {name.strip() for file_split in work for name in file_split.names}
    if in_files and (missing := sorted(target.columns.keys() - in_files)):
        raise ProgrammingError(f"no file has a column {missing[0]}", hint=f"their columns are {', '.join(sorted(in_files))}")
    for file_split in work:
        if not file_split.names:
            continue
        names = frozenset(match_columns(file_split.names, target, file_split.name))
        if first is not None and names != first:
            odd = sorted(names ^ first)
            raise ProgrammingError(
                f"{file_split.name} has other columns than the first file: {', '.join(odd)}",
                hint="load files of the same columns together",
            )
        first = names


def is_large(work: Sequence[FileSplit], small_write_rows: int) -> bool:
    """Return whether Spark's workers convert splits."""
    return small_write_rows == 0 or total_bytes(work) > MAX_LOCAL_BYTES


def total_bytes(work: Sequence[FileSplit]) -> int:
    return sum(file_split.bytes for file_split in work)


class CheckedSplit(Protocol):
    """A split of which values have been validated."""

    @property
    def file_split(self) -> FileSplit:
        """The split."""

    @property
    def invalid_values(self) -> InvalidValues:
        """The values that are invalid."""


def refuse_invalid(converted: Sequence[CheckedSplit]) -> None:
    """Raise `DataError` if a value is invalid, with examples."""
    invalid = [split for split in converted if split.invalid_values.count]
    if not invalid:
        return
    count = sum(split.invalid_values.count for split in invalid)
    examples = [describe(split.file_split, value) for split in invalid for value in split.invalid_values.first()][:MAX_EXAMPLES]
    rest = f" and {count - 1} more" if count > 1 else ""
    raise DataError(
        f"{examples[0]}{rest}; nothing was loaded", hint="\n".join(examples[1:]) or "correct the file and load it again"
    )


def _staged_files(converted: Sequence[ConvertedSplit | StagedSplit]) -> list[StagedFile]:
    return [split.action for split in converted if isinstance(split, StagedSplit) and split.action is not None]
