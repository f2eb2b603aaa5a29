"""CREATE FUNCTION and DROP FUNCTION of the TDengine language: functions that a module of Python defines."""

from __future__ import annotations

from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from headrace.catalog.functions import function_exists, missing_function
from headrace.errors import Error, InvalidCodeError, LimitError
from headrace.model.functions import FunctionKind, RegisteredFunction, stored_name
from headrace.model.statements import CreateModuleFunction, DropModuleFunction
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.functions import create_function, drop_function

if TYPE_CHECKING:
    from headrace.code.sources import CodeSource
    from headrace.egress import EgressPolicy

DIALECT: Final = "tdengine"
FOLDER: Final = "udf"
MAX_NAME_CHARACTERS: Final = 64


def plan_create_module_function(statement: CreateModuleFunction, session: PlanningContext) -> list[Stage]:
    """Plan CREATE FUNCTION. The file is read once the user's rights have been checked."""
    from headrace.compute.language import language

    name = stored_name(DIALECT, statement.name)
    if len(name) > MAX_NAME_CHARACTERS:
        message = f"a function's name has at most {MAX_NAME_CHARACTERS} characters, {name} has {len(name)}"
        raise LimitError(message, hint="use a shorter name", span=statement.span)
    if name in language(DIALECT).functions:
        raise function_exists(DIALECT, name)
    existing = session.context.catalog.functions.find(DIALECT, name)
    if existing is not None and statement.if_not_exists:
        return []
    if existing is not None and not statement.or_replace:
        raise function_exists(DIALECT, name)
    source = locate_module(statement, session.context.egress)
    kind = "aggregate" if statement.is_aggregate else "function of rows"
    return [create_function(name, f"{kind} in {source.location}", partial(load_module, statement, source), existing)]


def plan_drop_module_function(statement: DropModuleFunction, session: PlanningContext) -> list[Stage]:
    """Plan DROP FUNCTION."""
    name = stored_name(DIALECT, statement.name)
    function = session.context.catalog.functions.find(DIALECT, name)
    if function is not None:
        return [drop_function(function)]
    if statement.if_exists:
        return []
    raise missing_function(DIALECT, name, [function.name for function in session.context.catalog.functions.all(DIALECT)])


def locate_module(statement: CreateModuleFunction, egress: EgressPolicy) -> CodeSource:
    """Return where the file of a function is: a path, which may be relative to the plugin folder, or a URI.

    Raises:
        Error: There is no such file, or it is not Python code, or not in a place from which code may be read.
    """
    from headrace.code.sources import locate_file, locate_uri

    try:
        is_uri = "://" in statement.path
        source = locate_uri(statement.path, FOLDER, egress) if is_uri else locate_file(statement.path, FOLDER, egress.settings)
    except Error as error:
        error.span = error.span or statement.span
        raise
    if not source.name.endswith(".py"):
        message = f"{source.name} is not a module of Python"
        raise InvalidCodeError(message, hint="name a file whose name ends with .py", span=statement.span)
    return source


def load_module(statement: CreateModuleFunction, source: CodeSource, session: SessionState) -> RegisteredFunction:
    """Store the module of a function, check it in a code host, and return what is to be registered."""
    from headrace.code.registration import check_functions, store_code

    kind = FunctionKind.UDAF if statement.is_aggregate else FunctionKind.SCALAR
    module, settings = PurePath(source.name).stem, session.context.settings
    try:
        artifact = store_code(source.name, source.read(), session.context.catalog, settings)
        check_functions(artifact, module, kind, session.user, statement.name, settings)
    except Error as error:
        error.span = error.span or statement.span
        raise
    return RegisteredFunction(
        stored_name(DIALECT, statement.name),
        module,
        dialect=DIALECT,
        kind=kind,
        artifact=artifact,
        owner=session.record_owner(),
        created=session.context.clock.now(),
        output_type=str(statement.output_type),
        buffer_size=statement.buffer_size,
    )
