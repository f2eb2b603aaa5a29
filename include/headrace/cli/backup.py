"""`headrace backup`, `headrace restore` and `headrace repair`."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.console import out, progress_bar
from headrace.cli.options import Home, open_connection


def backup(
    folder: Annotated[str, typer.Argument(help="Folder or s3:// URI; a further backup into it copies only what is new.")],
    home: Home = None,
) -> None:
    """Copy catalog, tables, states of streams, stored code and the key of secrets. The system must have been stopped."""
    from headrace.runtime.backup import back_up

    with open_connection(home) as connection, progress_bar("copying bytes") as progress:
        done = back_up(connection.session.context, folder, progress)
    out.print(
        f"backed up {done.databases} databases and {done.jobs} jobs: {done.files} files, {done.bytes:,} bytes", highlight=False
    )


def restore(
    folder: Annotated[str, typer.Argument(help="Folder or s3:// URI of a backup.")],
    home: Home = None,
) -> None:
    """Copy a backup into an unused home, catalog and warehouse. `headrace up` then continues from there."""
    from headrace.runtime.backup import restore as restore_backup

    with open_connection(home) as connection, progress_bar("copying bytes") as progress:
        done = restore_backup(connection.session.context, folder, progress)
    out.print(f"restored {done.databases} databases and {done.jobs} jobs of Headrace {done.version}", highlight=False)


def repair(home: Home = None) -> None:
    """Replace log entries of tables that a power failure has cut by commits of nothing. The system must have been stopped."""
    from headrace.runtime.backup import require_no_snode
    from headrace.storage.delta.repair import repair_tables

    with open_connection(home) as connection:
        context = connection.session.context
        require_no_snode(context)
        done = list(repair_tables(context.settings.tables_uri))
    for line in [*done, f"{len(done)} damaged files"]:
        out.print(line, highlight=False)
