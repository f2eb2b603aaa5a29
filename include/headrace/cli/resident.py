"""`headrace snode` and `headrace maintain`: what Airflow, cron or another service manager runs."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from headrace.cli.options import Home, open_connection
from headrace.cli.output import show_lines, show_table


def snode(
    name: Annotated[str | None, typer.Option("--name", help="Name of the snode. Default: the setting HEADRACE_SNODE.")] = None,
    wait: Annotated[
        float | None, typer.Option("--wait", min=0, help="Seconds to wait while another driver holds the lease. Default: no limit.")
    ] = None,
    no_fill: Annotated[bool, typer.Option("--no-fill", help="Leave the histories of large sources to Airflow.")] = False,
    home: Home = None,
) -> None:
    """Run an snode in this process until it is interrupted, where Airflow does not start it."""
    if home is not None:
        os.environ["HEADRACE_HOME"] = str(home)
    from headrace.doors import create_service
    from headrace.runtime import entry_points

    entry_points.snode(name, create_service, fill_histories=not no_fill, wait_s=wait)


def maintain(
    database: Annotated[str | None, typer.Option("--database", "-d", help="Only the tables of this database.")] = None,
    retention_hours: Annotated[
        int | None, typer.Option("--retention-hours", min=0, help="Keep versions of this many hours, whatever the setting says.")
    ] = None,
    home: Home = None,
) -> None:
    """Drop what has outlived its TTL, compact small files of tables, and remove files that are no longer needed."""
    from headrace.runtime import table_maintenance
    from headrace.runtime.table_removal import drop_expired
    from headrace.trees.expiry import remove_expired

    with open_connection(home) as connection:
        context = connection.session.context
        removed = remove_expired(context, database)
        show_lines(f"removed {rows} rows of {name}, which have outlived their time to live" for name, rows in removed.items())
        show_lines(f"dropped {dropped}, whose TTL has passed" for dropped in drop_expired(context, database))
        done = table_maintenance.maintain(context, database, retention_hours=retention_hours)
    rows = [(result.table, result.compacted, result.removed, result.kept) for result in done]
    show_table(("table", "files compacted", "files removed", "kept"), rows)
