"""Source tables: meters that report once per second with some jitter. The rows are deterministic."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.bench import DATABASE, Bench
from headrace.model.tables import TBNAME, Table
from headrace.storage.delta.staged_files import stage_rows
from headrace.storage.delta.staging import add_files
from headrace.storage.types import rows_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START_MS: Final = 1_700_000_000_000
STEP_MS: Final = 1000
ROWS_PER_FILE: Final = 1_250_000
BREAK_SECONDS: Final = 20
COLUMNS: Final = "ts TIMESTAMP, current FLOAT, voltage INT, phase FLOAT"


def subtable_names(prefix: str, count: int) -> list[str]:
    """Return the names of the first `count` subtables."""
    return [f"{prefix}_{number:05d}" for number in range(count)]


def create_meters(bench: Bench, name: str, subtables: int) -> Table:
    """Create an empty supertable of meters with subtables and tags, replacing an existing one."""
    bench.execute(f"DROP STABLE IF EXISTS {name}")
    bench.execute(f"CREATE STABLE {name} ({COLUMNS}) TAGS (location VARCHAR(64), groupid INT)")
    table, names = bench.table(name), subtable_names(name, subtables)
    bench.context.catalog.subtables.add(DATABASE, name, names)
    tags = {
        TBNAME: pa.array(names),
        "location": pa.array([f"place {number % 50}" for number in range(subtables)]),
        "groupid": pa.array([number % 10 for number in range(subtables)], pa.int32()),
    }
    bench.context.tables.tags.upsert(table, pa.table(tags))
    return table


def prepare_meters(bench: Bench, rows: int, subtables: int, *, breaks: bool = False) -> Table:
    """Create a supertable and generate its rows, or reuse the one of an earlier run. See `generate_rows` for `breaks`."""
    name = f"meters_{rows}_{subtables}{'_breaks' if breaks else ''}"
    if bench.has_table(name) and bench.context.tables.rows(bench.table(name)) == rows:
        bench.log(f"{name}: reused from an earlier run")
        return bench.table(name)
    bench.log(f"{name}: generating")
    table = create_meters(bench, name, subtables)
    generate_rows(bench.spark, name, rows, subtables, breaks=breaks).write.format("delta").mode("append").save(bench.location(name))
    return table


def prepare_loaded_meters(bench: Bench, rows: int, subtables: int) -> Table:
    """Create a supertable with breaks whose files are those of a load: each has a range of time, ordered by subtable and time."""
    unordered = prepare_meters(bench, rows, subtables, breaks=True)
    name = f"{unordered.name}_loaded"
    if bench.has_table(name) and bench.context.tables.rows(bench.table(name)) == rows:
        bench.log(f"{name}: reused from an earlier run")
        return bench.table(name)
    bench.log(f"{name}: generating")
    table, schema = create_meters(bench, name, subtables), rows_schema(unordered, bench.database)
    uri = bench.location(name)
    paths = DeltaTable(bench.location(unordered.name)).file_uris()
    staged = [stage_rows(pq.read_table(path).select(schema.names).cast(schema), table, uri) for path in paths]
    add_files(DeltaTable(uri), staged, None)
    return table


def generate_rows(spark: SparkSession, name: str, rows: int, subtables: int, *, first: int = 0, breaks: bool = False) -> DataFrame:
    """Generate rows in time order with interleaved subtables, so that each file holds a time range of all subtables.

    `first` is the number of the first row: tables continue where the rows before it end.

    With `breaks`, a subtable pauses for 20 seconds after every 50 rows, and its voltage stays in one of three ranges of ten volts
    for 37 rows, as sessions, states and events need.
    """
    from pyspark.sql import functions as F

    row, count = F.col("id"), F.floor(F.col("id") / subtables)
    meter = F.pmod(row, F.lit(subtables))
    seconds = count + F.lit(BREAK_SECONDS) * F.floor((count + meter) / 50) if breaks else count
    step = F.pmod(F.xxhash64(meter, F.floor((count + meter) / 37)), F.lit(3)) * 10
    volts = step + F.pmod(F.xxhash64(row, F.lit(2)), F.lit(10)) if breaks else F.pmod(F.xxhash64(row, F.lit(2)), F.lit(30))
    micros = F.lit(START_MS * 1000) + seconds * F.lit(STEP_MS * 1000) + F.pmod(F.xxhash64(row), F.lit(STEP_MS)) * 1000
    return spark.range(first, first + rows, numPartitions=max(1, -(-rows // ROWS_PER_FILE))).select(
        F.timestamp_micros(micros).alias("ts"),
        (F.pmod(F.xxhash64(row, F.lit(1)), F.lit(10_000)) / 1000).cast("float").alias("current"),
        (volts + 210).cast("int").alias("voltage"),
        (F.pmod(F.xxhash64(row, F.lit(3)), F.lit(1000)) / 1000).cast("float").alias("phase"),
        F.format_string(f"{name}_%05d", meter).alias(TBNAME),
    )


def generate_batch(name: str, subtables: int, rows: int, first_second: int) -> pa.Table:
    """Generate consecutive readings of all subtables, starting at `first_second`, in stored types."""
    order = np.arange(rows)
    seconds, meter = first_second + order // subtables, order % subtables
    names = np.array(subtable_names(name, subtables))
    micros = (START_MS + seconds * STEP_MS + (order * 7919) % STEP_MS) * 1000
    return pa.table(
        {
            "ts": pa.array(micros, pa.timestamp("us", "UTC")),
            "current": pa.array((order * 31 % 10_000) / 1000, pa.float32()),
            "voltage": pa.array(210 + (order * 17 + seconds) % 30, pa.int32()),
            "phase": pa.array((order * 13 % 1000) / 1000, pa.float32()),
            TBNAME: pa.array(names[meter]),
        }
    )


def format_instant(second: int) -> str:
    """Format the instant `second` seconds after the start as an SQL literal in UTC."""
    return datetime.fromtimestamp(START_MS / 1000 + second, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
