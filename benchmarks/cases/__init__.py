"""The measurements, by name. Each takes a `Bench` and gives its lines one after another."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Final

from benchmarks.bench import Bench
from benchmarks.results import Line

Case = Callable[[Bench], Iterator[Line]]

# What each is about; the module of that name has `run`.
CASES: Final[dict[str, str]] = {
    "history": "filling a stream's history, against a PySpark job",
    "latency": "from an insert to the committed result, against Structured Streaming",
    "windows": "batch queries over windows, against PySpark and DuckDB",
    "statements": "parsing and planning a statement",
    "inserts": "INSERT through the connection",
    "dags": "parsing the DAGs of many streams",
    "command": "the command line, whole process",
}


def case(name: str) -> Case:
    """The measurement of a name in `CASES`."""
    found: Case = importlib.import_module(f"benchmarks.cases.{name}").run
    return found
