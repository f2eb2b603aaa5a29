"""Loading files: CSV, Parquet and newline-delimited JSON; every value is checked before the first row is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import DeltaTable

from headrace.errors import DataError, ProgrammingError
from headrace.model.tables import Database, Table
from headrace.storage import bulk, merging, staging
from headrace.storage.columns import EXAMPLES
from headrace.storage.commits import Written
from headrace.storage.files import StagedFile
from headrace.storage.handles import Handle, Handles, translated
from headrace.storage.keys import last_of_each_key
from headrace.storage.pieces import Converted, Staged, Target, convert, matched, staged
from headrace.storage.sources import Piece, described, pieces
from headrace.storage.types import rows_schema
from headrace.storage.writes import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Files up to this size are converted in this process: starting Spark would take longer.
LOCAL_BYTES: Final = 64 * 2**20
WORKERS: Final = 2
# A merge by delta-rs keeps about 300 bytes a row in memory; so many rows are merged by Spark instead.
MERGE_ROWS: Final = 20_000_000

Progress = Callable[[int, int], None]
Announce = Callable[[pa.Table], None]
Spark = Callable[[], "SparkSession"]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How files are read.

    `format` is csv, parquet or ndjson (None: by the files' names); `tbname` the subtable of all rows (None: a column `tbname` names
    it); `delimiter` that of CSV; `now` epoch milliseconds (None: the machine's clock).
    """

    format: str | None = None
    tbname: str | None = None
    delimiter: str = ","
    now: int | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did: the table's version after it, rows by what became of them, bytes read."""

    version: int
    inserted: int
    updated: int
    bytes: int


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

    def load(self, files: Sequence[Path], progress: Progress | None, options: LoadOptions, announce: Announce | None) -> Loaded:
        """Reads, checks, announces, commits."""
        now = time.time_ns() // 1_000_000 if options.now is None else options.now
        target = Target(self._table, self._database, options.tbname, now)
        with translated(f"table {self._table.database}.{self._table.name}"):
            work = pieces(files, options.format, options.delimiter)
            _check_headers(work, target)
            size = sum(piece.bytes for piece in work)
            large = self._small_write_rows == 0 or size > LOCAL_BYTES
            made = self._by_spark(work, target) if large else self._here(work, target)
            return self._commit(made, size, progress, announce)

    def _here(self, work: list[Piece], target: Target) -> Iterator[Converted | Staged]:
        """Pieces converted by threads of this process: rows stay in memory while they are few, then go into files."""
        kept: list[Converted] | None = []
        with ThreadPoolExecutor(WORKERS) as executor:
            for converted in executor.map(lambda piece: convert(piece, target), work):
                if kept is None:
                    yield staged(converted, target, self._uri)
                    continue
                kept.append(converted)
                if sum(each.rows.num_rows for each in kept) > self._small_write_rows:
                    yield from (staged(each, target, self._uri) for each in kept)
                    kept = None
        yield from kept or ()

    def _by_spark(self, work: list[Piece], target: Target) -> Iterator[Converted | Staged]:
        return bulk.stage_pieces(self._spark(), work, target, self._uri)

    def _commit(
        self, made: Iterator[Converted | Staged], size: int, progress: Progress | None, announce: Announce | None
    ) -> Loaded:
        with staging.Sweep(self._uri) as sweep:
            done = self._gathered(made, sweep, progress)
            _refuse_misfits(done)
            if announce is not None and done:
                named = pa.concat_tables([each.subtables for each in done], promote_options="default")
                announce(last_of_each_key(named, [self._table.series_key]))
            given = _given(done)
            in_memory = [each.rows for each in done if isinstance(each, Converted)]
            if in_memory:
                written = self._writer.write(self._table, self._database, pa.concat_tables(in_memory), given, None)
            else:
                written = self._commit_staged(_files(done), given, sweep)
        return Loaded(written.version, written.inserted, written.updated, size)

    def _gathered(
        self, made: Iterator[Converted | Staged], sweep: staging.Sweep, progress: Progress | None
    ) -> list[Converted | Staged]:
        done: list[Converted | Staged] = []
        rows = read = 0
        for each in made:
            done.append(each)
            sweep.also(_files([each]))
            rows, read = rows + each.read, read + each.piece.bytes
            if progress is not None:
                progress(rows, read)
        return done

    def _commit_staged(self, files: list[StagedFile], given: frozenset[str], sweep: staging.Sweep) -> Written:
        files = self._unique(files)
        sweep.also(files)

        def work(handle: Handle, delta: DeltaTable) -> Written | None:
            if not files:
                return Written(delta.version())
            if not staging.shares_keys(handle, delta, self._table, self._schema, files):
                return staging.add(delta, sweep.handed(files), None)
            sweep.kept_none()
            if by_spark:
                return None
            rows = staging.reader(self._uri, files, self._schema)
            return merging.upsert(delta, self._table, self._schema, rows, staging.scope(files), given, None)

        by_spark = staging.total(files) > MERGE_ROWS
        with self._writer.exclusive(self._writer.lock_name(self._table), needed=by_spark):
            written = self._writer.attempts(self._handles.writer(self._table), work)
            return self._merge_by_spark(files, given) if written is None else written

    def _unique(self, files: list[StagedFile]) -> list[StagedFile]:
        """Files with one row a key."""
        if staging.total(files) <= staging.EXACT_ROWS:
            return staging.unique_here(self._uri, files, self._table, self._schema)
        if staging.overlapping(files):
            return bulk.unique(self._spark(), self._uri, files, self._table, self._schema)
        return files

    def _merge_by_spark(self, files: list[StagedFile], given: frozenset[str]) -> Written:
        spark = self._spark()
        rows = bulk.staged_frame(spark, self._uri, files)
        merged = bulk.merge(spark, self._uri, rows, self._table, self._schema, staging.bounds_of_all(files), given)
        with self._handles.writer(self._table).latest() as delta:
            return replace(merged, version=delta.version())


def _check_headers(work: list[Piece], target: Target) -> None:
    """Names that are wrong are said before anything is read; files with different columns are refused."""
    first: frozenset[str] | None = None
    for piece in work:
        if not piece.names:
            continue
        names = frozenset(matched(piece.names, target, piece.name))
        if first is not None and names != first:
            odd = sorted(names ^ first)
            raise ProgrammingError(
                f"{piece.name} has other columns than the first file: {', '.join(odd)}",
                hint="load files of the same columns together",
            )
        first = names


def _refuse_misfits(done: Sequence[Converted | Staged]) -> None:
    bad = [each for each in done if each.misfits.count]
    if not bad:
        return
    count = sum(each.misfits.count for each in bad)
    examples = [described(each.piece, misfit) for each in bad for misfit in each.misfits.first()][:EXAMPLES]
    rest = f" and {count - 1} more" if count > 1 else ""
    raise DataError(
        f"{examples[0]}{rest}; nothing was loaded", hint="\n".join(examples[1:]) or "correct the file and load it again"
    )


def _given(done: Sequence[Converted | Staged]) -> frozenset[str]:
    return frozenset(name for each in done for name in each.given)


def _files(done: Sequence[Converted | Staged]) -> list[StagedFile]:
    return [each.action for each in done if isinstance(each, Staged) and each.action is not None]
