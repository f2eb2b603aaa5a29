"""Functions of users: over all series of a tree against `mapInArrow`, in a stream, and the first call of an idle system."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.compare import check_equal
from benchmarks.data import START_MS
from benchmarks.handwritten import batch, functions
from benchmarks.measure import Memory, Side, interleave, time_call
from benchmarks.results import Limit, Measurement
from benchmarks.tree_data import prepare_tree
from headrace.model.tables import TBNAME
from headrace.storage.delta.handles import rows_uri

FIRST_CALL_LIMIT_S: Final = 0.5
MODULE: Final = "bench_functions"
CODE: Final = """
import pyarrow as pa
import pyarrow.compute as pc
from headrace.udf import *

class Doubled(UDTF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.DOUBLE)
    def transform_batch(self, batch):
        values = pc.multiply(pc.cast(batch["x0"], pa.float64()), 2.0)
        return pa.RecordBatch.from_arrays([batch["time"], values], ["time", "value"])

class DoubledByRow(UDTF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.DOUBLE)
    def transform(self, row, collector):
        collector.put_double(row.get_time(), row.get_int(0) * 2.0)

class Total(UDAF):
    def before_start(self, parameters, configurations):
        configurations.set_output_data_type(Type.DOUBLE)
    def create_state(self):
        return 0.0
    def add_input(self, state, columns, bit_map):
        return state + (pc.sum(columns[0].array).as_py() or 0)
    def combine_state(self, state, other):
        return state + other
    def output_final(self, state, result_value):
        result_value.set_double(state)
"""
AGGREGATE: Final = "Total"
SUBTABLES: Final = 10
MAX_STREAM_RATIO: Final = 2.0
CLASSES: Final = {"vectorized": "Doubled", "by row": "DoubledByRow"}
LIMITS: Final = {"vectorized": 1.5, "by row": None}


def run(bench: Bench) -> Iterator[Measurement]:
    """Measure both forms of a function over all series, and a first call."""
    database, table = prepare_tree(bench, bench.sizes.window_rows, bench.sizes.subtables)
    location = rows_uri(bench.settings.tables_uri, table)
    register(bench)
    yield measure_first_call(bench, database.name)
    for form, name in CLASSES.items():
        yield measure(bench, form, f"SELECT sum({name}(voltage)) AS total FROM {database.name}.** ALIGN BY DEVICE", location)
    yield measure_stream(bench)


def register(bench: Bench) -> None:
    """Register the functions."""
    folder = bench.settings.home_path / "ext" / "udf"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{MODULE}.py").write_text(CODE)
    registered = {row[0] for row in bench.tree.execute("SHOW FUNCTIONS").fetchall()}
    for name in (*CLASSES.values(), AGGREGATE):
        if name.upper() not in registered:
            bench.tree.execute(f"CREATE FUNCTION {name} AS '{MODULE}.{name}'")


def measure(bench: Bench, form: str, sql: str, location: str) -> Measurement:
    """Measure one form of the function."""
    memory, results = Memory(bench.spark), {}

    def ours() -> None:
        results["ours"] = bench.tree.execute(sql).fetch_arrow_table()

    def theirs() -> None:
        results["theirs"] = functions.sum_of_doubled(batch.read(bench.spark, location)).toArrow()

    sides: dict[str, Side] = {
        "headrace": memory.watch("headrace", time_call(ours)),
        "hand-written": memory.watch("hand-written", time_call(theirs)),
    }
    timings = interleave(sides, bench.sizes.rounds, bench.log)
    check_equal(results["ours"].rename_columns(["Device", "total"]), results["theirs"], ("Device",))
    limit = LIMITS[form]
    return Measurement(
        f"function of {bench.sizes.window_rows:,} points, summed by device, {form}",
        timings["headrace"],
        timings["hand-written"],
        None if limit is None else Limit(ratio=limit),
        peaks=memory.peaks,
    )


def measure_first_call(bench: Bench, database: str) -> Measurement:
    """Measure a call that starts a code host."""
    from headrace.code.hosts import current_hosts

    sql = f"SELECT Doubled(voltage) FROM {database}.g0.d00000 LIMIT 10"

    def first() -> None:
        current_hosts().close()
        bench.tree.execute(sql).fetchall()

    timings = interleave({"headrace": time_call(first)}, bench.sizes.rounds, bench.log)
    return Measurement("first call of a function", timings["headrace"], limit=Limit(seconds=FIRST_CALL_LIMIT_S))


def measure_stream(bench: Bench) -> Measurement:
    """Measure micro-batches of a stream with an aggregate in Python, against the built-in sum."""
    own, built_in = (SummingStream(bench, aggregate) for aggregate in (AGGREGATE, "sum"))
    sides: dict[str, Side] = {"headrace": time_call(own.write), "built-in sum": time_call(built_in.write)}
    timings = interleave(sides, bench.sizes.batches, bench.log)
    check_equal(own.results(), built_in.results(), ("ts", "total"))
    name = f"micro-batch of {bench.sizes.batch_rows:,} rows with an aggregate in Python, against the built-in sum"
    return Measurement(name, timings["headrace"], timings["built-in sum"], Limit(ratio=MAX_STREAM_RATIO))


class SummingStream:
    """A stream that adds up the values of each subtable and minute with one function."""

    def __init__(self, bench: Bench, aggregate: str) -> None:
        self.bench, self.name, self.batch = bench, f"summed_{aggregate.lower()}", 0
        self.names = pa.array([f"{self.name}_{number}" for number in range(SUBTABLES)])
        bench.execute(f"CREATE STABLE {self.name} (ts TIMESTAMP, v INT) TAGS (g INT)")
        for number, subtable in enumerate(self.names.to_pylist()):
            bench.execute(f"CREATE TABLE {subtable} USING {self.name} TAGS ({number})")
        query = f"SELECT _wstart AS ts, {aggregate}(v) AS total FROM {self.name} PARTITION BY g INTERVAL(1m)"
        bench.execute(f"CREATE STREAM {self.name}_s TRIGGER AT_ONCE INTO {self.name}_result AS {query}")
        self.table = bench.table(self.name)

    def write(self) -> None:
        """Commit a micro-batch of rows 10 ms apart, and wait for the stream."""
        numbers = np.arange(self.bench.sizes.batch_rows)
        instants = (START_MS + 10 * (self.batch * len(numbers) + numbers)) * 1000
        columns = {"ts": pa.array(instants, pa.timestamp("us", "UTC")), "v": pa.array((numbers % 1000).astype(np.int32))}
        rows = pa.table({**columns, TBNAME: self.names.take(pa.array(numbers % SUBTABLES))})
        self.bench.context.tables.writer.write(self.table, self.bench.database, rows)
        self.bench.connection.settle()
        self.batch += 1

    def results(self) -> pa.Table:
        """Return the results of the stream."""
        sql = f"SELECT ts, CAST(total AS DOUBLE) AS total FROM {self.name}_result"
        return self.bench.connection.execute(sql).fetch_arrow_table()
