"""Batch queries over windows with Arrow results, by kernels and by Spark SQL, against PySpark, and DuckDB on the same files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from benchmarks.bench import Bench
from benchmarks.compare import check_equal
from benchmarks.data import prepare_loaded_meters
from benchmarks.handwritten import batch
from benchmarks.measure import Memory, interleave, time_call
from benchmarks.results import Limit, Measurement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """A query in Headrace's SQL, in PySpark and in DuckDB's SQL; `{source}` is the table or its files."""

    sql: str
    by_hand: Callable[[DataFrame], DataFrame]
    duckdb: str
    keys: tuple[str, ...]


SPARK_SQL: Final = "headrace by Spark SQL"
BY_TIME: Final = "PARTITION BY tbname ORDER BY ts"
OURS: Final = "SELECT tbname, _wstart AS ts, COUNT(*) AS cnt, AVG(voltage) AS av FROM {{source}} PARTITION BY tbname {window}"


def duckdb_runs(breaks: str) -> str:
    """Return a query for windows of consecutive rows; a condition on a row and its predecessor starts a new one."""
    return f"""WITH marked AS (
         SELECT tbname, ts, voltage, coalesce({breaks}, false)::INT AS new FROM {{source}} WINDOW w AS ({BY_TIME})),
       numbered AS (SELECT *, sum(new) OVER ({BY_TIME} ROWS UNBOUNDED PRECEDING) AS number FROM marked)
       SELECT tbname, min(ts) AS ts, count(*) AS cnt, avg(voltage) AS av FROM numbered GROUP BY tbname, number"""


QUERIES: Final[dict[str, WindowQuery]] = {
    "INTERVAL(1m) by subtable": WindowQuery(
        "SELECT tbname, _wstart AS ts, COUNT(*) AS cnt, AVG(voltage) AS av FROM {source} PARTITION BY tbname INTERVAL(1m)",
        lambda rows: batch.intervals(rows, "1 minute"),
        "SELECT tbname, time_bucket(INTERVAL 1 MINUTE, ts) AS ts, COUNT(*) AS cnt, AVG(voltage) AS av FROM {source} GROUP BY 1, 2",
        ("tbname", "ts"),
    ),
    "INTERVAL(1m) SLIDING(30s) by subtable": WindowQuery(
        "SELECT tbname, _wstart AS ts, COUNT(*) AS cnt, AVG(voltage) AS av FROM {source}"
        " PARTITION BY tbname INTERVAL(1m) SLIDING(30s)",
        lambda rows: batch.intervals(rows, "1 minute", "30 seconds"),
        """WITH halves AS (
             SELECT tbname, time_bucket(INTERVAL 30 SECOND, ts) AS half, COUNT(*) AS n, SUM(voltage) AS s
             FROM {source} GROUP BY 1, 2),
           pairs AS (SELECT tbname, half AS ts, n, s FROM halves UNION ALL
             SELECT tbname, half - INTERVAL 30 SECOND, n, s FROM halves)
           SELECT tbname, ts, SUM(n) AS cnt, SUM(s) / SUM(n) AS av FROM pairs GROUP BY 1, 2""",
        ("tbname", "ts"),
    ),
    "INTERVAL(10s) of all subtables": WindowQuery(
        "SELECT _wstart AS ts, COUNT(*) AS cnt, AVG(voltage) AS av FROM {source} INTERVAL(10s)",
        lambda rows: batch.intervals_overall(rows, "10 seconds"),
        "SELECT time_bucket(INTERVAL 10 SECOND, ts) AS ts, COUNT(*) AS cnt, AVG(voltage) AS av FROM {source} GROUP BY 1",
        ("ts",),
    ),
    "SESSION(ts, 10s) by subtable": WindowQuery(
        OURS.format(window="SESSION(ts, 10s)"),
        lambda rows: batch.run_windows(rows, "ts > lag(ts) OVER + INTERVAL 10 SECONDS"),
        duckdb_runs("ts > lag(ts) OVER w + INTERVAL 10 SECOND"),
        ("tbname", "ts"),
    ),
    "STATE_WINDOW(ten volts) by subtable": WindowQuery(
        OURS.format(window="STATE_WINDOW(CAST(voltage / 10 AS INT))"),
        lambda rows: batch.run_windows(rows, "CAST(voltage / 10 AS INT) <> CAST(lag(voltage) OVER / 10 AS INT)"),
        duckdb_runs("voltage // 10 <> lag(voltage) OVER w // 10"),
        ("tbname", "ts"),
    ),
    "EVENT_WINDOW by subtable": WindowQuery(
        OURS.format(window="EVENT_WINDOW START WITH voltage >= 235 END WITH voltage < 212"),
        lambda rows: batch.event_windows(rows, "voltage >= 235", "voltage < 212"),
        f"""WITH cut AS (
             SELECT tbname, ts, voltage, coalesce(sum((voltage < 212)::INT) OVER ({BY_TIME} ROWS BETWEEN UNBOUNDED PRECEDING
               AND 1 PRECEDING), 0) AS number FROM {{source}}),
           open AS (SELECT *, max((voltage >= 235)::INT) OVER (PARTITION BY tbname, number ORDER BY ts) AS opened FROM cut)
           SELECT tbname, min(ts) AS ts, count(*) AS cnt, avg(voltage) AS av FROM open WHERE opened = 1
           GROUP BY tbname, number HAVING max((voltage < 212)::INT) = 1""",
        ("tbname", "ts"),
    ),
    "COUNT_WINDOW(100) by subtable": WindowQuery(
        OURS.format(window="COUNT_WINDOW(100)"),
        lambda rows: batch.count_windows(rows, 100),
        f"""WITH numbered AS (SELECT tbname, ts, voltage, (row_number() OVER ({BY_TIME}) - 1) // 100 AS number FROM {{source}})
           SELECT tbname, min(ts) AS ts, count(*) AS cnt, avg(voltage) AS av FROM numbered GROUP BY tbname, number""",
        ("tbname", "ts"),
    ),
}


class QueryRun:
    """Runs a query on its sides, and keeps their last results."""

    def __init__(self, bench: Bench, windows: WindowQuery, name: str) -> None:
        self.bench = bench
        self.windows = windows
        self.name = name
        self.location = bench.location(name)
        self.files = DeltaTable(self.location).file_uris()
        self.results: dict[str, pa.Table] = {}

    def ours(self) -> None:
        sql = self.windows.sql.format(source=self.name)
        self.results["ours"] = self.bench.kernels.execute(sql).fetch_arrow_table()

    def spark_sql(self) -> None:
        sql = self.windows.sql.format(source=self.name)
        self.results["Spark SQL"] = self.bench.spark_sql.execute(sql).fetch_arrow_table()

    def theirs(self) -> None:
        self.results["theirs"] = self.windows.by_hand(batch.read(self.bench.spark, self.location)).toArrow()

    def duckdb(self) -> None:
        sql = self.windows.duckdb.format(source=f"read_parquet({self.files})")
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            self.results["duckdb"] = connection.sql(sql).to_arrow_table()

    def check(self) -> None:
        for side in ("Spark SQL", "theirs", "duckdb"):
            check_equal(self.results["ours"], self.results[side], self.windows.keys)


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure each query."""
    rows = bench.sizes.window_rows
    table = prepare_loaded_meters(bench, rows, bench.sizes.subtables)
    for name, windows in QUERIES.items():
        if bench.sizes.only not in name:
            continue
        query, memory = QueryRun(bench, windows, table.name), Memory(bench.spark)
        sides = {
            "headrace": memory.watch("headrace", time_call(query.ours)),
            "hand-written": memory.watch("hand-written", time_call(query.theirs)),
            SPARK_SQL: memory.watch(SPARK_SQL, time_call(query.spark_sql)),
            "DuckDB": time_call(query.duckdb),
        }
        timings = interleave(sides, bench.sizes.rounds, bench.log)
        query.check()
        yield Measurement(
            f"query: {name}, {rows:,} rows, {query.results['ours'].num_rows:,} windows",
            timings["headrace"],
            timings["hand-written"],
            Limit(ratio=1.0),
            others={name: timings[name] for name in (SPARK_SQL, "DuckDB")},
            peaks=memory.peaks,
        )
