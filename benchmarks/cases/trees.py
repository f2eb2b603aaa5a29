"""Queries over a tree of devices in the IoTDB language, against PySpark and DuckDB, and an IoTDB server if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.bench import Bench
from benchmarks.compare import check_equal
from benchmarks.handwritten import batch, trees
from benchmarks.iotdb_server import IotdbServer
from benchmarks.measure import Memory, Side, interleave, time_call
from benchmarks.results import Limit, Measurement
from benchmarks.tree_data import GROUP_SIZE, device_path, generate_tree_rows, prepare_tree, time_range
from headrace.storage.delta.handles import rows_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OTHER_LIMITS: Final = {"DuckDB": 3.0, "IoTDB": 2.0}
LOADED_ROWS: Final = 2_000_000
MINUTE: Final = "time_bucket(INTERVAL 1 MINUTE, time)"


@dataclass(frozen=True, slots=True)
class TreeQuery:
    """A query in the IoTDB language, in PySpark and in DuckDB's SQL.

    Attributes:
        sql: `{db}` is the database, `{range}` the range of GROUP BY.
        by_hand: Takes the rows and the devices that the query names.
        duckdb: Returns SQL over `{files}`, given the devices.
        devices: How many devices the query names, the first ones; None for all.
    """

    sql: str
    by_hand: Callable[[DataFrame, Sequence[str]], DataFrame]
    duckdb: Callable[[Sequence[str]], str]
    keys: tuple[str, ...]
    devices: int | None = None


def is_among(devices: Sequence[str]) -> str:
    return f"device IN ({', '.join(repr(device) for device in devices)})"


def pivoted(devices: Sequence[str]) -> str:
    columns = [
        f'max({name}) FILTER (device = {device!r}) AS "{function}({device}.voltage)"'
        for name, function in (("n", "count"), ("a", "avg"))
        for device in devices
    ]
    return f"""WITH windows AS (SELECT device, {MINUTE} AS "Time", count(voltage) AS n, avg(voltage) AS a
        FROM {{files}} WHERE {is_among(devices)} GROUP BY 1, 2) SELECT "Time", {", ".join(columns)} FROM windows GROUP BY 1"""


def values_by_time(devices: Sequence[str]) -> str:
    columns = [f'max(voltage) FILTER (device = {device!r})::DOUBLE + 1 AS "{device}.voltage + 1"' for device in devices]
    return f'SELECT time AS "Time", {", ".join(columns)} FROM {{files}} WHERE {is_among(devices)} GROUP BY 1 ORDER BY 1'


QUERIES: Final[dict[str, TreeQuery]] = {
    "windows of 1m by device": TreeQuery(
        "SELECT count(voltage), avg(voltage) FROM {db}.** GROUP BY ({range}, 1m) ALIGN BY DEVICE",
        lambda rows, _: trees.windows_by_device(rows),
        lambda _: (
            f'SELECT {MINUTE} AS "Time", device AS "Device", count(voltage) AS "count(voltage)", avg(voltage) AS "avg(voltage)" '
            "FROM {files} GROUP BY 1, 2"
        ),
        ("Device", "Time"),
    ),
    "windows of 1m by time, 100 series": TreeQuery(
        "SELECT count(voltage), avg(voltage) FROM {db}.g0.* GROUP BY ({range}, 1m)",
        trees.windows_by_time,
        pivoted,
        ("Time",),
        GROUP_SIZE,
    ),
    "expressions by device": TreeQuery(
        "SELECT voltage * current AS power FROM {db}.** WHERE voltage >= 239 ALIGN BY DEVICE",
        lambda rows, _: trees.power_by_device(rows),
        lambda _: (
            'SELECT time AS "Time", device AS "Device", voltage::DOUBLE * current::DOUBLE AS power '
            "FROM {files} WHERE voltage >= 239 ORDER BY 2, 1"
        ),
        ("Device", "Time"),
    ),
    "expressions by time, 10 series": TreeQuery(
        "SELECT voltage + 1 FROM {db}.g0.d0000*",
        trees.voltage_by_time,
        values_by_time,
        ("Time",),
        10,
    ),
}


class TreeRun:
    """Runs a query on its sides, and keeps their last results."""

    def __init__(self, bench: Bench, query: TreeQuery, rows: int) -> None:
        self.bench = bench
        self.query = query
        database, table = prepare_tree(bench, rows, bench.sizes.subtables)
        self.database = database.name
        self.location = rows_uri(bench.settings.tables_uri, table)
        self.files = DeltaTable(self.location).file_uris()
        count = bench.sizes.subtables if query.devices is None else min(query.devices, bench.sizes.subtables)
        self.devices = [device_path(database.name, number) for number in range(count)]
        first, end = time_range(rows, bench.sizes.subtables)
        self.sql = query.sql.format(db=database.name, range=f"[{first}, {end})")
        self.results: dict[str, pa.Table] = {}

    def ours(self) -> None:
        self.results["ours"] = self.bench.tree.execute(self.sql).fetch_arrow_table()

    def theirs(self) -> None:
        self.results["theirs"] = self.query.by_hand(batch.read(self.bench.spark, self.location), self.devices).toArrow()

    def duckdb(self) -> None:
        sql = self.query.duckdb(self.devices).format(files=f"read_parquet({self.files})")
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            self.results["duckdb"] = connection.sql(sql).to_arrow_table()

    def check(self) -> None:
        check_equal(self.results["ours"], self.results["theirs"], self.query.keys)
        check_equal(self.results["ours"], self.results["duckdb"], self.query.keys)


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure each query over a tenth of the rows, and over all of them."""
    server = IotdbServer(bench.sizes.iotdb) if bench.sizes.iotdb else None
    try:
        for rows in (max(1, bench.sizes.window_rows // 10), bench.sizes.window_rows):
            for name, query in QUERIES.items():
                if bench.sizes.only in name:
                    yield measure(bench, name, TreeRun(bench, query, rows), rows, server)
    finally:
        if server is not None:
            server.close()


def measure(bench: Bench, name: str, run: TreeRun, rows: int, server: IotdbServer | None) -> Measurement:
    """Measure one query over one tree."""
    memory = Memory(bench.spark)
    sides: dict[str, Side] = {
        "headrace": memory.watch("headrace", time_call(run.ours)),
        "hand-written": memory.watch("hand-written", time_call(run.theirs)),
        "DuckDB": memory.watch("DuckDB", time_call(run.duckdb)),
    }
    if server is not None:
        prepare_server(bench, server, run.database, rows)
        sides["IoTDB"] = time_call(lambda: server.query(run.sql))
    timings = interleave(sides, bench.sizes.rounds, bench.log)
    run.check()
    others = {other: timings[other] for other in OTHER_LIMITS if other in timings}
    return Measurement(
        f"tree: {name}, {rows:,} rows, {run.results['ours'].num_rows:,} result rows",
        timings["headrace"],
        timings["hand-written"],
        Limit(ratio=1.0),
        others=others,
        other_limits={other: OTHER_LIMITS[other] for other in others},
        peaks=memory.peaks,
    )


def prepare_server(bench: Bench, server: IotdbServer, database: str, rows: int) -> None:
    """Load the rows into the server unless it has them."""
    if server.count(database) != rows:
        bench.log(f"{database}: loading into IoTDB")
        frame = generate_tree_rows(bench.spark, database, rows, bench.sizes.subtables)
        parts = -(-rows // LOADED_ROWS)
        for part in range(parts):
            server.load(frame.where(f"pmod(hash(device), {parts}) = {part}"))
