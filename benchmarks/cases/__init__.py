"""The benchmarks by name. Each takes a `Bench` and yields its measurements."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Final

from benchmarks.bench import Bench
from benchmarks.results import Measurement

Case = Callable[[Bench], Iterator[Measurement]]

# Descriptions. The function `run` in the module of the same name runs the benchmark.
CASES: Final[dict[str, str]] = {
    "history": "backfill of a stream's history, against a PySpark job",
    "latency": "from an insert to the committed result, against Structured Streaming",
    "states": "micro-batches with few and with many windows in state, and closing them all",
    "triggers": "how long after a result of each trigger is due it is committed",
    "large_commits": "a live stream and a commit of millions of rows, against Structured Streaming",
    "catch_up": "a live stream and one commit of millions of rows after another: its pace and memory",
    "parts": "a stream in parts on two snodes with a core each, against one snode with one core",
    "many_streams": "many different streams on one source",
    "idle": "the CPU time of many streams that have nothing to do, against Structured Streaming",
    "external": "streams over a Delta table of another writer, against one of Headrace",
    "virtual_tables": "a stream over a virtual table of ten tables, against one over a single table",
    "windows": "batch queries over windows, against PySpark and DuckDB",
    "trees": "queries in the IoTDB language, against PySpark, DuckDB and an IoTDB server",
    "functions": "functions of users over all series of a tree, against a PySpark job, and a first call",
    "library": "each function of the function library over a series in memory",
    "wide_trees": "statements over a tree of many devices with many measurements",
    "statements": "parsing and planning a statement",
    "inserts": "INSERT through the connection",
    "durability": "what syncing adds to an INSERT, a micro-batch and writers that share commits",
    "ingest": "many clients that write a few rows at a time through a door",
    "ingest_streams": "streams beside clients that write at half of the pace they should achieve",
    "insert_triggers": "what triggers add to an INSERT",
    "pipes": "pipes to and from an IoTDB server and a Kafka broker, many on one table, and an idle one",
    "loads": "loading Parquet files, against a PySpark job",
    "demo": "the histories of the demonstration, against PySpark jobs",
    "notifications": "events of windows to a WebSocket server",
    "continuous": "continuous queries of one second: from the end of an interval to its result",
    "system": "a stream of the whole system, with Airflow beside it: from a commit to its result",
    "maintenance": "a live stream while tables are compacted and vacuumed, and without that",
    "dags": "parsing the DAGs of many streams",
    "page": "the page in a browser with many streams",
    "scheduling": "the start of a run and of a driver by Airflow beside many streams",
    "command": "the command line as a process",
    "capacity": "points of a whole system, beside what its model predicts",
}


def load_case(name: str) -> Case:
    """Return the benchmark with a name in `CASES`."""
    run: Case = importlib.import_module(f"benchmarks.cases.{name}").run
    return run
