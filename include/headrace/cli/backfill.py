"""`headrace backfill`: recompute a range of a stream or of a continuous query in this process."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.console import out, progress_bar
from headrace.cli.options import ExplainOnly, Home, open_connection
from headrace.cli.output import show_lines
from headrace.errors import ProgrammingError


def backfill(
    stream: Annotated[str | None, typer.Option("--stream", help="database.stream: the stream to recompute.")] = None,
    query: Annotated[str | None, typer.Option("--cq", help="Name of a continuous query, in place of a stream.")] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Start of the first window, e.g. '2024-05-01 00:00:00'. Default: the first row, or the first range of a "
            "continuous query.",
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", help="Only windows that start before this. Default: all closed windows, or all ranges that are due."),
    ] = None,
    chunk_rows: Annotated[int | None, typer.Option(help="Rows per chunk of a stream. Default: HEADRACE_CHUNK_ROWS.")] = None,
    only_explain: ExplainOnly = False,
    home: Home = None,
) -> None:
    """Recompute a range of a stream's windows, or all ranges of a continuous query that overlap it, from the stored rows."""
    check_arguments(stream, query, chunk_rows)
    from headrace.service.topics.backfills import plan_backfill

    with open_connection(home) as connection:
        session = connection.session
        if only_explain:
            show_lines(session.explain(plan_backfill(session, stream, query, start, end, rows=chunk_rows)))
            return
        with progress_bar(f"backfilling {query or stream}") as progress:
            count = session.run(plan_backfill(session, stream, query, start, end, rows=chunk_rows, progress=progress)).affected
    unit = "chunk" if query is None else "interval"
    out.print(f"{count} {unit}{'' if count == 1 else 's'} computed")


def check_arguments(stream: str | None, query: str | None, chunk_rows: int | None) -> None:
    """Raise `ProgrammingError` unless exactly one job is named, with options that apply to it."""
    if (stream is None) == (query is None):
        raise ProgrammingError(
            "backfill takes either a stream or a continuous query", hint="pass --stream database.stream, or --cq NAME"
        )
    if query is not None and chunk_rows is not None:
        raise ProgrammingError(
            "--chunk-rows cannot be combined with --cq", hint="each range of a continuous query is computed alone"
        )
