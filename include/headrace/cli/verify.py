"""`headrace verify`: an answer beside that of another engine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.console import as_table, cell, out, show_lines
from headrace.cli.options import DatabaseName, Explained, Home, example, open_connection
from headrace.errors import ProgrammingError

if TYPE_CHECKING:
    from headrace.model.time import Precision
    from headrace.service.session import Session
    from headrace.service.stages import Stage
    from headrace.verify import Difference, Sample, VerificationResult

SHOWN_ALWAYS = 3
"""Columns of the select list that are shown of a difference, wherever it is."""


def register(app: typer.Typer) -> None:
    """Adds the command to an application."""
    app.command(epilog=example("headrace verify --stream cold.hourly"))(verify)


def verify(
    query: Annotated[str | None, typer.Argument(help="A SELECT.")] = None,
    stream: Annotated[str | None, typer.Option("--stream", help="database.stream: compare its target instead.")] = None,
    only_explain: Explained = False,
    home: Home = None,
    database: DatabaseName = None,
) -> None:
    """Recompute a query, or what a stream has written, with DuckDB, and show the first difference; code 1 where there is one."""
    if (query is None) == (stream is None):
        raise ProgrammingError("there is nothing to verify, or too much", hint="give a SELECT, or --stream database.stream")
    with open_connection(home, database) as connection:
        session = connection.session
        if only_explain:
            show_lines(session.explain(planned(session, query, stream or "")))
            return
        verdict = session.verify(query) if query is not None else session.verify_stream(stream or "")
    show(verdict)
    raise typer.Exit(0 if verdict.equal else 1)


def planned(session: Session, query: str | None, stream: str) -> list[Stage]:
    """The stages of a verification."""
    from headrace.service.planning import jobs

    if query is None:
        return jobs.plan_stream_verification(session.state, stream)
    return jobs.plan_query_verification(session.state, query, session.dialect)


def show(verdict: VerificationResult) -> None:
    """A verdict in a line, or its first difference with the rows of the source."""
    what = ("window" if verdict.windows else "row") + ("" if verdict.rows == 1 else "s")
    if verdict.difference is None:
        out.print(f"{verdict.rows} {what}, equal (DuckDB {verdict.seconds:.1f} s)", highlight=False)
        return
    difference = verdict.difference
    out.print(f"{verdict.rows} {what}, different: {summary(difference)}", highlight=False)
    out.print(as_table(("column", "expected", "found"), compared(difference, verdict.precision)))
    if verdict.remark:
        out.print(f"\n{verdict.remark}", highlight=False, soft_wrap=True)
    if difference.total:
        shown = len(difference.source.rows)
        out.print(
            f"\nof {difference.total} row{'' if difference.total == 1 else 's'} of the source"
            + (f", the first {shown}:" if shown < difference.total else ":")
        )
        out.print(as_table(difference.source.names, source_rows(difference.source, verdict.precision)))


def summary(difference: Difference) -> str:
    if difference.found is None:
        return "one is missing"
    if difference.expected is None:
        return "one is too much"
    return ", ".join(difference.columns)


def compared(difference: Difference, precision: Precision) -> list[tuple[str, str, str]]:
    """The first columns and those that differ: name, expected, found."""
    rows = []
    for place, name in enumerate(difference.names):
        if place < SHOWN_ALWAYS or name in difference.columns:
            sides = (None if row is None else row[place] for row in (difference.expected, difference.found))
            expected, found = (as_instant(value, precision) if place in difference.instants else value for value in sides)
            rows.append((name, full(expected, difference.expected), full(found, difference.found)))
    return rows


def full(value: Any, row: Sequence[Any] | None) -> str:
    """A value with all its digits, since the last ones may be what differs; nothing where there is no row."""
    if row is None:
        return ""
    if isinstance(value, list | tuple):
        return " to ".join(full(each, row) for each in value)
    return repr(value) if isinstance(value, float) else cell(value)


def source_rows(sample: Sample, precision: Precision) -> list[list[Any]]:
    return [
        [as_instant(value, precision) if place in sample.instants else value for place, value in enumerate(row)]
        for row in sample.rows
    ]


def as_instant(ticks: Any, precision: Precision) -> Any:
    """Ticks as an instant; those finer than microseconds stay as they are."""
    if not isinstance(ticks, int) or precision.nanoseconds < 1000:
        return ticks
    return datetime.fromtimestamp(ticks // precision.ticks_per_second, UTC).replace(
        microsecond=ticks % precision.ticks_per_second * precision.nanoseconds // 1000
    )
