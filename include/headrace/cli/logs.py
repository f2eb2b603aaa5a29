"""`headrace logs`: what the components of the system have logged, and the tasks of snodes, streams and continuous queries."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli.options import Home
from headrace.cli.output import show_lines, show_table
from headrace.errors import NotFoundError
from headrace.jobs.registry import kinds
from headrace.runtime.dag_ids import job_dag_id, snode_dag_id

FOLLOW_SECONDS: Final = 0.5


def logs(
    name: Annotated[
        str,
        typer.Argument(
            help="A component, an snode, database.stream, a continuous query, or a log of the list. Default: list the logs."
        ),
    ] = "",
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Number of lines, the last ones.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", help="Print further lines as they are written.")] = False,
    home: Home = None,
) -> None:
    """Print the end of the log of a component of Airflow, or of the latest task of an snode, stream or continuous query."""
    from headrace.settings import load

    folder = load(home=home).home_path / "logs"
    if not name:
        logs = [(str(path.relative_to(folder)), path.stat().st_size) for path in sorted(folder.rglob("*.log"))]
        show_table(("log", "bytes"), logs)
        return
    path = find_log(folder, name)
    with path.open(errors="replace") as file:
        show_lines(map(readable, deque(file, lines)))
        while follow:
            show_lines(map(readable, file))
            time.sleep(FOLLOW_SECONDS)


def find_log(folder: Path, name: str) -> Path:
    """Return a log by its name in the list, that of a component, or the latest one of an snode, stream or continuous query.

    Raises:
        NotFoundError: Nothing of that name has logged anything.
    """
    if name in {str(path.relative_to(folder)) for path in folder.rglob("*.log")}:
        return folder / name
    component = folder / f"{name}.log"
    if component.parent == folder and component.exists():
        return component
    logs = [path for dag_id in dag_ids(name) for path in (folder / "airflow" / f"dag_id={dag_id}").rglob("*.log")]
    if not logs:
        raise NotFoundError(f"{name} has no log in {folder}", hint="`headrace logs` lists the logs, SHOW STREAMS the streams")
    return max(logs, key=lambda path: path.stat().st_mtime)


def dag_ids(name: str) -> Iterator[str]:
    """Yield the ids that the DAG of something of this name may have."""
    yield snode_dag_id(name)
    database, _, job = name.rpartition(".")
    for kind in kinds():
        yield job_dag_id(kind.name, database, job)
        yield job_dag_id(kind.name, "", name)


def readable(line: str) -> str:
    """Return a line of a log as text: those of Airflow's tasks are JSON."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line.rstrip("\n")
    if not isinstance(entry, dict) or "event" not in entry:
        return line.rstrip("\n")
    return " ".join(str(entry[name]) for name in ("timestamp", "level", "event") if name in entry)
