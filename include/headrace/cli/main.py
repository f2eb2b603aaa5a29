"""The `headrace` command."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli import docs, system, verify
from headrace.cli.console import Format, bar, out, show_error, show_lines
from headrace.cli.options import DatabaseName, Explained, Home, example, open_connection
from headrace.errors import Error

GARBAGE_THRESHOLD: Final = 100_000

app = typer.Typer(
    name="headrace",
    help="Stream processing declared in SQL, run by Spark on Delta Lake, supervised by Airflow.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
Output = Annotated[Format, typer.Option("--format", "-f", help="How rows are shown.")]


@app.command(epilog=example('headrace sql -d cold "SELECT * FROM rooms LIMIT 5" --format csv'))
def sql(
    statement: Annotated[str | None, typer.Argument(help="One or more statements; else they are read from standard input.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-F", exists=True, dir_okay=False, help="Read statements from a file.")
    ] = None,
    home: Home = None,
    database: DatabaseName = None,
    form: Output = Format.TABLE,
) -> None:
    """Run SQL statements, separated by semicolons; stops at the first that fails. At a terminal without any: a shell."""
    from headrace.cli.script import run_script

    with open_connection(home, database) as connection:
        if statement is None and file is None and sys.stdin.isatty() and sys.stdout.isatty():
            from headrace.cli.shell import run_shell

            run_shell(connection, form)
        else:
            text = statement if statement is not None else file.read_text() if file else sys.stdin.read()
            run_script(connection, text, form, file)


@app.command(epilog=example('headrace explain -d cold "DROP TABLE a1"'))
def explain(
    statement: Annotated[str, typer.Argument(help="Any statement, CREATE STREAM too.")],
    home: Home = None,
    database: DatabaseName = None,
) -> None:
    """Show what a statement would do, without doing it."""
    with open_connection(home, database) as connection:
        show_lines(line for (line,) in connection.session.execute(f"EXPLAIN {statement}").tuples())


@app.command(epilog=example("headrace load rooms-2024.parquet --into cold.rooms"))
def load(
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="CSV, Parquet or NDJSON files, of one kind.")],
    into: Annotated[str, typer.Option("--into", help="database.table; a supertable, a plain table or a subtable.")],
    subtable: Annotated[str | None, typer.Option(help="Subtable of all rows, where the files have no column tbname.")] = None,
    only_explain: Explained = False,
    home: Home = None,
    database: DatabaseName = None,
) -> None:
    """Load files into a table; a bad row refuses all of them."""
    from headrace.service.planning.jobs import plan_load

    with open_connection(home, database) as connection:
        session = connection.session
        if only_explain:
            show_lines(session.explain(plan_load(session.state, files, into, subtable)))
            return
        with bar(f"loading into {into}") as progress:
            written = session.load(files, into, subtable=subtable, progress=progress)
    out.print(f"{written} rows in {into}")


@app.command(epilog=example("headrace backfill cold.hourly --from '2024-05-01' --to '2024-06-01'"))
def backfill(
    stream: Annotated[str, typer.Argument(help="database.stream")],
    start: Annotated[
        str | None, typer.Option("--from", help="First window start, as in '2024-05-01 00:00:00'; else the first row.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Windows that start before this; else up to those still open.")] = None,
    chunk_rows: Annotated[int | None, typer.Option(help="Rows of one chunk; else HEADRACE_CHUNK_ROWS.")] = None,
    only_explain: Explained = False,
    home: Home = None,
) -> None:
    """Compute a range of a stream's windows again from the stored rows."""
    from headrace.service.planning.jobs import plan_backfill

    with open_connection(home) as connection:
        session = connection.session
        if only_explain:
            show_lines(session.explain(plan_backfill(session.state, stream, start, end, rows=chunk_rows)))
            return
        with bar(f"backfilling {stream}") as progress:
            chunks = session.backfill(stream, start, end, rows=chunk_rows, progress=progress)
    out.print(f"{chunks} chunks computed")


@app.command(epilog=example("headrace config --home /data/headrace"))
def config(home: Home = None) -> None:
    """Print every setting, its value, and where the value came from."""
    from headrace.cli.console import as_table
    from headrace.settings import load as load_settings

    settings = load_settings() if home is None else load_settings(home=home)
    sources = settings.sources() | ({} if home is None else {"home": "--home"})
    shown = settings.shown()
    out.print(as_table(("setting", "value", "from"), [(name, shown[name], sources[name]) for name in shown]))


@app.command(epilog=example("headrace doctor"))
def doctor(home: Home = None) -> None:
    """Check what the machine must have: Java, Spark's jars, memory, a writable home, the catalog."""
    from headrace.cli.doctor import run_checks

    raise typer.Exit(run_checks(home))


@app.command(epilog=example("headrace setup"))
def setup() -> None:
    """Fetch Delta's jars and prepare Spark's quick start; nothing to do when that is done."""
    from headrace.cli.doctor import prepare

    prepare()


@app.command(epilog=example("headrace demo --exit"))
def demo(
    exit_: Annotated[
        bool, typer.Option("--exit", help="Stop the system afterwards and remove what the demonstration made.")
    ] = False,
    home: Home = None,
) -> None:
    """Bring the system up on real readings: history, live windows, a killed driver, recovery."""
    from headrace.cli.demo import perform

    raise typer.Exit(0 if perform(home, end=exit_) else 1)


@app.command(epilog=example("headrace settle"))
def settle(home: Home = None) -> None:
    """Wait until every stream has handled all that was written; runs the streams here where no snode does."""
    with open_connection(home) as connection:
        connection.settle()


system.register(app)
docs.register(app)
verify.register(app)


def main() -> None:
    """Entry point: errors of ours end with their text and code 1, never with a traceback."""
    # What a command imports stays: looking for garbage among it took a tenth of a short command's time.
    gc.set_threshold(GARBAGE_THRESHOLD)
    try:
        app()
    except Error as error:
        show_error(error)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
