"""An operator-precedence parser for expressions. A dialect provides the tables and its special forms."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, ClassVar

from headrace.errors import LimitError
from headrace.model.expressions import Call, Case, Cast, ColumnRef, Expression, Literal, Star, children
from headrace.model.spans import Span
from headrace.model.types import DataType
from headrace.sql.cursor import Cursor
from headrace.sql.lexical_rules import MAX_DIGITS
from headrace.sql.numbers import finite, negative
from headrace.sql.operators import NOT, OR, PREDICATE, SIGN, Operator
from headrace.sql.tokens import Token, TokenType

NUMBER = re.compile(r"0x[0-9a-f]+|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?")
MAX_HEIGHT = 200
"""Maximum height of an expression tree, which other packages walk recursively. A chain of operators makes a high tree."""


class ExpressionParser(Cursor, ABC):
    """Parses expressions of a dialect: operators, literals, columns, functions, CASE and CAST."""

    BINARY: ClassVar[Mapping[str, Operator]]
    """Left-associative binary operators."""

    PREDICATES: ClassVar[Mapping[str, str]]
    """Binary predicates, which do not chain, and their functions."""

    NEGATED: ClassVar[Mapping[str, str]]
    """Predicates that NOT may precede, and the functions of their negations."""

    LOOSE_NEGATION: ClassVar[bool] = True
    """Whether NOT binds more loosely than comparisons; a dialect in which it does not parses it as an operand."""

    PREDICATES_CHAIN: ClassVar[bool] = False
    """Whether an operator may follow a predicate, whose result is then its left side."""

    CONSTANTS: ClassVar[Mapping[str, bool | None]] = {"NULL": None, "TRUE": True, "FALSE": False}

    BARE_FUNCTIONS: ClassVar[frozenset[str]] = frozenset()
    """Functions that may be called without parentheses."""

    CALLABLE: ClassVar[frozenset[str]] = frozenset()
    """Reserved words that are functions if parentheses follow."""

    PREFIXES: ClassVar[Mapping[str, Callable[[Any], Expression]]] = {"CASE": lambda self: self._parse_case()}
    """Parsers of expressions that begin with a keyword."""

    FORMS: ClassVar[Mapping[str, Callable[[Any], Expression]]] = {"CAST": lambda self: self._parse_cast()}
    """Parsers of functions whose parentheses contain more than a list of arguments."""

    def _parse_expression(self) -> Expression:
        start = self._index
        expression = self._parse_operation(OR)
        if self._index - start > MAX_HEIGHT and _tree_height(expression) > MAX_HEIGHT:
            what = f"the expression is more than {MAX_HEIGHT} operators high"
            raise LimitError(what, hint="use IN (…), or divide it with parentheses", span=self._span(start), sql=self.text)
        return expression

    def _parse_operation(self, power: int) -> Expression:
        """Parse an operand and all following operators that bind at least as tightly as `power`."""
        start = self._index
        negation = self.LOOSE_NEGATION and self._token.word == "NOT" and power <= NOT
        left = self._parse_negation(start) if negation else self._parse_operand()
        ceiling = NOT - 1 if negation else SIGN + 1
        while True:
            word = self._token.word
            operator = self.BINARY.get(word)
            if operator is not None and power <= operator.power <= ceiling:
                self._advance()
                left = Call(operator.function, (left, self._parse_operation(operator.power + 1)), span=self._span(start))
            elif self._is_predicate(word) and power <= PREDICATE <= ceiling:
                left = self._parse_predicate(left, start)
                ceiling = ceiling if self.PREDICATES_CHAIN else PREDICATE - 1
            else:
                self._expected.append("an operator")
                return left

    def _parse_negation(self, start: int) -> Expression:
        self._advance()
        return Call("not", (self._parse_nested(lambda: self._parse_operation(NOT)),), span=self._span(start))

    # Predicates

    def _is_predicate(self, word: str) -> bool:
        return word in self.PREDICATES or word in ("IS", "IN", "BETWEEN", "NOT")

    def _parse_predicate(self, left: Expression, start: int) -> Expression:
        word = self._advance().word
        if word == "IS":
            function = "is not null" if self._accept("NOT") else "is null"
            self._expect("NULL")
            return Call(function, (left,), span=self._span(start))
        negated = word == "NOT"
        if negated:
            word = self._expect_one("IN", "BETWEEN", *self.NEGATED)
        if word == "IN":
            return self._make_call("not in" if negated else "in", (left, *self._parse_choices()), start)
        if word == "BETWEEN":
            return self._make_call("not between" if negated else "between", (left, *self._parse_bounds()), start)
        return self._make_call(
            (self.NEGATED if negated else self.PREDICATES)[word], (left, self._parse_operation(PREDICATE + 1)), start
        )

    def _parse_choices(self) -> tuple[Expression, ...]:
        if self._peek().word == "SELECT":
            self._fail_subquery()
        return self._parse_items(self._parse_expression)

    def _parse_bounds(self) -> tuple[Expression, Expression]:
        low = self._parse_operation(PREDICATE + 1)
        self._expect("AND")
        return low, self._parse_operation(PREDICATE + 1)

    def _make_call(self, function: str, arguments: tuple[Expression, ...], start: int) -> Call:
        return Call(function, arguments, span=self._span(start))

    # Operands

    def _parse_operand(self) -> Expression:
        token = self._token
        match token.kind:
            case TokenType.WORD:
                return self._parse_word(token)
            case TokenType.QUOTED:
                return self._parse_column()
            case TokenType.NUMBER:
                self._advance()
                return Literal(self._number_value(token), self._span(self._index - 1))
            case TokenType.STRING:
                return Literal(self._parse_string(), Span(token.start, token.end))
        return self._parse_sign_or_parentheses(token)

    def _parse_sign_or_parentheses(self, token: Token) -> Expression:
        if token.word == "(":
            if self._peek().word == "SELECT":
                self._fail_subquery()
            return self._parse_parenthesized(self._parse_expression)
        if token.word not in ("-", "+"):
            return self._fail("an expression")
        start = self._index
        self._advance()
        if token.word == "-" and self._token.kind is TokenType.NUMBER:
            return Literal(negative(self._number_value(self._advance())), self._span(start))
        operand = self._parse_nested(lambda: self._parse_operation(SIGN))
        return operand if token.word == "+" else self._make_call("unary-", (operand,), start)

    def _parse_word(self, token: Token) -> Expression:
        word = token.word
        if word in self.CONSTANTS:
            self._advance()
            return Literal(self.CONSTANTS[word], Span(token.start, token.end))
        if word in self.PREFIXES:
            return self.PREFIXES[word](self)
        if self._peek().word == "(" and (word not in self.LEXICAL_RULES.reserved or word in self.CALLABLE):
            return self.FORMS[word](self) if word in self.FORMS else self._parse_function()
        if word in self.BARE_FUNCTIONS:
            self._advance()
            return Call(word.lower(), span=Span(token.start, token.end))
        return self._parse_column()

    def _parse_column(self) -> Expression:
        start = self._index
        first = self._parse_identifier("an expression")
        if not self._accept("."):
            return ColumnRef(first, span=self._span(start))
        return ColumnRef(self._parse_identifier("a column"), first, self._span(start))

    def _parse_star(self) -> Star | None:
        """Parse `*` or `table.*`. Return None if there is neither."""
        start = self._index
        if self._accept("*"):
            return Star(span=self._span(start))
        if self._peek().word == "." and self._peek(2).word == "*":
            table = self._parse_identifier("a table")
            self._expect(".", "*")
            return Star(table, self._span(start))
        return None

    def _number_value(self, token: Token) -> int | float | Decimal:
        text = self.text[token.start : token.end].lower()
        if len(text) <= MAX_DIGITS and NUMBER.fullmatch(text):
            try:
                return int(text, 0) if text.startswith("0x") else self._parse_number_text(text)
            except ValueError:
                pass
        return self._fail_invalid("this is not a number, or out of range", token)

    def _parse_number_text(self, text: str) -> int | float | Decimal:
        """Return a decimal number, or raise `ValueError` if it is out of range."""
        return int(text) if text.isdigit() else finite(text)

    # Functions

    def _parse_function(self) -> Expression:
        start = self._index
        name = self._advance().word.lower()
        self._expect("(")
        if self._accept(")"):
            return self._make_call(name, (), start)
        distinct = self._accept("DISTINCT")
        arguments = self._parse_nested(lambda: self._parse_list(lambda: self._parse_star() or self._parse_expression()))
        self._expect(")")
        return Call(name, arguments, distinct, span=self._span(start))

    def _parse_case(self) -> Expression:
        start = self._index
        self._advance()
        operand = None if self._is_at("WHEN") else self._parse_nested(self._parse_expression)
        branches = [self._parse_branch()]
        while self._is_at("WHEN"):
            branches.append(self._parse_branch())
        default = self._parse_nested(self._parse_expression) if self._accept("ELSE") else None
        self._expect("END")
        return Case(tuple(branches), default, operand, self._span(start))

    def _parse_branch(self) -> tuple[Expression, Expression]:
        self._expect("WHEN")
        condition = self._parse_nested(self._parse_expression)
        self._expect("THEN")
        return condition, self._parse_nested(self._parse_expression)

    def _parse_form(self) -> tuple[int, str, Expression]:
        """Parse the name of a form, the parenthesis and the first argument. Return where it starts, the name, and the argument."""
        start, token = self._index, self._advance()
        self._expect("(")
        return start, self.text[token.start : token.end], self._parse_nested(self._parse_expression)

    def _parse_cast(self) -> Expression:
        start, _, operand = self._parse_form()
        self._expect("AS")
        type_ = self._parse_type()
        self._expect(")")
        return Cast(operand, type_, self._span(start))

    @abstractmethod
    def _parse_type(self) -> DataType:
        """Parse a column type of the dialect."""

    def _expected_words(self) -> list[str]:
        words = ("AND", "OR", "NOT", "IS", "IN", "BETWEEN", *self.PREDICATES) if "an operator" in self._expected else ()
        return [*self._expected, *words]

    def _fail_subquery(self) -> None:
        self._advance()
        self._fail_unsupported("a query inside an expression", "move it to FROM (…), or run it first and write its values")


def _tree_height(node: Expression) -> int:
    """Return the height of an expression tree, iteratively because a high tree would exceed Python's stack."""
    height, level = 0, [node]
    while level:
        height, level = height + 1, [child for parent in level for child in children(parent)]
    return height
