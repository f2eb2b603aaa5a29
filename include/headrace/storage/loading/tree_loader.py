"""Loading files into trees. The files are read twice: for the types of their series, then for their values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from headrace.errors import TransientError
from headrace.model.tables import Database, Table
from headrace.storage.delta import spark_writes
from headrace.storage.delta.commits import WriteMetrics
from headrace.storage.delta.handles import translate_errors
from headrace.storage.delta.table_handles import Handles
from headrace.storage.delta.writer import Writer
from headrace.storage.loading.loader import (
    WORKERS,
    LoadedRows,
    Loader,
    LoadMetrics,
    LoadOptions,
    Progress,
    is_large,
    refuse_invalid,
    total_bytes,
)
from headrace.storage.loading.splits import FileSplit, split_files
from headrace.storage.loading.tree_header import read_header, with_escape
from headrace.storage.loading.tree_rows import SeriesColumns, TreeFiles, TreeTarget
from headrace.storage.loading.tree_types import ScannedSplit, combine_series, scan_split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_ATTEMPTS: Final = 3
"""Values are converted again if others created columns of the same measurements meanwhile."""


class SeriesStore(Protocol):
    """What series a tree has, as rows of `device`, `measurement` and IoTDB's name of the type; types of existing ones count."""

    def plan(self, series: pa.Table) -> SeriesColumns:
        """Return the columns that series have or would get."""

    def write(self, series: pa.Table, planned: SeriesColumns, rows: LoadedRows) -> WriteMetrics:
        """Create those that are missing and commit the rows; raise `ColumnsChangedError` if they need other columns."""


class ColumnsChangedError(Exception):
    """Series got other columns than planned, so their values have to be converted again."""


@dataclass(frozen=True, slots=True)
class TreeLoader:
    """Loads files into one tree."""

    handles: Handles
    writer: Writer
    small_write_rows: int
    spark: Callable[[], SparkSession]
    table: Table
    database: Database

    def load(self, paths: Sequence[Path], store: SeriesStore, progress: Progress | None, options: LoadOptions) -> LoadMetrics:
        """Load files into a tree, all or none of them, with the rules of its INSERT: the last value at an instant wins.

        `store` finds the columns of series, and writes the values once all are validated. `progress` is called with the rows and
        bytes read so far.

        Raises:
            DataError: A value is invalid.
        """
        now = time.time_ns() // 1_000_000 if options.now is None else options.now
        files = TreeFiles(self.database, options.device, now)
        with translate_errors(f"table {self.table.database}.{self.table.name}"):
            work = [with_escape(file_split) for file_split in split_files(paths, options.format, options.delimiter)]
            check_headers(work, files)
            size = total_bytes(work)
            series = self._scan(work, files, shifted(progress, 0))
            for _ in range(MAX_ATTEMPTS):
                with suppress(ColumnsChangedError):
                    return self._load(work, files, shifted(progress, size), series, store)
        raise TransientError(f"series of {self.database.name} were created by others during the load", hint="load the files again")

    def _scan(self, work: list[FileSplit], files: TreeFiles, progress: Progress | None) -> pa.Table:
        """Return the series that files have values of, with their types."""
        scanned: list[ScannedSplit] = []
        read = 0
        for split in self._scan_splits(work, files):
            scanned.append(split)
            read += split.file_split.bytes
            if progress is not None:
                progress(0, read)
        refuse_invalid(scanned)
        return combine_series([split.series for split in scanned])

    def _scan_splits(self, work: list[FileSplit], files: TreeFiles) -> Iterator[ScannedSplit]:
        def scan(file_split: FileSplit) -> ScannedSplit:
            return scan_split(file_split, files)

        if is_large(work, self.small_write_rows):
            yield from spark_writes.map_in_tasks(self.spark(), work, scan, self.table.database)
            return
        with ThreadPoolExecutor(WORKERS) as executor:
            yield from executor.map(scan, work)

    def _load(
        self, work: list[FileSplit], files: TreeFiles, progress: Progress | None, series: pa.Table, store: SeriesStore
    ) -> LoadMetrics:
        """Convert and commit the values for the columns that series will have."""
        planned = store.plan(series)
        loader = Loader(self.handles, self.writer, self.small_write_rows, self.spark, planned.table, self.database)
        return loader.load_splits(
            work, TreeTarget(files, planned), progress, through=lambda rows: store.write(series, planned, rows)
        )


def shifted(progress: Progress | None, before: int) -> Progress | None:
    """Return a progress that counts half of the bytes of each of two readings, after those that were read before."""
    return None if progress is None else lambda rows, read: progress(rows, (before + read) // 2)


def check_headers(work: Sequence[FileSplit], files: TreeFiles) -> None:
    headers = {file_split.path: file_split for file_split in work if file_split.names}
    for file_split in headers.values():
        read_header(file_split.names, file_split.name, files.database.name, files.device)
