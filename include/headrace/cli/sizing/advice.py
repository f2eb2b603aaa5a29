"""What to set for a workload, and what to do if a part has too much to do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from headrace.cli.sizing.costs import CatalogKind
from headrace.cli.sizing.estimate import Estimate, Part
from headrace.cli.sizing.workload import GIB, Operations, Storage, Workload
from headrace.settings import Settings

HEAP_BYTES: Final = 3 * GIB
MANY_STREAMS: Final = 100
"""With more, Airflow's database should be in PostgreSQL."""
TRIGGERER_CAPACITY: Final = 1000
REMEDIES: Final = {
    Part.COMMITS: "let clients write more rows at a time, or divide the devices among more tables",
    Part.LOG: "write results less often (WINDOW_CLOSE, longer windows), and fewer, larger commits",
    Part.CATALOG: "PostgreSQL with more cores; or several catalogs, each with its Airflow",
    Part.DRIVER: "more snodes; if one stream is too much for one, PARTITIONS of it, or more tables",
    Part.MEMORY: "more snodes, or PARTITION BY a tag instead of tbname",
    Part.AIRFLOW: "several catalogs, each with its Airflow, or start streams a few at a time",
}


def format_bytes(size: float) -> str:
    """Format a size."""
    return f"{size / GIB:.1f} GiB"


def format_seconds(seconds: float) -> str:
    """Format a duration with two digits."""
    if math.isinf(seconds):
        return "no end"
    value, unit = (seconds * 1000, "ms") if seconds < 1 else (seconds, "s")
    return f"{float(f'{value:.2g}'):,g} {unit}"


def driver_bytes(result: Estimate) -> float:
    """Return the memory of a driver: the heap of its JVM, and its Python process."""
    return HEAP_BYTES + result.python_bytes


def settings_for(workload: Workload, result: Estimate, operations: Operations) -> Iterator[tuple[str, str, str]]:
    """Yield what to set, to what, and why; defaults are left out."""
    many = workload.snodes > 1
    yield "snodes", f"{workload.snodes}", f"{workload.driver_streams} streams each: a round takes {format_seconds(result.round_s)}"
    yield "memory of each", format_bytes(driver_bytes(result)), f"{format_bytes(HEAP_BYTES)} of heap, the rest for state and rows"
    yield "cores in all", f"{workload.snodes + 2}", "one for each snode, and two for Airflow and the catalog"
    rows = workload.table_rows_s / workload.commits
    yield "rows in a write", f"{max(1, round(rows)):,}", f"{workload.commits:g} commits a second on each table"
    if operations.doors > 1:
        yield "snodes to write to", f"{operations.doors}", f"{workload.rows_s:,.0f} rows/s would take too much of one"
    if workload.catalog is CatalogKind.POSTGRESQL:
        yield "HEADRACE_CATALOG_URL", "postgresql://…", "SQLite is for one machine" if many else ""
    if workload.storage is Storage.S3:
        yield "HEADRACE_WAREHOUSE", "s3://…", ""
    elif many:
        yield "HEADRACE_WAREHOUSE", "a shared folder", "unless all snodes run on one machine"
    if workload.streams > int(Settings.fields["streams_per_database"].default):
        yield "HEADRACE_STREAMS_PER_DATABASE", f"{workload.streams}", "if one database has all streams"
    if workload.streams > MANY_STREAMS:
        yield "HEADRACE_AIRFLOW_DATABASE_URL", "postgresql://…", f"Airflow has {workload.streams} DAGs"
    if workload.streams >= TRIGGERER_CAPACITY:
        yield "[triggerer] capacity", f"{workload.streams + TRIGGERER_CAPACITY}", "in an Airflow of your own"


def details(result: Estimate, workload: Workload) -> dict[Part, str]:
    """Return what the load of each part is."""
    return {
        Part.COMMITS: f"{workload.commits:g}/s of {workload.table_rows_s / workload.commits:,.0f} rows",
        Part.LOG: f"{result.commits_s:,.0f} commits/s; their maintenance takes {result.maintenance_s / 3600:.1f} h a day",
        Part.CATALOG: f"{workload.catalog.value}",
        Part.DRIVER: f"results after {format_seconds(result.delay_s)}",
        Part.MEMORY: format_bytes(result.python_bytes),
        Part.AIRFLOW: f"the start of a stream takes {format_seconds(result.start_s)}",
    }
