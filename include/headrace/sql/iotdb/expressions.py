"""The expression parser of the IoTDB language: operators, instants, durations, and functions with attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from headrace.model.expressions import Call, Cast, ColumnRef, DurationLiteral, Expression, Literal
from headrace.model.paths import ROOT, join_path
from headrace.model.spans import Span
from headrace.model.time import Duration
from headrace.model.tree_queries import CompoundDuration
from headrace.model.tree_types import TREE_TYPES
from headrace.model.types import TIMESTAMP
from headrace.sql.iotdb.names import function_key, result_name
from headrace.sql.iotdb.paths import STARS, PathParser
from headrace.sql.iotdb.words import BINARY, DURATION, DURATION_PART, NEGATED, PREDICATES, UNITS, canonical_instant
from headrace.sql.operators import SIGN
from headrace.sql.tokens import Token, TokenType

DURATION_HINT: Final = "a duration is whole numbers with units, longest first, such as 1d12h: y, mo, w, d, h, m, s, ms, us, ns"
ATTRIBUTE_RULE: Final = "Attributes of functions should be quoted with '' or \"\""
CONSTANT_ARGUMENTS: Final = "Invalid function expression, all the arguments are constant operands: {}"
ARGUMENT_COUNT: Final = "Error size of input expressions. expression: {}, actual size: {}, expected size: [{}]."
ARGUMENTS: Final = {
    **dict.fromkeys(("count", "avg", "sum", "min_time", "max_time", "max_value", "min_value", "extreme", "first_value"), 1),
    **dict.fromkeys(("last_value", "time_duration", "mode", "stddev", "stddev_pop", "stddev_samp", "variance"), 1),
    **dict.fromkeys(("var_pop", "var_samp", "count_time", "diff"), 1),
    **dict.fromkeys(("count_if", "max_by", "min_by"), 2),
}
"""Number of arguments of the built-in aggregates and DIFF."""

SUBSTRING_RULE: Final = "Argument exception,the scalar function [SUBSTRING] needs at least one argument,it must be a signed integer"
INSTANT_RULE: Final = (
    "Input time format {} error. Input like yyyy-MM-dd HH:mm:ss, yyyy-MM-ddTHH:mm:ss or refer to user document for more info."
)
LABELS: Final = (",", ")", "", ";", ".", "=", "==", "<", ">", "<=", ">=", "!=", "<>", "/", "%")
"""Tokens that show that a keyword before them is a path; "" is the end of the text."""


class TreeExpressions(PathParser):
    """The operator tables for the shared parser, and IoTDB's operands: paths, instants and functions."""

    BINARY = BINARY
    PREDICATES = PREDICATES
    NEGATED = NEGATED
    LOOSE_NEGATION = False
    PREDICATES_CHAIN = True
    CONSTANTS: ClassVar[Mapping[str, bool | None]] = {"NULL": None, "TRUE": True, "FALSE": False}
    FORMS: ClassVar[Mapping[str, Callable[[Any], Expression]]] = {
        "CAST": lambda self: self._parse_cast(),
        "REPLACE": lambda self: self._parse_replace(),
        "ROUND": lambda self: self._parse_round(),
        "SUBSTRING": lambda self: self._parse_substring(),
    }

    # Operands

    def _parse_operand(self) -> Expression:
        token = self._token
        start = self._index
        match token.kind:
            case TokenType.NUMBER:
                return self._parse_column() if self._at_number_wildcard(in_expression=True) else self._parse_number()
            case TokenType.INSTANT:
                return self._parse_instant()
            case TokenType.BINARY:
                return Literal(self._parse_bytes(), self._span(start))
            case TokenType.QUOTED:
                return self._parse_function() if self._peek().word == "(" else self._parse_column()
        return self._parse_column() if token.word in STARS else super()._parse_operand()

    def _parse_sign_or_parentheses(self, token: Token) -> Expression:
        if token.word == "!":
            return self._parse_tight_negation()
        if token.word in ("-", "+") and self._peek().kind is TokenType.NUMBER:
            return self._parse_number()
        return super()._parse_sign_or_parentheses(token)

    def _parse_word(self, token: Token) -> Expression:
        start = self._index
        if token.word in ("TIME", "TIMESTAMP"):
            self._advance()
            return ColumnRef("time", span=self._span(start))
        if token.word == "ROOT" or self._is_path():
            return self._parse_column()
        if token.word == "NOT":
            return self._parse_tight_negation()
        if token.word in ("NULL", "NAN"):
            written = self.text[token.start : token.end]
            self._semantic(f"Unsupported constant operand: {written}", token, hint="test for it with IS NULL")
        if token.word in self.CONSTANTS:
            self._advance()
            return Literal(self.CONSTANTS[token.word], self._span(start), self.text[token.start : token.end])
        if token.word == "NOW" and self._peek().word == "(":
            return self._parse_instant()
        return super()._parse_word(token)

    def _is_path(self) -> bool:
        """Return whether a word that could begin another form is a path, because what that form needs does not follow."""
        after = self._peek()
        special = ("NOT", "NAN", "NOW", *self.CONSTANTS, *self.PREFIXES)
        if self._token.word not in special:
            return False
        if self._token.word in ("NAN", *self.CONSTANTS):
            return after.word == "."
        return (after.kind in (TokenType.SYMBOL, TokenType.END) and after.word in LABELS) or after.word in ("FROM", "AS")

    def _parse_tight_negation(self) -> Expression:
        """Parse `!x` or `NOT x`, which binds to the operand after it only."""
        start = self._index
        self._advance()
        return self._make_call("not", (self._parse_nested(lambda: self._parse_operation(SIGN)),), start)

    def _parse_column(self) -> Expression:
        """Parse a path: absolute if it begins with `root`, else relative to the prefixes of FROM."""
        start = self._index
        first = self._parse_first_node()
        nodes = [first]
        while self._accept("."):
            nodes.append(self._parse_node(in_expression=True))
        return ColumnRef(join_path(nodes), span=self._span(start))

    def _parse_first_node(self) -> str:
        if self._token.word == "ROOT":
            self._advance()
            return ROOT
        if self._token.word in STARS or self._is_name(self._token) or self._at_number_wildcard(in_expression=True):
            return self._parse_node(in_expression=True)
        return self._fail("an expression")

    # Constants

    def _parse_number(self) -> Literal:
        start = self._index
        sign = self._accept_one("-", "+")
        token = self._token
        if token.kind is not TokenType.NUMBER:
            self._fail("a number")
        value = self._number_value(self._advance())
        spelling = self.text[token.start : token.end]
        if sign == "-":
            return Literal(-value, self._span(start), f"-{spelling}")
        return Literal(value, self._span(start), f"+{spelling}" if sign else spelling)

    def _parse_bytes(self) -> bytes:
        token = self._token
        digits = self.text[token.start + 2 : token.end - 1]
        try:
            value = bytes.fromhex(digits)
        except ValueError:
            self._semantic(f"{digits} is not hexadecimal", token, hint="write two hexadecimal digits for each byte, as in X'0aff'")
        self._advance()
        return value

    def _parse_constant(self) -> Expression:
        """Parse a constant of any type, such as an item of IN."""
        token = self._token
        word = token.word
        is_constant = token.kind not in (TokenType.WORD, TokenType.QUOTED, TokenType.SYMBOL, TokenType.END)
        if is_constant or word in ("+", "-", "NAN", *self.CONSTANTS) or (word == "NOW" and self._peek().word == "("):
            return self._parse_operand()
        return self._fail("a constant")

    def _parse_instant(self) -> Expression:
        """Parse `2024-01-01T00:00:00` or `now()`, plus or minus durations."""
        start = self._index
        moment: Expression
        if self._token.kind is TokenType.INSTANT:
            text = self._parse_instant_text()
            span = self._span(start)
            moment = Cast(Literal(text, span), TIMESTAMP, span)
        else:
            self._expect("NOW", "(", ")")
            moment = Call("now", span=self._span(start))
        while self._token.word in ("+", "-") and DURATION.fullmatch(self._peek().word):
            sign = self._advance().word
            argument_start = self._index
            for duration in self._parse_duration_parts():
                moment = Call(sign, (moment, DurationLiteral(duration, self._span(argument_start))), span=self._span(start))
        return moment

    def _parse_instant_text(self) -> str:
        token = self._advance()
        written = self.text[token.start : token.end]
        text = canonical_instant(written)
        if text is None:
            self._semantic(INSTANT_RULE.format(written), token, hint="is there such a day, and such an hour?")
        return text

    def _parse_time_value(self) -> Expression:
        """Parse an instant or a signed number of ticks."""
        if self._token.kind is TokenType.INSTANT or self._token.word == "NOW":
            return self._parse_instant()
        token = self._token
        literal = self._parse_number() if token.kind is TokenType.NUMBER or token.word in ("+", "-") else None
        if literal is None or not isinstance(literal.value, int):
            return self._fail("an instant or a number of ticks")
        return literal

    def _parse_duration_parts(self) -> CompoundDuration:
        """Parse a duration such as `1d12h`."""
        token = self._token
        if token.kind is not TokenType.WORD or not DURATION.fullmatch(token.word):
            written = self.text[token.start : token.end]
            self._fail("a duration", hint=DURATION_HINT if written[:1].isdigit() or written[:1] in "+-" else "")
        self._advance()
        parts = (Duration(int(count), UNITS[unit.lower()]) for count, unit in DURATION_PART.findall(token.word))
        return tuple(self._bounded(part, Span(token.start, token.end)) for part in parts)

    # Predicates

    def _is_predicate(self, word: str) -> bool:
        return word == "CONTAINS" or super()._is_predicate(word)

    def _parse_predicate(self, left: Expression, start: int) -> Expression:
        word, after = self._token.word, self._peek().word
        negated = word == "NOT"
        name = after if negated else word
        if name in self.PREDICATES:
            self._advance()
            if negated:
                self._advance()
            argument_start = self._index
            pattern = Literal(self._parse_string(f"the pattern of {name}, a string"), self._span(argument_start))
            return self._make_call((self.NEGATED if negated else self.PREDICATES)[name], (left, pattern), start)
        if name == "CONTAINS":
            self._advance()
            if negated:
                self._advance()
            return self._make_call("not in" if negated else "in", (left, *self._parse_choices()), start)
        return super()._parse_predicate(left, start)

    def _parse_choices(self) -> tuple[Expression, ...]:
        return self._parse_items(self._parse_choice)

    def _parse_choice(self) -> Expression:
        token = self._token
        if token.word == "NULL":
            self._semantic("Unsupported constant value: null", token, hint="write … OR x IS NULL")
        return self._parse_constant()

    # Functions

    def _parse_function(self) -> Expression:
        start = self._index
        name = self._parse_identifier("a function")
        self._expect("(")
        arguments, attributes = self._parse_arguments()
        call = Call(function_key(name), tuple(arguments), False, tuple(attributes), name, self._span(start))
        return self._check_call(call, start)

    def _parse_arguments(self, *first: Expression) -> tuple[list[Expression], list[tuple[str, str]]]:
        """Parse arguments and attributes up to the closing parenthesis, after those that are parsed."""
        arguments = list(first)
        attributes: list[tuple[str, str]] = []
        while (not arguments and not attributes) or self._accept(","):
            argument_start = self._index
            argument = self._parse_nested(self._parse_expression)
            attribute = self._as_attribute(argument, argument_start)
            if attribute is None:
                arguments.append(argument)
            else:
                attributes.append(attribute)
        self._expect(")")
        return arguments, attributes

    def _as_attribute(self, argument: Expression, argument_start: int) -> tuple[str, str] | None:
        """Return the key and value of an argument `'key' = 'value'`, None for any other argument."""
        match argument:
            case Call(function="=", arguments=(Literal(value=key), value)) if not isinstance(key, bytes):
                if isinstance(key, str) and isinstance(value, Literal) and isinstance(value.value, str):
                    return key, value.value
                self._semantic(ATTRIBUTE_RULE, self._span(argument_start), hint="write it as 'key'='value'")
        return None

    def _check_call(self, call: Call, start: int) -> Call:
        """Return the call. Refuse constant arguments only, and an aggregate with the wrong number of arguments."""
        if all(is_constant(argument) for argument in call.arguments):
            tokens = self._tokens[start : self._index]
            text = "".join(self.text[token.start : token.end] for token in tokens)
            self._semantic(CONSTANT_ARGUMENTS.format(text), call.span, hint="name at least one series")
        expected = ARGUMENTS.get(call.function)
        actual = len(call.arguments)
        if expected is not None and actual != expected:
            self._semantic(ARGUMENT_COUNT.format(result_name(call), actual, expected), call.span)
        return call

    def _parse_cast(self) -> Expression:
        start, function, operand = self._parse_form()
        if is_constant(operand):
            self._semantic("Input of 'CAST' is illegal.", operand.span, hint="name at least one series")
        if self._token.word in (",", ")"):
            return self._parse_cast_attribute(operand, start, function)
        self._expect("AS")
        token = self._token
        type_ = self._parse_type()
        self._expect(")")
        written = self.text[token.start : token.end]
        return Cast(operand, type_, self._span(start), written.strip("'\"`"))

    def _parse_cast_attribute(self, operand: Expression, start: int, function: str) -> Expression:
        """Parse the rest of `CAST(x, 'type'='…')`, whose name keeps the spelling of the function."""
        arguments, attributes = self._parse_arguments(operand)
        written = dict(attributes).get("type")
        if written is None or written.upper() not in TREE_TYPES:
            self._semantic(
                "Function Cast must specify a target data type.", self._span(start), hint="write CAST(x, 'type'='DOUBLE')"
            )
        cast = Cast(operand, TREE_TYPES[written.upper()], self._span(start), written, function)
        if len(arguments) > 1:
            self._semantic(ARGUMENT_COUNT.format(result_name(cast), len(arguments), 1), cast.span)
        return cast

    def _parse_replace(self) -> Expression:
        """Parse `REPLACE(text, 'from', 'to')`. With attributes, types are checked before its texts are missed."""
        start, written, first = self._parse_form()
        arguments = [first]
        if self._token.word == ")" or self._peek(2).word in ("=", "==", ")"):
            arguments, attributes = self._parse_arguments(*arguments)
            span = self._span(start)
            if len(arguments) > 1:
                call = Call("replace", tuple(arguments), False, tuple(attributes), written, span)
                self._semantic(ARGUMENT_COUNT.format(result_name(call), len(arguments), 1), span)
            return Call("replace", (*arguments, Literal(None), Literal(None)), spelling=written, span=span)
        for _ in range(2):
            self._expect(",")
            argument_start = self._index
            arguments.append(Literal(self._parse_string(), self._span(argument_start)))
        self._expect(")")
        return Call("replace", tuple(arguments), spelling="REPLACE", span=self._span(start))

    def _parse_round(self) -> Expression:
        """Parse `ROUND(number[, places])`, or `ROUND(number, 'key'='value', …)`, whose attributes mean nothing."""
        start, written, first = self._parse_form()
        arguments = [first]
        has_attribute = self._token.word == "," and self._peek(2).word in ("=", "==")
        if not has_attribute and self._accept(","):
            arguments.append(self._parse_constant())
        if self._token.word != ",":
            self._expect(")")
            return Call("round", tuple(arguments), spelling="ROUND", span=self._span(start))
        arguments, attributes = self._parse_arguments(*arguments)
        call = Call("round", tuple(arguments), False, tuple(attributes), written, self._span(start))
        if len(arguments) > 1:
            self._semantic(ARGUMENT_COUNT.format(result_name(call), len(arguments), 1), call.span)
        return call

    def _parse_substring(self) -> Expression:
        """Parse `SUBSTRING(text, start[, length])` or `SUBSTRING(text FROM start [FOR length])`, recorded in the spelling."""
        start, _, text = self._parse_form()
        arguments = [text]
        if self._token.word not in ("FROM", ",") or not self._is_signed(self._peek()):
            self._semantic(SUBSTRING_RULE, self._span(start), hint="write SUBSTRING(text, 1, 2) or SUBSTRING(text FROM 1 FOR 2)")
        standard = self._expect_one("FROM", ",") == "FROM"
        arguments.append(self._parse_signed_integer())
        if self._accept("FOR" if standard else ","):
            arguments.append(self._parse_signed_integer())
        self._expect(")")
        spelling = "SUBSTRING FROM" if standard else "SUBSTRING"
        return Call("substring", tuple(arguments), spelling=spelling, span=self._span(start))

    def _is_signed(self, token: Token) -> bool:
        return token.kind is TokenType.NUMBER or token.word in ("+", "-")

    def _parse_signed_integer(self) -> Literal:
        token = self._token
        literal = self._parse_number() if token.kind is TokenType.NUMBER or token.word in ("+", "-") else None
        if literal is None or not isinstance(literal.value, int):
            return self._fail("a whole number")
        return literal


def is_constant(expression: Expression) -> bool:
    """Return whether an expression refers to no series."""
    match expression:
        case Literal() | DurationLiteral() | Call(function="now"):
            return True
        case Cast(operand=operand):
            return is_constant(operand)
        case Call(arguments=arguments):
            return all(is_constant(argument) for argument in arguments)
    return False


__all__ = ["TreeExpressions", "is_constant"]
