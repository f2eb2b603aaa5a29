"""Writing of expressions, by the operator tables that the parser of the dialect uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import ClassVar

from headrace.errors import InternalError
from headrace.model.expressions import Call, Case, Cast, ColumnRef, DurationLiteral, Expression, Literal, Scalar, Star
from headrace.model.time import NANOSECONDS
from headrace.sql.lexical_rules import LexicalRules
from headrace.sql.operators import FUNCTION_POWER, NOT, OR, PREDICATE, SIGN, Operator


class ExpressionRenderer:
    """Writes expressions with only the parentheses they need."""

    LEXICAL_RULES: ClassVar[LexicalRules]
    BINARY: ClassVar[Mapping[str, Operator]]
    PREDICATES: ClassVar[Mapping[str, str]]
    NEGATED: ClassVar[Mapping[str, str]]

    def __init__(self) -> None:
        self._binary = {operator.function: (sign, operator.power) for sign, operator in self.BINARY.items()}
        self._predicates: dict[str, str] = {}
        for sign, function in (*self.PREDICATES.items(), *((f"NOT {word}", function) for word, function in self.NEGATED.items())):
            self._predicates.setdefault(function, sign)  # the first spelling wins

    def sql(self, node: Expression, power: int = OR) -> str:
        """Write an expression as an operand of an operator with precedence `power`."""
        text, own_power = self._text_and_power(node)
        return text if own_power >= power else f"({text})"

    def _text_and_power(self, node: Expression) -> tuple[str, int]:
        match node:
            case Literal(value=value):
                return self.scalar_sql(value), SIGN if _is_negative(value) else FUNCTION_POWER
            case DurationLiteral(value=duration):
                return str(duration), FUNCTION_POWER
            case ColumnRef(name=name, table=table):
                return self._member_sql(table, self.LEXICAL_RULES.name_sql(name)), FUNCTION_POWER
            case Star(table=table):
                return self._member_sql(table, "*"), FUNCTION_POWER
            case Cast(operand=operand, type=type_):
                return f"CAST({self.sql(operand)} AS {type_})", FUNCTION_POWER
            case Case():
                return self._case_sql(node), FUNCTION_POWER
            case Call():
                return self._call_sql(node)
        raise InternalError(f"cannot write {node!r} as SQL")

    def _member_sql(self, table: str | None, member: str) -> str:
        return member if table is None else f"{self.LEXICAL_RULES.name_sql(table)}.{member}"

    def scalar_sql(self, value: Scalar) -> str:
        match value:
            case None:
                return "NULL"
            case bool():
                return "TRUE" if value else "FALSE"
            case str():
                return self.LEXICAL_RULES.quote(value)
            case bytes():
                return f"'\\x{value.hex()}'"
        return str(value)

    def _call_sql(self, call: Call) -> tuple[str, int]:
        function, arguments = call.function, call.arguments
        if function in self._binary:
            sign, power = self._binary[function]
            return f"{self.sql(arguments[0], power)} {sign} {self.sql(arguments[1], power + 1)}", power
        if function in self._predicates:
            left, right = (self.sql(argument, PREDICATE + 1) for argument in arguments)
            return f"{left} {self._predicates[function]} {right}", PREDICATE
        if function == "not":
            return f"NOT {self.sql(arguments[0], NOT)}", NOT
        if function == "unary-":
            return self._negation_sql(arguments[0]), SIGN
        if " " in function or function in ("in", "between"):
            return self._special_predicate_sql(call), PREDICATE
        return self._function_sql(call), FUNCTION_POWER

    def _negation_sql(self, argument: Expression) -> str:
        """Write a minus, separated from a following sign because `--` begins a comment."""
        operand = self.sql(argument, SIGN)
        if operand[0] == "-":
            return f"- {operand}"
        return f"-({operand})" if isinstance(argument, Literal) else f"-{operand}"

    def _special_predicate_sql(self, call: Call) -> str:
        operand, *rest = (self.sql(argument, PREDICATE + 1) for argument in call.arguments)
        words = call.function.upper()
        if words.endswith("NULL"):
            return f"{operand} {words}"
        if words.endswith("BETWEEN"):
            return f"{operand} {words} {rest[0]} AND {rest[1]}"
        return f"{operand} {words} ({', '.join(self.sql(choice) for choice in call.arguments[1:])})"

    def _function_sql(self, call: Call) -> str:
        inside = ", ".join(self.sql(argument) for argument in call.arguments)
        return f"{call.function}({'DISTINCT ' if call.distinct else ''}{inside})"

    def _case_sql(self, case: Case) -> str:
        parts = ["CASE"] if case.operand is None else [f"CASE {self.sql(case.operand)}"]
        parts += [f"WHEN {self.sql(condition)} THEN {self.sql(result)}" for condition, result in case.branches]
        parts += [] if case.default is None else [f"ELSE {self.sql(case.default)}"]
        return " ".join((*parts, "END"))


def parenthesize(parts: Iterable[str]) -> str:
    return f"({', '.join(parts)})"


def join_words(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def text_if(condition: object, text: str) -> str:
    return text if condition else ""


def _is_negative(value: Scalar) -> bool:
    return isinstance(value, (int, float, Decimal)) and str(value).startswith("-")


def shifted_sql(base: str, offset: int, unit_names: Mapping[str, str]) -> str:
    """An instant and an offset in nanoseconds, such as `now() - 1h`, with the longest unit that holds it whole."""
    if not offset:
        return base
    length = abs(offset)
    unit = max((unit for unit in NANOSECONDS if length % NANOSECONDS[unit] == 0), key=NANOSECONDS.__getitem__)
    return f"{base} {'-' if offset < 0 else '+'} {length // NANOSECONDS[unit]}{unit_names.get(unit, unit)}"
