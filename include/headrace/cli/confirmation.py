"""Questions before a statement that computes the results of a stream again."""

from __future__ import annotations

import sys

from headrace.cli.output import show_lines
from headrace.errors import ProgrammingError
from headrace.model.statements import CreateStream
from headrace.service.session import Session, with_statement
from headrace.sql import parse


def confirm_replacement(session: Session, text: str, *, yes: bool) -> bool:
    """Show what CREATE OR REPLACE STREAM would compute again, and ask at a terminal; return False if the user declines.

    Args:
        session: The session of the statement.
        text: A statement of any kind. Others are not asked about.
        yes: Whether the user has agreed beforehand.

    Raises:
        ProgrammingError: There is no terminal to ask at.
    """
    statement = parse(text, session.dialect)
    if not isinstance(statement, CreateStream) or not statement.or_replace:
        return True
    with with_statement(text):
        stages = session.stages(text)
    if not any(stage.needs_confirmation for stage in stages):
        return True
    show_lines(session.explain(stages))
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ProgrammingError(f"replacing stream {statement.name} needs a confirmation", hint="add --yes", sql=text)
    return input("Replace the stream? [y/N]: ").strip().lower() in ("y", "yes")
