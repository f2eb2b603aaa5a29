"""`headrace plan` and `headrace apply`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.console import out
from headrace.cli.files import locate_error_in_file
from headrace.cli.options import DialectName, Home, open_connection
from headrace.cli.project.changes import Action, Change, plan_changes
from headrace.cli.project.definitions import Definition, read_definitions
from headrace.errors import Error, ProgrammingError

if TYPE_CHECKING:
    from headrace.service.session import Session

Project = Annotated[Path, typer.Argument(exists=True, help="A .sql file, or a folder of such files.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write the changes as JSON.")]
STYLES = {Action.CREATE: "green", Action.REPLACE: "yellow", Action.DIFFER: "red", Action.EXTRA: "red"}
EFFECTIVE = (Action.CREATE, Action.REPLACE)


def plan(
    path: Project,
    check: Annotated[bool, typer.Option("--check", help="End with code 1 if something would change, as in CI.")] = False,
    as_json: AsJson = False,
    home: Home = None,
    dialect: DialectName = None,
) -> None:
    """Compare definitions with the catalog: what `apply` would create, replace and compute. Changes nothing."""
    with open_sessions(path, home, dialect) as (sessions, definitions):
        changes = plan_changes(sessions, definitions)
    show(changes, as_json=as_json)
    if check and any(change.action is not Action.KEEP for change in changes):
        raise typer.Exit(1)


def apply(
    path: Project,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Also drop jobs that no file defines.")] = False,
    as_json: AsJson = False,
    home: Home = None,
    dialect: DialectName = None,
) -> None:
    """Create and replace what differs from the definitions. Asks after it has shown the changes; a second run has nothing to do."""
    with open_sessions(path, home, dialect) as (sessions, definitions):
        changes = plan_changes(sessions, definitions)
        show(changes, as_json=as_json)
        wanted = [change for change in changes if change.action in EFFECTIVE or (prune and change.action is Action.EXTRA)]
        if wanted and confirmed(len(wanted), yes=yes):
            run(sessions, wanted)


@contextmanager
def open_sessions(path: Path, home: Path | None, dialect: str | None) -> Iterator[tuple[dict[str, Session], list[Definition]]]:
    """Yield a session for each dialect of the definitions, and these."""
    from headrace.settings import load

    definitions = read_definitions(path, (dialect or load(home=home).dialect).lower())
    with ExitStack() as stack:
        names = dict.fromkeys(definition.dialect for definition in definitions)
        sessions = {name: stack.enter_context(open_connection(home, None, name)).session for name in names}
        yield sessions, definitions


def show(changes: Sequence[Change], *, as_json: bool) -> None:
    """Print what differs, and how many objects do not."""
    if as_json:
        sys.stdout.write(json.dumps([to_json(change) for change in changes], indent=2) + "\n")
        return
    for change in changes:
        if change.action is not Action.KEEP:
            out.print(change.title, style=STYLES[change.action], highlight=False, markup=False, soft_wrap=True)
            for line in change.details:
                out.print(f"    {line}", highlight=False, markup=False, soft_wrap=True)
    counts = Counter(change.action for change in changes)
    out.print(
        f"{counts[Action.CREATE]} to create, {counts[Action.REPLACE]} to replace, {counts[Action.KEEP]} unchanged"
        + (f", {counts[Action.DIFFER]} to alter by hand" if counts[Action.DIFFER] else "")
        + (f", {counts[Action.EXTRA]} in no file (`apply --prune` drops them)" if counts[Action.EXTRA] else ""),
        highlight=False,
    )


def to_json(change: Change) -> dict[str, object]:
    place = {} if change.definition is None else {"place": change.definition.place}
    return {
        "action": change.action.name.lower(),
        "kind": change.kind,
        "name": change.name,
        "details": list(change.details),
        **place,
    }


def confirmed(count: int, *, yes: bool) -> bool:
    """Ask whether to apply; raise `ProgrammingError` if there is no terminal to ask at."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ProgrammingError("applying definitions needs a confirmation", hint="add --yes")
    return input(f"Apply {count} changes? [y/N]: ").strip().lower() in ("y", "yes")


def run(sessions: dict[str, Session], changes: Sequence[Change]) -> None:
    """Run the statements of changes in order, and stop at the first error."""
    for number, change in enumerate(changes):
        try:
            run_change(sessions, change)
        except Error:
            out.print(f"applied {number} of {len(changes)} changes; correct the rest and apply again", highlight=False)
            raise
        out.print(f"{change.action.name.lower()}d {change.kind} {change.name}", highlight=False)


def run_change(sessions: dict[str, Session], change: Change) -> None:
    definition = change.definition
    for dialect, sql in change.statements:
        session = sessions[dialect]
        if definition is None:
            session.execute(sql)
            continue
        session.database = definition.database
        with locate_error_in_file(definition.text, definition.span, str(definition.file)):
            session.execute(sql)
