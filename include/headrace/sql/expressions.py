"""Parsing expressions by operator precedence; a dialect fills in the tables and what is special to it."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from headrace.errors import LimitError
from headrace.model.expressions import Call, Case, Cast, ColumnRef, Expression, Literal, Star, children
from headrace.model.spans import Span
from headrace.model.types import DataType
from headrace.sql.cursor import Cursor
from headrace.sql.lexis import DIGITS
from headrace.sql.operators import NOT, OR, PREDICATE, SIGN, Operator
from headrace.sql.tokens import Token, TokenType

NUMBER = re.compile(r"0x[0-9a-f]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?")
HEIGHT = 200
"""How high the tree of an expression may be: operators in a row make it high, and later rooms walk it recursively."""


class ExpressionParser(Cursor, ABC):
    """Expressions of a dialect: operators, literals, columns, functions, CASE and CAST."""

    BINARY: ClassVar[Mapping[str, Operator]]
    """Operators between two operands that chain to the left."""

    PREDICATES: ClassVar[Mapping[str, str]]
    """Signs and words between two operands that do not chain, and their functions."""

    NEGATED: ClassVar[Mapping[str, str]]
    """Predicates that may follow NOT, and their functions."""

    CONSTANTS: ClassVar[Mapping[str, bool | None]] = {"NULL": None, "TRUE": True, "FALSE": False}

    BARE_FUNCTIONS: ClassVar[frozenset[str]] = frozenset()
    """Functions that need no brackets."""

    CALLABLE: ClassVar[frozenset[str]] = frozenset()
    """Reserved words that are functions where brackets follow."""

    PREFIXES: ClassVar[Mapping[str, Callable[[Any], Expression]]] = {"CASE": lambda self: self._parse_case()}
    """Words that begin an expression of their own form."""

    FORMS: ClassVar[Mapping[str, Callable[[Any], Expression]]] = {"CAST": lambda self: self._parse_cast()}
    """Functions whose brackets hold more than a list of arguments."""

    def _parse_expression(self) -> Expression:
        start = self._index
        found = self._parse_operation(OR)
        if self._index - start > HEIGHT and _height(found) > HEIGHT:
            what = f"an expression may be {HEIGHT} operators high"
            raise LimitError(what, hint="use IN (…), or brackets that divide it", span=self._span(start), sql=self.text)
        return found

    def _parse_operation(self, power: int) -> Expression:
        """An operand and all operators after it that bind at least as tightly as `power`."""
        start = self._index
        negation = self._token.word == "NOT" and power <= NOT
        found = self._parse_negation(start) if negation else self._parse_operand()
        ceiling = NOT - 1 if negation else SIGN + 1
        while True:
            word = self._token.word
            operator = self.BINARY.get(word)
            if operator is not None and power <= operator.power <= ceiling:
                self._advance()
                found = Call(operator.function, (found, self._parse_operation(operator.power + 1)), span=self._span(start))
            elif self._is_predicate(word) and power <= PREDICATE <= ceiling:
                found, ceiling = self._parse_predicate(found, start), PREDICATE - 1
            else:
                self._tried.append("an operator")
                return found

    def _parse_negation(self, start: int) -> Expression:
        self._advance()
        return Call("not", (self._nested(lambda: self._parse_operation(NOT)),), span=self._span(start))

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
            return self._call("not in" if negated else "in", (left, *self._parse_choices()), start)
        if word == "BETWEEN":
            return self._call("not between" if negated else "between", (left, *self._parse_bounds()), start)
        return self._call((self.NEGATED if negated else self.PREDICATES)[word], (left, self._parse_operation(PREDICATE + 1)), start)

    def _parse_choices(self) -> tuple[Expression, ...]:
        if self._next().word == "SELECT":
            self._refuse_query()
        return self._wrapped(lambda: self._list(self._parse_expression))

    def _parse_bounds(self) -> tuple[Expression, Expression]:
        low = self._parse_operation(PREDICATE + 1)
        self._expect("AND")
        return low, self._parse_operation(PREDICATE + 1)

    def _call(self, function: str, arguments: tuple[Expression, ...], start: int) -> Call:
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
                return Literal(self._number(token), self._span(self._index - 1))
            case TokenType.STRING:
                return Literal(self._parse_string(), Span(token.start, token.end))
        return self._parse_sign_or_brackets(token)

    def _parse_sign_or_brackets(self, token: Token) -> Expression:
        if token.word == "(":
            if self._next().word == "SELECT":
                self._refuse_query()
            return self._wrapped(self._parse_expression)
        if token.word not in ("-", "+"):
            return self._fail("an expression")
        start = self._index
        self._advance()
        if token.word == "-" and self._token.kind is TokenType.NUMBER:
            return Literal(-self._number(self._advance()), self._span(start))
        operand = self._nested(lambda: self._parse_operation(SIGN))
        return operand if token.word == "+" else self._call("unary-", (operand,), start)

    def _parse_word(self, token: Token) -> Expression:
        word = token.word
        if word in self.CONSTANTS:
            self._advance()
            return Literal(self.CONSTANTS[word], Span(token.start, token.end))
        if word in self.PREFIXES:
            return self.PREFIXES[word](self)
        if self._next().word == "(" and (word not in self.LEXIS.reserved or word in self.CALLABLE):
            return self.FORMS[word](self) if word in self.FORMS else self._parse_function()
        if word in self.BARE_FUNCTIONS:
            self._advance()
            return Call(word.lower(), span=Span(token.start, token.end))
        return self._parse_column()

    def _parse_column(self) -> Expression:
        """`[table.]column`."""
        start = self._index
        first = self._parse_identifier("an expression")
        if not self._accept("."):
            return ColumnRef(first, span=self._span(start))
        return ColumnRef(self._parse_identifier("a column"), first, self._span(start))

    def _parse_star(self) -> Star | None:
        """`*` or `table.*`, where one stands here."""
        start = self._index
        if self._accept("*"):
            return Star(span=self._span(start))
        if self._next().word == "." and self._next(2).word == "*":
            table = self._parse_identifier("a table")
            self._expect(".", "*")
            return Star(table, self._span(start))
        return None

    def _number(self, token: Token) -> int | float:
        written = self.text[token.start : token.end].lower()
        value: int | float | None = None
        if len(written) <= DIGITS and NUMBER.fullmatch(written):
            value = int(written, 0) if written.startswith("0x") else int(written) if written.isdigit() else float(written)
        if value is None or (isinstance(value, float) and math.isinf(value)):
            self._refuse("this is not a number, or beyond the greatest", token)
        return value

    # Functions

    def _parse_function(self) -> Expression:
        start = self._index
        name = self._advance().word.lower()
        self._expect("(")
        if self._accept(")"):
            return self._call(name, (), start)
        distinct = self._accept("DISTINCT")
        arguments = self._nested(lambda: self._list(self._parse_argument))
        self._expect(")")
        return Call(name, arguments, distinct, self._span(start))

    def _parse_argument(self) -> Expression:
        return self._parse_star() or self._parse_expression()

    def _parse_case(self) -> Expression:
        start = self._index
        self._advance()
        operand = None if self._at("WHEN") else self._nested(self._parse_expression)
        branches = [self._parse_branch()]
        while self._at("WHEN"):
            branches.append(self._parse_branch())
        default = self._nested(self._parse_expression) if self._accept("ELSE") else None
        self._expect("END")
        return Case(tuple(branches), default, operand, self._span(start))

    def _parse_branch(self) -> tuple[Expression, Expression]:
        self._expect("WHEN")
        condition = self._nested(self._parse_expression)
        self._expect("THEN")
        return condition, self._nested(self._parse_expression)

    def _parse_cast(self) -> Expression:
        start = self._index
        self._advance()
        self._expect("(")
        operand = self._nested(self._parse_expression)
        self._expect("AS")
        type_ = self._parse_type()
        self._expect(")")
        return Cast(operand, type_, self._span(start))

    @abstractmethod
    def _parse_type(self) -> DataType:
        """A column type of the dialect."""

    def _possible(self) -> list[str]:
        words = ("AND", "OR", "NOT", "IS", "IN", "BETWEEN", *self.PREDICATES) if "an operator" in self._tried else ()
        return [*self._tried, *words]

    def _refuse_query(self) -> None:
        self._advance()
        self._unsupported("a query inside an expression", "put it in FROM (…), or run it first and write its values")


def _height(node: Expression) -> int:
    """Nodes on the longest way down; without recursion, which could itself run out of stack."""
    height, level = 0, [node]
    while level:
        height, level = height + 1, [child for parent in level for child in children(parent)]
    return height
