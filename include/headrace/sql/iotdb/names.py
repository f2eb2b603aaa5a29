"""Names of result columns, as IoTDB prints them."""

from __future__ import annotations

import re
from typing import Final

from headrace.errors import InternalError
from headrace.model.expressions import Call, Case, Cast, ColumnRef, DurationLiteral, Expression, Literal, Star
from headrace.model.tree_types import TREE_TYPE_NAMES

PRIORITIES: Final = {
    **dict.fromkeys(("*", "/", "%"), 900),
    **dict.fromkeys(("+", "-"), 800),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), 600),
    **dict.fromkeys(("like", "not like", "match", "nmatch"), 500),
    **dict.fromkeys(("is null", "is not null"), 475),
    **dict.fromkeys(("between", "not between"), 450),
    **dict.fromkeys(("in", "not in"), 400),
    "and": 300,
    "or": 200,
    **dict.fromkeys(("unary-", "not"), 1000),
}
"""Precedence of operators, in IoTDB's numbers; anything else needs no parentheses."""

CASE_PRIORITY: Final = 1000
FUNCTION_PRIORITY: Final = 1100
SIGNS: Final = {"and": "&", "or": "|", "<>": "!="}
BINARY: Final = frozenset(("and", "or", "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"))
PREFIXES: Final = {"unary-": "-", "not": "!"}
WILDCARDS: Final = {"%": ".*?", "_": "."}


def function_key(name: str) -> str:
    """Return the name by which a function is looked up. It is never that of an operator, such as `match`."""
    key = name.lower()
    return f"{key}()" if key in PRIORITIES else key


def result_name(expression: Expression) -> str:
    """Return the name of an expression's result column.

    Replace paths by those of the series first, since they appear in the name as they are. Instants should be numbers of ticks, as
    IoTDB prints them; any other spelling is copied.
    """
    match expression:
        case Literal():
            return _constant_name(expression)
        case ColumnRef(name=name):
            return "Time" if name == "time" else name
        case Star():
            return "*"
        case DurationLiteral(value=duration):
            return str(duration)
        case Cast(operand=Literal(value=value), spelling=""):
            return str(value)
        case Cast(operand=operand, type=type_, spelling=spelling, function=function):
            return f"{function}({result_name(operand)} AS {spelling or TREE_TYPE_NAMES[type_.kind]})"
        case Case():
            return _case_name(expression)
        case Call():
            return _call_name(expression)
    raise InternalError(f"no name for {expression!r}")


def _priority(expression: Expression) -> int:
    match expression:
        case Call(function=function):
            return PRIORITIES.get(function, FUNCTION_PRIORITY)
        case Case():
            return CASE_PRIORITY
    return FUNCTION_PRIORITY


def _operand_name(expression: Expression, priority: int) -> str:
    name = result_name(expression)
    return f"({name})" if _priority(expression) < priority else name


def _constant_name(literal: Literal) -> str:
    match literal.value:
        case bool(value):
            return str(value).lower()
        case str(value):
            return literal.spelling or f'"{value}"'
        case bytes(value):
            return value.hex().upper()
        case None:
            return "null"
    return literal.spelling or str(literal.value)


def _call_name(call: Call) -> str:
    function, arguments = call.function, call.arguments
    if function in BINARY and len(arguments) == 2:
        left, right = (_operand_name(argument, PRIORITIES[function]) for argument in arguments)
        return f"{left} {SIGNS.get(function, function)} {right}"
    if function in PREFIXES:
        operand = _operand_name(arguments[0], FUNCTION_PRIORITY)
        return f"-({operand})" if function == "unary-" and operand.startswith("-") else PREFIXES[function] + operand
    if function in PRIORITIES:
        return _predicate_name(call)
    return _function_name(call)


def _predicate_name(call: Call) -> str:
    operand, *rest = call.arguments
    name = result_name(operand)
    match call.function:
        case "is null" | "is not null":
            return f"{name} {call.function.upper()}"
        case "between" | "not between":
            return f"{name} {call.function.upper()} {result_name(rest[0])} AND {result_name(rest[1])}"
        case "in" | "not in":
            choices = dict.fromkeys(_plain_name(choice) for choice in rest)
            return f"{_operand_name(operand, FUNCTION_PRIORITY)} {call.function.upper()} ({','.join(choices)})"
        case "like" | "not like":
            return f"{name} LIKE '{like_regex(unescape_like(_plain_name(rest[0])))}'"
    return f"{name} REGEXP '{_plain_name(rest[0])}'"


def _plain_name(expression: Expression) -> str:
    match expression:
        case Literal(value=str(value)):
            return value
        case Literal(value=value, spelling=spelling) if spelling:
            return spelling
    return result_name(expression)


def unescape_like(written: str) -> str:
    """Return a LIKE pattern as IoTDB reads it: of two backslashes it keeps one."""
    return written.replace("\\\\", "\\")


def like_regex(pattern: str) -> str:
    """Return the regular expression that IoTDB prints instead of a LIKE pattern."""
    parts = []
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        escaped = part if len(part) > 1 else re.sub(r"([.^$*+?()\[\]{}|])", r"\\\1", part)
        parts.append(WILDCARDS.get(part, escaped))
    return f"^{''.join(parts)}$"


def _function_name(call: Call) -> str:
    names = [result_name(argument) for argument in call.arguments]
    if call.function == "round" and call.attributes:
        return f"{call.spelling}({', '.join(names)},null)"
    match call.spelling or call.function:
        case "SUBSTRING FROM":
            return f"SUBSTRING({names[0]} FROM {' FOR '.join(names[1:])})"
        case "SUBSTRING" | "ROUND" as spelling:
            return f"{spelling}({','.join(names)})"
        case "REPLACE":
            before, after = (_plain_name(argument) for argument in call.arguments[1:])
            return f"REPLACE({names[0]}, '{before}', '{after}')"
    attributes = [f'"{key}"="{value}"' for key, value in call.attributes]
    return f"{call.spelling or call.function}({', '.join((*names, *attributes))})"


def _case_name(case: Case) -> str:
    branches = case.branches
    if case.operand is not None:
        branches = tuple((Call("=", (case.operand, value)), result) for value, result in branches)
    parts = ["CASE", *(f"WHEN {result_name(condition)} THEN {result_name(result)}" for condition, result in branches)]
    parts += [] if case.default is None else [f"ELSE {result_name(case.default)}"]
    return " ".join((*parts, "END"))
