"""Streams over tables that other engines change, by drivers that die at failpoints: the results are those of the rows at the end.

An example is some commits of the other engine, before and while drivers read them that may die, and a comparison. A campaign
(`make campaign-external`) tries as many as `HEADRACE_EXTERNAL_EXAMPLES` says, an ordinary run a few of some kinds of tables.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyiceberg.catalog.sql import SqlCatalog

import headrace
from headrace.model.failpoints import FailpointError, armed
from headrace.settings import Settings, load
from tests.service import test_external_features as by_spark
from tests.service import test_external_streams as by_delta_rs
from tests.service.test_external_features import expected, found
from tests.service.test_external_streams import SESSIONS, results, rows_at, sessions, streams_over
from tests.streams.environment import MICRO_BATCH_FAILPOINTS
from tests.support.drawing import SEED, drawn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES: Final = int(os.environ.get("HEADRACE_EXTERNAL_EXAMPLES", "0"))
"""How many examples a campaign tries; 0 in an ordinary run."""
EXAMPLES_OF_A_TABLE: Final = 12 if EXAMPLES else 4
POINTS: Final = (
    *MICRO_BATCH_FAILPOINTS,
    *("history.evaluate", "history.commit", "history.committed", "storage.mirror.read", "storage.mirror.written"),
)
MAX_PASSAGE: Final = 3
Rows = list[dict[str, Any]]


class Source:
    """A table or a folder that another engine changes."""

    format = "delta"
    races = True

    def __init__(self, folder: Path, draw: random.Random) -> None:
        """Begin with some rows."""
        self.location = str(folder)
        self.draw = draw

    def change(self) -> None:
        """Commit as the other engine does."""
        raise NotImplementedError

    def rest(self) -> None:
        """Do what needs that nobody reads what is old any more."""

    def rows(self) -> Rows:
        """Return what is there."""
        raise NotImplementedError


class DeltaRs(Source):
    """A Delta table that delta-rs writes."""

    feed = "false"

    def __init__(self, folder: Path, draw: random.Random) -> None:
        super().__init__(folder, draw)
        write_deltalake(self.location, rows_at(draw, 40), configuration={"delta.enableChangeDataFeed": self.feed})

    def change(self) -> None:
        which = self.draw.randrange(12)
        if which == 0:
            more = rows_at(self.draw, 3).append_column("more", pa.array([1, 2, 3]))
            write_deltalake(self.location, more, mode="append", schema_mode="merge")
        elif which == 1:
            DeltaTable(self.location).create_checkpoint()
        elif which == 2:
            DeltaTable(self.location).optimize.z_order(["machine"])
        else:
            with suppress(DeltaError):  # files of an older version may have been vacuumed
                by_delta_rs.change(self.location, self.draw)

    def rest(self) -> None:
        DeltaTable(self.location).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def rows(self) -> Rows:
        return list(DeltaTable(self.location).to_pyarrow_table().to_pylist())


class DeltaRsWithFeed(DeltaRs):
    """The same with a change data feed."""

    feed = "true"


class Spark(Source):
    """A Delta table that Spark writes, with deletion vectors or mapped columns."""

    races = False
    spark: SparkSession

    def __init__(self, folder: Path, draw: random.Random) -> None:
        super().__init__(folder, draw)
        properties, partition = draw.choice(list(by_spark.KINDS.values()))
        self._is_mapped = "delta.columnMapping.mode" in properties
        by_spark.create(self.spark, self.location, properties, partition)
        by_spark.append(self.spark, self.location, draw)

    def change(self) -> None:
        by_spark.change(self.spark, self.location, self.draw, is_mapped=self._is_mapped)

    def rows(self) -> Rows:
        rows = by_spark.stored(self.spark, self.location)
        return [row | {"event_time": row["event_time"].astimezone(dt.UTC)} for row in rows]


class Iceberg(Source):
    """An Iceberg table that PyIceberg writes."""

    format = "iceberg"

    def __init__(self, folder: Path, draw: random.Random) -> None:
        folder.mkdir()
        catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        catalog.create_namespace("plant")
        rows = rows_at(draw, 40)
        self._table = catalog.create_table("plant.readings", rows.schema)
        super().__init__(Path(self._table.location().removeprefix("file://")), draw)
        self._table.append(rows)

    def change(self) -> None:
        which, low = self.draw.choice(["append", "append", "delete", "overwrite", "column"]), self.draw.randrange(90)
        if which == "append":
            self._append(self.draw.randrange(1, 20))
        elif which == "delete":
            self._table.delete(f"value >= {low} and value < {low + 10}")
        elif which == "overwrite":
            self._table.overwrite(self._padded(rows_at(self.draw, 5)), f"machine = 'm{self.draw.randrange(4)}'")
        elif "more" not in self._table.schema().column_names:
            from pyiceberg.types import LongType

            with self._table.update_schema() as update:
                update.add_column("more", LongType())

    def _append(self, count: int) -> None:
        self._table.append(self._padded(rows_at(self.draw, count)))

    def _padded(self, rows: pa.Table) -> pa.Table:
        has_more = "more" in self._table.schema().column_names
        return rows.append_column("more", pa.nulls(len(rows), pa.int64())) if has_more else rows

    def rows(self) -> Rows:
        return list(self._table.scan().to_arrow().to_pylist())


class ParquetFiles(Source):
    """A folder in which Parquet files land."""

    format = "parquet"
    suffix = ".parquet"

    def __init__(self, folder: Path, draw: random.Random) -> None:
        super().__init__(folder, draw)
        folder.mkdir()
        self._files: dict[str, pa.Table] = {}
        self._numbers = itertools.count()
        self.change()

    def change(self) -> None:
        """Land a file, as a program does that knows about readers."""
        self._land(f"{self.draw.randrange(10)}-{next(self._numbers)}{self.suffix}", rows_at(self.draw, self.draw.randrange(1, 40)))

    def _land(self, name: str, rows: pa.Table) -> None:
        path = Path(self.location, name)
        draft = path.with_name(f"_{name}")
        self._write(rows, draft)
        draft.rename(path)
        self._files[name] = rows

    def _write(self, rows: pa.Table, path: Path) -> None:
        pq.write_table(rows, path)

    def rows(self) -> Rows:
        return [row for table in self._files.values() for row in table.to_pylist()]


class CsvFiles(ParquetFiles):
    """A folder in which CSV files land, of which some are written again."""

    format = "csv"
    suffix = ".csv"

    def change(self) -> None:
        if self._files and self.draw.random() < 0.3:
            self._land(self.draw.choice(list(self._files)), rows_at(self.draw, self.draw.randrange(1, 20)))
        else:
            super().change()

    def _write(self, rows: pa.Table, path: Path) -> None:
        csv.write_csv(rows, path)
        age_s = 1_000_000 - next(self._numbers)  # no two versions of a file have the same time
        os.utime(path, ns=(0, int((dt.datetime.now().timestamp() - age_s) * 1e9)))


KINDS: Final = {
    "delta-rs": DeltaRs,
    "delta-rs-feed": DeltaRsWithFeed,
    "iceberg": Iceberg,
    "parquet": ParquetFiles,
    "csv": CsvFiles,
    "spark": Spark,
}


@contextmanager
def changing(source: Source) -> Iterator[None]:
    """Change a source in another thread meanwhile."""
    errors: list[BaseException] = []

    def change() -> None:
        try:
            for _ in range(source.draw.randrange(1, 3)):
                source.change()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if errors:
        raise errors[0]


def settle(settings: Settings, kill: str = "") -> bool:
    """Let a new driver handle all that was written; return whether it died at a failpoint."""
    with headrace.connect(settings=settings, database="d") as driver, armed(kill):
        try:
            driver.settle()
        except FailpointError:
            return True
    return False


def try_example(settings: Settings, source: Source) -> int:
    """Change a source while drivers read it, and return how many of them died."""
    draw, died = source.draw, 0
    for _ in range(draw.randrange(1, 4)):
        source.change()
    for _ in range(draw.randrange(3)):
        kill = f"{draw.choice(POINTS)}:{draw.randint(1, MAX_PASSAGE)}:raise"
        if source.races and draw.random() < 0.5:
            with changing(source):
                died += settle(settings, kill)
        else:
            died += settle(settings, kill)
            source.change()
    settle(settings)
    return died


def compare(connection: headrace.Connection, rows: Rows, note: str) -> None:
    """Compare the results of all streams, and what a query counts, with the rows."""
    assert found(connection, "by_machine") == expected(rows, "machine"), note
    assert found(connection, "by_site") == expected(rows, "site"), note
    assert results(connection, "by_session") == sessions(rows), note
    assert connection.execute("select count(*), sum(`value`) from readings").fetchall() == [
        (len(rows), sum(row["value"] for row in rows))
    ], note


def play(kind: str, seed: str, folder: Path) -> tuple[int, int]:
    """Try the examples of one table, and return their number and that of drivers that died."""
    draw, died = random.Random(seed), 0
    folder.mkdir()
    source = KINDS[kind](folder / "lake", draw)
    settings = load(home=folder / "home", driver_rows=draw.choice([7, 500_000]))
    with headrace.connect(settings=settings) as connection:
        for statement in ("create database d", "use d"):
            connection.execute(statement)
        streams_over(connection, source.location, source.format)
        connection.execute(SESSIONS)
        for number in range(EXAMPLES_OF_A_TABLE):
            died += try_example(settings, source)
            compare(connection, source.rows(), f"{seed}, example {number}")
            if draw.random() < 0.3:
                source.rest()
    return EXAMPLES_OF_A_TABLE, died


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Callable[[str], None]:
    def start(kind: str) -> None:
        if kind == "spark":
            Spark.spark = request.getfixturevalue("spark")

    return start


@pytest.mark.timeout(max(600, 10 * EXAMPLES))
@pytest.mark.parametrize("kind", list(KINDS) if EXAMPLES else drawn(list(KINDS), "external tables under kills", 2))
def test_results_are_those_of_the_rows_wherever_drivers_die(
    engine: Callable[[str], None], record_property: Callable[[str, object], None], tmp_path: Path, kind: str
) -> None:
    engine(kind)
    tried = died = 0
    for number in itertools.count():
        examples, deaths = play(kind, f"{SEED} {kind} {number}", tmp_path / str(number))
        tried, died = tried + examples, died + deaths
        if tried >= EXAMPLES / len(KINDS):
            break
    record_property("examples", tried)
    record_property("drivers that died", died)
    assert died or tried < 12, "no driver dies at any failpoint"
