"""A tree of devices whose rows are those of `benchmarks.data`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

from benchmarks.bench import Bench
from benchmarks.data import START_MS, STEP_MS, generate_rows
from headrace.model.tables import Database, Table
from headrace.model.trees import TREE_TABLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP_SIZE: Final = 100
MINUTE_MS: Final = 60_000
COLUMNS: Final = "current FLOAT, voltage INT32, phase FLOAT"


def device_path(database: str, number: int) -> str:
    """Return the path of a device. A hundred devices have a common parent."""
    return f"{database}.g{number // GROUP_SIZE}.d{number:05d}"


def tree_name(rows: int, devices: int) -> str:
    """Return the name of the database for a size."""
    return f"root.bench_{rows}_{devices}"


def prepare_tree(bench: Bench, rows: int, devices: int) -> tuple[Database, Table]:
    """Create a database with aligned devices and load their rows, or reuse the one of an earlier run."""
    name = tree_name(rows, devices)
    catalog = bench.tree.session.context.catalog
    if name not in catalog.trees.databases():
        bench.log(f"{name}: generating")
        bench.tree.execute(f"CREATE DATABASE {name}")
        for number in range(devices):
            bench.tree.execute(f"CREATE ALIGNED TIMESERIES {device_path(name, number)}({COLUMNS})")
    database, table = catalog.databases.get(name), catalog.tables.get(name, TREE_TABLE)
    if bench.tree.session.context.tables.rows(table) != rows:
        folder = bench.scratch(name)
        generate_tree_rows(bench.spark, name, rows, devices).write.parquet(str(folder))
        bench.tree.load(sorted(folder.glob("*.parquet")), name)
        shutil.rmtree(folder)
    return database, table


def generate_tree_rows(spark: SparkSession, name: str, rows: int, devices: int) -> DataFrame:
    """Generate the rows of all devices, one each second and device, in the order of time."""
    from pyspark.sql import functions as F

    number = F.substring("tbname", -5, 5).cast("int")
    path = F.format_string(f"{name}.g%d.d%05d", F.floor(number / GROUP_SIZE), number)
    meters = generate_rows(spark, "d", rows, devices)
    return meters.select(F.col("ts").alias("time"), "current", "voltage", "phase", path.alias("device"))


def time_range(rows: int, devices: int) -> tuple[int, int]:
    """Return the range of whole minutes that holds all rows, in milliseconds; its end is exclusive."""
    last = START_MS + -(-rows // devices) * STEP_MS
    return START_MS // MINUTE_MS * MINUTE_MS, -(-last // MINUTE_MS) * MINUTE_MS
