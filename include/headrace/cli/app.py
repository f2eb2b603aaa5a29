"""The subcommands of `headrace`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

import headrace
from headrace.cli import (
    airflow_setup,
    backfill,
    backup,
    docs,
    logs,
    monitoring,
    project,
    resident,
    size,
    system,
    top,
    users,
    verify,
)
from headrace.cli.console import out, progress_bar
from headrace.cli.options import HOME_HELP, DatabaseName, DialectName, ExplainOnly, Home, format_example, open_connection
from headrace.cli.output import Format, show_lines, show_table
from headrace.cli.sql import SqlCommand, run_sql
from headrace.model.loads import LoadRequest

app = typer.Typer(
    name="headrace",
    help="Stream processing declared in SQL, run by Spark on Delta Lake, supervised by Airflow.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def show_version(is_asked: bool) -> None:
    if is_asked:
        show_lines([f"headrace {headrace.__version__}"])
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=show_version, help="Print the version.")] = False,
) -> None:
    """Stream processing declared in SQL, run by Spark on Delta Lake, supervised by Airflow."""


@app.command(epilog=format_example('headrace sql -d cold "SELECT * FROM rooms LIMIT 5" --format csv'))
def sql(
    statement: Annotated[str | None, typer.Argument(help="One or more statements. Default: read standard input.")] = None,
    file: Annotated[str | None, typer.Option("--file", "-f", help="Read statements from a file; - for standard input.")] = None,
    home: Annotated[str | None, typer.Option("--home", help=HOME_HELP)] = None,
    database: DatabaseName = None,
    dialect: DialectName = None,
    output_format: Annotated[Format, typer.Option("--format", help="Format of the rows.")] = Format.TABLE,
    separator: Annotated[
        str, typer.Option("--field-separator", "-F", help="Print rows as CSV with this character in place of the comma.")
    ] = "",
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", "-y", help="Replace streams (CREATE OR REPLACE STREAM), and drop rows and streams, without a question."
        ),
    ] = False,
) -> None:
    """Run SQL statements separated by semicolons, stopping at the first error. Without statements, a terminal gets a shell."""
    run_sql(SqlCommand(statement, file, separator, home, database, dialect, output_format, yes))


@app.command(epilog=format_example('headrace explain -d cold "DROP TABLE a1"'))
def explain(
    statement: Annotated[str, typer.Argument(help="Any statement, including CREATE STREAM.")],
    home: Home = None,
    database: DatabaseName = None,
    dialect: DialectName = None,
) -> None:
    """Show what a statement would do, without running it."""
    with open_connection(home, database, dialect) as connection:
        show_lines(line for (line,) in connection.session.execute(f"EXPLAIN {statement}").tuples())


@app.command(epilog=format_example("headrace load rooms-2024.parquet --into cold.rooms"))
def load(
    files: Annotated[
        list[Path], typer.Argument(exists=True, dir_okay=False, help="CSV, Parquet or NDJSON files, all of one format.")
    ],
    into: Annotated[
        str, typer.Option("--into", help="database.table: a supertable, plain table or subtable; or a tree, root.database.")
    ],
    subtable: Annotated[str | None, typer.Option(help="Subtable of all rows, if the files have no tbname column.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Device of all rows of a tree, if the files name none: root.database.device.")
    ] = None,
    aligned: Annotated[bool, typer.Option("--aligned", help="Create the missing devices of a tree as aligned.")] = False,
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", help="Columns of the files and those of the table that they are for: time=ts,pump=tbname,note="),
    ] = None,
    only_explain: ExplainOnly = False,
    home: Home = None,
    database: DatabaseName = None,
) -> None:
    """Load files into a table or a tree of devices; if a row is invalid, nothing is loaded."""
    request = LoadRequest(files, into, subtable, device, aligned, columns=parse_mapping(map_ or ()))
    with open_connection(home, database) as connection:
        if only_explain:
            from headrace.service.topics.loads import plan_load

            session = connection.session
            show_lines(session.explain(plan_load(session, request)))
            return
        with progress_bar(f"loading into {into}") as progress:
            result = connection.load_files(request, progress)
    out.print(f"{result.affected} rows in {into}{result.unwritten}")


def parse_mapping(options: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns that those of files are for, by their names; a name without one is left out."""
    columns: dict[str, list[str]] = {}
    for pair in ",".join(options).split(",") if options else ():
        name, equals, column = (part.strip() for part in pair.partition("="))
        if not (name and equals):
            raise typer.BadParameter(f"{pair!r} is no pair name=column", param_hint="--map")
        columns.setdefault(name, []).extend([column] if column else [])
    return columns


@app.command(epilog=format_example("headrace config --home /data/headrace"))
def config(home: Home = None) -> None:
    """Print every setting with its value and where the value comes from."""
    from headrace.settings import load as load_settings

    settings = load_settings(home=home)
    sources = settings.sources() | ({} if home is None else {"home": "--home"})
    displayed = settings.display_values()
    show_table(("setting", "value", "from"), [(name, displayed[name], sources[name]) for name in displayed])


@app.command(epilog=format_example("headrace doctor"))
def doctor(home: Home = None) -> None:
    """Check the prerequisites: Java, Spark's jars, memory, a writable home, the catalog, and how user code is confined."""
    from headrace.cli.doctor import run_checks

    raise typer.Exit(run_checks(home))


@app.command(epilog=format_example("headrace setup"))
def setup() -> None:
    """Fetch Delta's jars and prepare a fast start of Spark. Does nothing if both exist."""
    from headrace.cli.doctor import prepare_spark

    prepare_spark()


@app.command(epilog=format_example("headrace demo --exit"))
def demo(
    exit_: Annotated[
        bool, typer.Option("--exit", help="Stop the system afterwards and remove what the demonstration created.")
    ] = False,
    home: Home = None,
) -> None:
    """Run the system on real readings: history, live windows, a killed driver, recovery."""
    from headrace.cli.demo import run_demo

    raise typer.Exit(0 if run_demo(home, end=exit_) else 1)


@app.command(epilog=format_example("headrace settle"))
def settle(home: Home = None) -> None:
    """Wait until every stream has processed all commits. Runs the streams in this process if no snode does.

    Without an snode it also executes the continuous queries that are due.
    """
    with open_connection(home) as connection, system.show_progress() as console:
        connection.settle(console.step)


COMMANDS: Final[dict[Callable[..., None], str]] = {
    backfill.backfill: "headrace backfill --stream cold.hourly --from '2024-05-01' --to '2024-06-01'",
    system.up: "headrace up --port 8081",
    system.down: "headrace down",
    system.status: "headrace status",
    logs.logs: "headrace logs default --lines 200",
    resident.snode: "headrace snode --name snode2",
    resident.maintain: "headrace maintain --database cold --retention-hours 720",
    top.top: "headrace top --interval 1",
    size.size: "headrace size --devices 100000 --rate 1 --streams 300",
    project.new: "headrace new plant",
    project.plan: "headrace plan definitions",
    project.apply: "headrace apply definitions --yes",
    project.test: "headrace test tests -k averages",
    backup.backup: "headrace backup /mnt/backups/plant",
    backup.repair: "headrace repair",
    backup.restore: "headrace restore /mnt/backups/plant --home /data/headrace",
    monitoring.monitoring: "headrace monitoring --write monitoring",
    docs.docs: "headrace docs --write docs/reference",
    verify.verify: "headrace verify --stream cold.hourly",
}
"""Commands in other modules, each with an example."""

for command, example in COMMANDS.items():
    app.command(epilog=format_example(example))(command)

app.add_typer(airflow_setup.app)
app.add_typer(users.app)
