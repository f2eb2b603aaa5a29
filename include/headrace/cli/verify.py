"""`headrace verify`: compare a result with the one that DuckDB computes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.console import out
from headrace.cli.options import DatabaseName, DialectName, ExplainOnly, Home, open_connection
from headrace.cli.output import format_value, show_lines, show_table
from headrace.errors import ProgrammingError

if TYPE_CHECKING:
    from headrace.model.time import Precision
    from headrace.verify import Difference, Sample, VerificationResult

LEADING_COLUMNS = 3
"""Number of leading columns shown with every difference, to identify its row."""


def verify(
    query: Annotated[str | None, typer.Argument(help="A SELECT statement.")] = None,
    stream: Annotated[
        str | None, typer.Option("--stream", help="database.stream: verify the stream's target table instead.")
    ] = None,
    continuous_query: Annotated[
        str | None, typer.Option("--cq", help="Name of a continuous query: verify what its latest execution has written instead.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="With --cq: verify all executions whose range ends after this instant.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="With --cq: verify all executions whose range starts before this instant.")
    ] = None,
    only_explain: ExplainOnly = False,
    home: Home = None,
    database: DatabaseName = None,
    dialect: DialectName = None,
) -> None:
    """Recompute a query, or what a stream or continuous query has written, with DuckDB.

    Prints the first difference, if any, and exits with code 1.
    """
    if sum(subject is not None for subject in (query, stream, continuous_query)) != 1:
        raise ProgrammingError(
            "verify takes a SELECT, a stream or a continuous query", hint="pass a SELECT, --stream database.stream, or --cq name"
        )
    if continuous_query is None and (start or end):
        raise ProgrammingError("--from and --to need a continuous query", hint="add --cq name, or leave them out")
    with open_connection(home, database, dialect) as connection:
        if only_explain:
            from headrace.service.topics.verifications import plan_verification

            session = connection.session
            show_lines(session.explain(plan_verification(session, query, stream, continuous_query, start, end)))
            return
        result = connection.verify(query, stream=stream, cq=continuous_query, start=start, end=end)
    show_verification(result)
    raise typer.Exit(0 if result.equal else 1)


def show_verification(result: VerificationResult) -> None:
    """Print the number of equal rows, or the first difference with the source rows behind it."""
    unit = ("window" if result.windows else "row") + ("" if result.rows == 1 else "s")
    if result.difference is None:
        out.print(f"{result.rows} {unit}, equal (DuckDB {result.seconds:.1f} s)", highlight=False)
        if result.remark:
            out.print(result.remark, highlight=False, soft_wrap=True)
        return
    difference = result.difference
    out.print(f"{result.rows} {unit}, different: {difference.summary}", highlight=False)
    show_table(("column", "expected", "found"), compare_columns(difference, result.precision))
    if result.remark:
        out.print(f"\n{result.remark}", highlight=False, soft_wrap=True)
    if difference.total:
        shown = len(difference.source.rows)
        out.print(
            f"\nof {difference.total} row{'' if difference.total == 1 else 's'} of the source"
            + (f", the first {shown}:" if shown < difference.total else ":")
        )
        show_table(difference.source.names, format_source_rows(difference.source, result.precision))


def compare_columns(difference: Difference, precision: Precision) -> list[tuple[str, str, str]]:
    """Return (name, expected, found) for the leading columns and for those that differ."""
    rows = []
    for index, name in enumerate(difference.names):
        if index < LEADING_COLUMNS or name in difference.columns:
            sides = (None if row is None else row[index] for row in (difference.expected, difference.actual))
            expected, actual = (to_datetime(value, precision) if index in difference.instants else value for value in sides)
            rows.append((name, format_exact(expected, difference.expected), format_exact(actual, difference.actual)))
    return rows


def format_exact(value: Any, row: Sequence[Any] | None) -> str:
    """Format a value with all its digits, since only the last may differ; return an empty string if there is no row."""
    if row is None:
        return ""
    if isinstance(value, list | tuple):
        return " to ".join(format_exact(bound, row) for bound in value)
    return repr(value) if isinstance(value, float) else format_value(value)


def format_source_rows(sample: Sample, precision: Precision) -> list[list[Any]]:
    """Return the rows of a sample with their ticks converted to instants."""
    return [
        [to_datetime(value, precision) if index in sample.instants else value for index, value in enumerate(row)]
        for row in sample.rows
    ]


def to_datetime(ticks: Any, precision: Precision) -> Any:
    """Convert ticks to an instant in UTC; leave other values, and ticks finer than a microsecond, unchanged."""
    if not isinstance(ticks, int) or precision.nanoseconds < 1000:
        return ticks
    return datetime.fromtimestamp(ticks // precision.ticks_per_second, UTC).replace(
        microsecond=ticks % precision.ticks_per_second * precision.nanoseconds // 1000
    )
