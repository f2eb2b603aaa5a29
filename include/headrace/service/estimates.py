"""Estimates that EXPLAIN makes of a stream: how its micro-batches are computed, its state, and how long its history takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.context import Context
    from headrace.settings import Settings
    from headrace.streams.definition.define import StreamPlan

BENCHMARK_ROWS_S: Final = 5_000_000
"""Rows per second of the history in the benchmarks, on two cores. Used until a chunk has been measured."""
TEXT_BYTES: Final = 32
"""The assumed size of a text, a list or a sketch."""
NUMBER_BYTES: Final = 8


def describe_history(context: Context, plan: StreamPlan, rows: int) -> str:
    """Describe the size of a history, from the statistics of files, and how long it takes at the rate of chunks so far."""
    from headrace.streams.sources.source_tables import source_tables

    size = sum(context.tables.size(table) for table in source_tables(context, plan.sources).values())
    measured = context.catalog.ledger.rows_per_second()
    rate = measured or BENCHMARK_ROWS_S
    origin = "of chunks so far" if measured else "of the benchmarks, as no chunk was computed here yet"
    seconds = max(1, round(rows / rate))
    return f"{size:,} bytes of files; an estimate: about {seconds} s of computing at {rate:,} rows/s, the rate {origin}"


def describe_execution(plan: StreamPlan, settings: Settings) -> list[str]:
    """Return lines on what computes a stream's micro-batches, and on the size of its state."""
    if plan.is_closed_by_clock:
        return ["state: no windows; each is computed from the stored rows of its range"]
    schema, problem = kernel_schema(plan)
    if settings.kernels == "never":
        problem = problem or "HEADRACE_KERNELS is never"
    if problem is not None:
        how = f"micro-batches by Spark SQL, a job each ({problem})"
    else:
        how = "micro-batches in the driver, by kernels"
        if plan.query.window is not None:
            how += f"; commits of more than {settings.driver_rows:,} rows {describe_large_commits(plan, settings)}"
    return [how, describe_state(plan, schema)]


def describe_large_commits(plan: StreamPlan, settings: Settings) -> str:
    """Return how commits that do not fit in the driver are computed."""
    from headrace.streams.wide.commits import can_be_wide

    if not can_be_wide(plan):
        return "in pieces if no row is late"
    return f"in pieces, of more than {settings.wide_commit_rows:,} rows by Spark's executors"


def kernel_schema(plan: StreamPlan) -> tuple[pa.Schema | None, str | None]:
    """Return the columns of a window in state if kernels know the query, else why they do not."""
    from headrace.compute.columnar import ProjectionKernel, UnsupportedError
    from headrace.streams.windows.evaluation import KernelEvaluation, source_schema

    try:
        if plan.query.window is not None:
            return KernelEvaluation.compile(plan).windows.schema, None
        ProjectionKernel.compile(plan.query, {field.name: field.type for field in source_schema(plan)})
        return None, None
    except UnsupportedError as error:
        return None, f"kernels do not know {error}"


def describe_state(plan: StreamPlan, schema: pa.Schema | None) -> str:
    from headrace.compute.windows import window_columns

    if plan.query.window is None:
        return "state: none"
    columns, calls = window_columns(plan.query), plan.query.groups.calls
    rows = plan.query.lists | {call.rows for call in calls if call.rule.merge is None}
    sizes = [
        NUMBER_BYTES if schema is None or name not in schema.names else type_bytes(schema.field(name).type)
        for name in columns
        if name not in rows
    ]
    more = ", and the values of its rows" if rows else ""
    return f"state: about {sum(sizes)} bytes for each open window of a group ({len(columns)} columns){more}"


def type_bytes(type_: pa.DataType) -> int:
    try:
        return max(1, int(type_.bit_width) // 8)
    except ValueError:
        return TEXT_BYTES
