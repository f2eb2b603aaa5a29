"""CREATE FUNCTION and DROP FUNCTION of the IoTDB language: classes of a user's code, and those of IoTDB's library."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.catalog.functions import function_exists, missing_function
from headrace.errors import InvalidCodeError, ProgrammingError, UserCodeError
from headrace.model.failpoints import failpoint
from headrace.model.functions import FunctionKind, RegisteredFunction, stored_name
from headrace.model.tree_statements import CreateFunction, DropFunction
from headrace.model.tree_status import TreeStatus
from headrace.service.rights import Action, Right, function_securable
from headrace.service.stage import PlanningContext, SessionState, Stage
from headrace.service.topics.code_location import CodeLocation, as_hint

if TYPE_CHECKING:
    from headrace.code.sources import CodeSource

DIALECT = "iotdb"
CODE = CodeLocation(
    "udf",
    "UDF '{NAME}'",
    invalid_uri=TreeStatus.UDF_DOWNLOAD_ERROR,
    unreadable=TreeStatus.TRIGGER_DOWNLOAD_ERROR,  # IoTDB answers with the status of triggers
    invalid_class=TreeStatus.UDF_LOAD_CLASS_ERROR,
)


def plan_create_function(statement: CreateFunction, session: PlanningContext) -> list[Stage]:
    """Plan CREATE FUNCTION. The class is loaded once the user's rights have been checked."""
    from headrace.compute.language import language

    name = stored_name(DIALECT, statement.name)
    library_kind = kind_in_library(statement.class_name)
    source = None if library_kind is not None else CODE.find(statement, session.context.egress)
    if name.lower() in language(DIALECT).functions or session.context.catalog.functions.find(DIALECT, name) is not None:
        raise function_exists(DIALECT, name)
    if source is None:
        library_function = partial(describe_library_function, name, statement.class_name, library_kind or FunctionKind.UDTF)
        return [create_function(name, f"{statement.class_name} of the function library", library_function)]
    description = f"{statement.class_name} in {source.location}, loaded once in a code host"
    return [create_function(name, description, partial(load_function, statement, source))]


def plan_drop_function(statement: DropFunction, session: PlanningContext) -> list[Stage]:
    """Plan DROP FUNCTION."""
    from headrace.compute.language import language

    name = stored_name(DIALECT, statement.name)
    if (function := session.context.catalog.functions.find(DIALECT, name)) is not None:
        return [drop_function(function)]
    functions = language(DIALECT)
    if name.lower() in functions.functions and functions.aggregate(name.lower()) is None:
        raise ProgrammingError(
            f"Built-in function {name} can not be deregistered.", hint="drop functions that you have created"
        ).with_status(TreeStatus.EXECUTE_STATEMENT_ERROR)
    raise missing_function(DIALECT, name)


def create_function(
    name: str, description: str, load: Callable[[SessionState], RegisteredFunction], replaced: RegisteredFunction | None = None
) -> Stage:
    """Register what `load` returns, in place of another function if there is one. Nothing is registered if it fails."""

    def apply(session: SessionState) -> None:
        from headrace.code.registration import collect_artifacts, keep_for_now

        catalog, settings = session.context.catalog, session.context.settings
        function = load(session)
        if replaced is not None:
            keep_for_now(replaced.artifact, settings)
        catalog.functions.create(function, or_replace=replaced is not None)
        failpoint("functions.recorded")
        if replaced is not None:
            collect_artifacts(catalog, settings)

    verbs = (Action.CREATE,) if replaced is None else (Action.ALTER, Action.CREATE)
    lines = [f"{'create' if replaced is None else 'replace'} function {name}: {description}"]
    return Stage(tuple(Right(verb, function_securable(name)) for verb in verbs), lambda: lines, apply)


def drop_function(function: RegisteredFunction) -> Stage:
    """Remove a function that no job calls. Its code stays for another day, since queries may be running it."""

    def apply(session: SessionState) -> None:
        from headrace.code.registration import collect_artifacts, keep_for_now

        catalog, settings = session.context.catalog, session.context.settings
        keep_for_now(function.artifact, settings)
        catalog.functions.drop(function.dialect, function.name)
        failpoint("functions.dropped")
        if function.artifact is not None:
            collect_artifacts(catalog, settings)

    rights = (Right(Action.DROP, function_securable(function.name)),)
    return Stage(rights, lambda: [f"drop function {function.name}"], apply)


def describe_library_function(name: str, class_name: str, kind: FunctionKind, session: SessionState) -> RegisteredFunction:
    """Return what is to be registered for a class of the function library."""
    return RegisteredFunction(name, class_name, kind=kind, owner=session.record_owner(), created=session.context.clock.now())


def load_function(statement: CreateFunction, source: CodeSource, session: SessionState) -> RegisteredFunction:
    """Store the code of a function, load its class in a code host, and return what is to be registered."""
    from headrace.code.registration import describe_class, store_code

    catalog, settings = session.context.catalog, session.context.settings
    content = CODE.read(statement, source)
    artifact = store_code(source.name, content, catalog, settings)
    try:
        description = describe_class(artifact, statement.class_name, session.user, statement.name, settings)
    except (InvalidCodeError, UserCodeError) as error:
        raise CODE.load_error(statement, as_hint(error)) from error
    if description.kind not in ("UDTF", "UDAF"):
        use = "CREATE TRIGGER" if description.kind == "TRIGGER" else "CREATE PIPEPLUGIN"
        raise CODE.load_error(statement, f"the class is a {description.kind.lower()}: use {use}")
    return RegisteredFunction(
        stored_name(DIALECT, statement.name),
        statement.class_name,
        kind=FunctionKind(description.kind),
        artifact=artifact,
        vectorized=description.vectorized,
        owner=session.record_owner(),
        created=session.context.clock.now(),
    )


def kind_in_library(class_name: str) -> FunctionKind | None:
    """Return what a class of Headrace's own library is, by IoTDB's name or its path in Python; None for any other class."""
    from headrace.compute.iotdb.library import TEXT_FUNCTIONS
    from headrace.library import find_class
    from headrace.udf import UDAF

    if class_name in TEXT_FUNCTIONS:
        return FunctionKind.UDTF
    class_ = find_class(class_name)
    if class_ is None:
        return None
    return FunctionKind.UDAF if issubclass(class_, UDAF) else FunctionKind.UDTF
