"""Functions that users have registered, as rows of a system table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.context import Context
from headrace.errors import Error
from headrace.model.access import Privilege
from headrace.model.functions import Artifact, RegisteredFunction
from headrace.service.results import INSTANT, INT, STRING, CatalogRows, ColumnOf, read_columns

LANGUAGE: Final = "Python"
FUNCTION_COLUMNS: Final[dict[str, ColumnOf[RegisteredFunction]]] = {
    "name": (STRING, lambda function: function.name),
    "comment": (STRING, lambda function: function.comment),
    "aggregate": (INT, lambda function: int(function.is_aggregate)),
    "output_type": (STRING, lambda function: function.output_type),
    "create_time": (INSTANT, lambda function: function.created),
    "code_len": (INT, lambda function: None if function.artifact is None else function.artifact.size),
    "bufsize": (INT, lambda function: function.buffer_size),
    "func_language": (STRING, lambda _: LANGUAGE),
}


def functions(context: Context) -> CatalogRows:
    """Return a row for each function of the TDengine language, with its code."""
    columns: dict[str, ColumnOf[RegisteredFunction]] = {
        **FUNCTION_COLUMNS,
        "func_body": (STRING, lambda function: code_of(function.artifact, context)),
        "func_version": (INT, lambda function: function.version),
    }
    return read_columns(columns, visible_functions(context))


def visible_functions(context: Context) -> Sequence[RegisteredFunction]:
    """Return the functions of the TDengine language; none for who may not create any, as their code may say what it is for."""
    return context.catalog.functions.all("tdengine") if context.permissions().allows(Privilege.USE_UDF) else ()


def code_of(artifact: Artifact | None, context: Context) -> str | None:
    """Return the code of a function; None if it cannot be read."""
    from headrace.code.artifacts import ArtifactStore

    if artifact is None:
        return None
    try:
        return ArtifactStore.of(context.settings).local_path(artifact).read_text(errors="replace")
    except (Error, OSError):
        return None
