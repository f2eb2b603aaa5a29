"""Where statements find the code of users, and what they answer if it is not there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import Error, InvalidCodeError, ProgrammingError
from headrace.model.pipe_plugin_statements import CreatePipePlugin
from headrace.model.tree_statements import CreateFunction, CreateTrigger
from headrace.model.tree_status import TreeStatus

if TYPE_CHECKING:
    from headrace.code.sources import CodeSource
    from headrace.egress import EgressPolicy

CreateStatement = CreateFunction | CreateTrigger | CreatePipePlugin


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """Where the code of one sort of classes is, and the errors of statements that name it.

    Attributes:
        folder: The plugin folder of such classes.
        executable: What IoTDB calls the code in a message, with places `{name}`, `{NAME}` and `{uri}` of the statement.
        invalid_uri: The status of an invalid URI.
        unreadable: The status of code that cannot be read.
        invalid_class: The status of a class that cannot be loaded.
    """

    folder: str
    executable: str
    invalid_uri: TreeStatus
    unreadable: TreeStatus
    invalid_class: TreeStatus

    def find(self, statement: CreateStatement, egress: EgressPolicy) -> CodeSource:
        """Return where the code of a class is; raise the error of the statement if it is nowhere, or may not be read."""
        from headrace.code.sources import check_uri, folder_name, locate_class, locate_uri

        settings = egress.settings
        if statement.uri is None:
            source = locate_class(statement.class_name, self.folder, settings)
            if source is None:
                hint = f"write 'module.Class', and put the module into {folder_name(self.folder, settings)}, or install it"
                raise self.load_error(statement, hint)
            return source
        try:
            check_uri(statement.uri)
        except Error as error:
            error.span = statement.span
            error.with_status(self.invalid_uri)
            raise
        try:
            return locate_uri(statement.uri, self.folder, egress)
        except Error as error:
            raise self.read_error(statement, error) from error

    def read(self, statement: CreateStatement, source: CodeSource) -> bytes:
        """Return the content of the code; raise the error of the statement if it cannot be read."""
        try:
            return source.read()
        except Error as error:
            raise self.read_error(statement, error) from error

    def read_error(self, statement: CreateStatement, cause: Error) -> Error:
        """Return the error for code that cannot be read."""
        if statement.uri is None:
            return self.load_error(statement, as_hint(cause))
        executable = self.executable.format(name=statement.name, NAME=statement.name.upper(), uri=statement.uri)
        message = f"Failed to get executable for {executable}, please check the URI."
        return ProgrammingError(message, hint=as_hint(cause), span=statement.span).with_status(self.unreadable)

    def load_error(self, statement: CreateStatement, hint: str) -> Error:
        """Return the error for a class that cannot be loaded."""
        place = f"it's not found in jar file or is invalid: {statement.uri or ''}"
        message = f"Failed to load class '{statement.class_name}', because {place}"
        return InvalidCodeError(message, hint=hint, span=statement.span).with_status(self.invalid_class)


def as_hint(error: Error) -> str:
    """Return an error in one line, for the hint of another one."""
    return "; ".join(filter(None, (error.message, error.hint)))
