"""CREATE FUNCTION and DROP FUNCTION: functions of IoTDB's library under names of the user's."""

from __future__ import annotations

from headrace.catalog.functions import function_exists, missing_function
from headrace.errors import NotSupportedError, ProgrammingError
from headrace.model.functions import RegisteredFunction
from headrace.model.tree_statements import CreateFunction, DropFunction
from headrace.model.tree_status import TreeStatus
from headrace.service.rights import Action, on_catalog
from headrace.service.stage import PlanningContext, Stage


def plan_create_function(statement: CreateFunction, session: PlanningContext) -> list[Stage]:
    """Plan CREATE FUNCTION. A URI is ignored, since no code is loaded from it."""
    from headrace.compute.iotdb.library import LIBRARY
    from headrace.compute.language import language

    name = statement.name.upper()
    if statement.class_name not in LIBRARY:
        package = next(iter(LIBRARY)).rpartition(".")[0]
        names = ", ".join(class_name.rpartition(".")[2] for class_name in LIBRARY)
        raise NotSupportedError(
            f"Failed to load class '{statement.class_name}', because it's not found in jar file or is invalid: "
            "user-defined functions are not supported",
            hint=f"use the built-in functions, or {names} of {package}",
            span=statement.span,
        ).with_status(TreeStatus.UDF_LOAD_CLASS_ERROR)
    if name.lower() in language("iotdb").functions or is_registered(name, session):
        raise function_exists(name)
    function = RegisteredFunction(name, statement.class_name)
    return [
        Stage(
            on_catalog(Action.CREATE),
            lambda: [f"create function {name} of {function.class_name}"],
            lambda session: session.context.catalog.functions.create(function),
        )
    ]


def plan_drop_function(statement: DropFunction, session: PlanningContext) -> list[Stage]:
    from headrace.compute.language import language

    name = statement.name.upper()
    if is_registered(name, session):
        drop = Stage(
            on_catalog(Action.DROP),
            lambda: [f"drop function {name}"],
            lambda session: session.context.catalog.functions.drop(name),
        )
        return [drop]
    functions = language("iotdb")
    if name.lower() in functions.functions and functions.aggregate(name.lower()) is None:
        raise ProgrammingError(
            f"Built-in function {name} can not be deregistered.", hint="drop functions that you have created"
        ).with_status(TreeStatus.EXECUTE_STATEMENT_ERROR)
    raise missing_function(name)


def is_registered(name: str, session: PlanningContext) -> bool:
    return any(function.name == name for function in session.context.catalog.functions.all())
