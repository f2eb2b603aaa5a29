"""Errors of Spark's jobs, by its report of them: among them what code of ours, or of a user, has raised in a Python worker."""

from __future__ import annotations

import builtins
import re
from typing import Final

from headrace import errors
from headrace.errors import Error, InternalError, OperationalError
from headrace.storage.delta.handles import DATA_FILE, missing_file

TASK_ERROR: Final = re.compile(
    r"^headrace\.errors\.(?P<kind>\w+): \[\w+\] (?P<message>.*)(?:\n *hint: (?P<hint>.*))?", re.MULTILINE
)
"""An error of ours in the traceback of a Python worker."""
LAST_LINE: Final = re.compile(r"^(?:\w+\.)*(?P<kind>\w+)(?::.*)?$")
CAUSE: Final = re.compile(r"^Caused by: (?:[\w$]+\.)*(?P<kind>[\w$]+)(?:: (?P<message>.*))?$", re.MULTILINE)
"""A cause in a stack trace of Java. The last one is what happened first."""
MISSING: Final = re.compile(r"FileNotFoundException|NoSuchFileException|NoSuchKey|FILE_NOT_EXIST")
PASSING: Final = (OSError, MemoryError)
"""What the machine of a worker may be the cause of."""


def error_of_task(text: str) -> Error | None:
    """Return the error of ours that a Python worker has raised, by Spark's report of it; None if there is none."""
    match = TASK_ERROR.search(text)
    if match is None:
        return None
    kind: type[Error] = getattr(errors, match["kind"], OperationalError)
    return kind(match["message"], hint=match["hint"] or "")


def has_raised(text: str, kind: type[Exception]) -> bool:
    """Return whether a Python worker has raised an exception of a kind, by Spark's report of it, which has the traceback."""
    return re.search(rf"^{re.escape(f'{kind.__module__}.{kind.__qualname__}')}(?::|$)", text, re.MULTILINE) is not None


def error_of_worker(text: str) -> Error:
    """Return the error for an exception that Python code has raised in a worker, by Spark's report of it."""
    if (own := error_of_task(text)) is not None:
        return own
    lines = [line.strip() for line in text.strip().splitlines() if LAST_LINE.match(line)]
    last = lines[-1][:500] if lines else "an unknown exception"
    kind = getattr(builtins, last.partition(":")[0].rpartition(".")[2], None)
    if isinstance(kind, type) and issubclass(kind, PASSING):
        return OperationalError(f"a task of Spark failed: {last}", hint="wait for the next try")
    return InternalError(f"a task of Spark failed: {last}", hint="report this bug in Headrace")


def error_of_job(text: str) -> OperationalError:
    """Return the error for a job of Spark that has failed, by the message of its exception with the stack trace of Java."""
    if (missing := MISSING.search(text)) is not None and (file := DATA_FILE.search(text, missing.end())) is not None:
        return missing_file(file[0])
    causes = list(CAUSE.finditer(text))
    first = causes[-1]["message"] or causes[-1]["kind"] if causes else text.strip().partition("\n")[0]
    return OperationalError(f"Spark failed: {first[:500]}", hint="try again; the driver's log has more")
