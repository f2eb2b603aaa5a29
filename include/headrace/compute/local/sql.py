"""Parser of the part of Spark SQL that bound plans use most: operators, conditions, CASE, casts, and calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[LD]?)\b
    |'(?P<text>(?:[^'\\]|\\.)*)'
    |`(?P<quoted>(?:[^`]|``)+)`
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign><=>|<=|>=|<>|!=|[-+*/%=<>(),&|^]))""",
    re.VERBOSE | re.DOTALL,
)
COMPARISONS: Final = {"=": "=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<>": "<>", "!=": "<>"}
BIT_SIGNS: Final = ("|", "^", "&")
ESCAPES: Final = re.compile(r"\\(.)", re.DOTALL)


class UnsupportedError(Exception):
    """An expression or plan that only Spark evaluates. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the rows."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of an SQL type; type `void` is NULL."""

    value: int | float | str | bool | None
    type: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator or function in lower case; `cast` has a target type."""

    name: str
    operands: tuple[Node, ...]
    type: str = ""


Node = Column | Constant | Operation
NULL: Final = Constant(None, "void")
TIME: Final = "time"
"""The column of instants."""


def substitute(node: Node, nodes: Mapping[str, Node]) -> Node:
    """Replace columns by other expressions."""
    match node:
        case Column(name=name):
            return nodes.get(name, node)
        case Operation(operands=operands):
            return replace(node, operands=tuple(substitute(part, nodes) for part in operands))
        case _:
            return node


def columns_of(node: Node) -> Iterator[str]:
    """Yield the names of the columns that an expression reads."""
    match node:
        case Column(name=name):
            yield name
        case Operation(operands=operands):
            for part in operands:
                yield from columns_of(part)


@lru_cache(maxsize=4096)
def parse(sql: str) -> Node:
    """Parse an expression.

    Raises:
        UnsupportedError: It has something else than the supported part of SQL.
    """
    parser = Parser(list(tokens(sql)))
    node = parser.disjunction()
    if parser.position < len(parser.tokens):
        raise UnsupportedError(sql)
    return node


def tokens(sql: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each token; names and signs have the kind `sign`, in lower case."""
    position, end = 0, len(sql.rstrip())
    while position < end:
        match = TOKEN.match(sql, position)
        if match is None:
            raise UnsupportedError(sql)
        position = match.end()
        kind = match.lastgroup or ""
        if kind == "suffix":
            yield f"number{match['suffix']}", match["number"]
        elif kind == "name":
            yield "name", match["name"]
        else:
            yield kind, match[kind]


@dataclass(slots=True)
class Parser:
    """A recursive-descent parser over the tokens of one expression."""

    tokens: list[tuple[str, str]]
    position: int = 0

    def peek(self) -> str:
        """Return the next sign, or word in lower case; empty for anything else."""
        if self.position >= len(self.tokens):
            return ""
        kind, text = self.tokens[self.position]
        return text.lower() if kind in ("sign", "name") else ""

    def take(self, *words: str) -> bool:
        """Consume some words or signs if they come next."""
        start = self.position
        for word in words:
            if self.peek() != word:
                self.position = start
                return False
            self.position += 1
        return True

    def expect(self, word: str) -> None:
        """Consume a word or sign that must come next."""
        if not self.take(word):
            raise UnsupportedError(f"{word} is missing")

    def disjunction(self) -> Node:
        """Parse OR."""
        node = self.conjunction()
        while self.take("or"):
            node = Operation("or", (node, self.conjunction()))
        return node

    def conjunction(self) -> Node:
        """Parse AND."""
        node = self.negation()
        while self.take("and"):
            node = Operation("and", (node, self.negation()))
        return node

    def negation(self) -> Node:
        """Parse NOT."""
        return Operation("not", (self.negation(),)) if self.take("not") else self.predicate()

    def predicate(self) -> Node:
        """Parse comparisons, IS NULL, IN and BETWEEN."""
        node = self.bits()
        while True:
            sign = COMPARISONS.get(self.peek())
            if sign is not None:
                self.position += 1
                node = Operation(sign, (node, self.bits()))
            elif self.take("is", "not", "null"):
                node = Operation("is not null", (node,))
            elif self.take("is", "null"):
                node = Operation("is null", (node,))
            elif self.take("not", "in"):
                node = Operation("not", (self.membership(node),))
            elif self.take("in"):
                node = self.membership(node)
            elif self.take("between"):
                low = self.bits()
                self.expect("and")
                node = Operation("and", (Operation(">=", (node, low)), Operation("<=", (node, self.bits()))))
            else:
                return node

    def membership(self, node: Node) -> Node:
        """Parse the list of IN."""
        self.expect("(")
        return Operation("in", (node, *self.listed()))

    def listed(self) -> tuple[Node, ...]:
        """Parse expressions up to a closing parenthesis."""
        if self.take(")"):
            return ()
        nodes = [self.disjunction()]
        while self.take(","):
            nodes.append(self.disjunction())
        self.expect(")")
        return tuple(nodes)

    def bits(self, level: int = 0) -> Node:
        """Parse | ^ &, which bind weaker than arithmetic, in this order."""
        if level == len(BIT_SIGNS):
            return self.sum()
        node = self.bits(level + 1)
        while self.take(BIT_SIGNS[level]):
            node = Operation(BIT_SIGNS[level], (node, self.bits(level + 1)))
        return node

    def sum(self) -> Node:
        """Parse + and -."""
        node = self.product()
        while (sign := self.peek()) in ("+", "-"):
            self.position += 1
            node = Operation(sign, (node, self.product()))
        return node

    def product(self) -> Node:
        """Parse * / % and div."""
        node = self.unary()
        while (sign := self.peek()) in ("*", "/", "%", "div"):
            self.position += 1
            node = Operation(sign, (node, self.unary()))
        return node

    def unary(self) -> Node:
        """Parse a sign."""
        if not self.take("-"):
            return self.primary()
        node = self.unary()
        if isinstance(node, Constant) and isinstance(node.value, int | float):
            return replace(node, value=-node.value)
        return Operation("negative", (node,))

    def primary(self) -> Node:
        """Parse a constant, column, call, cast, CASE, or an expression in parentheses."""
        if self.position >= len(self.tokens):
            raise UnsupportedError("the expression ends early")
        kind, text = self.tokens[self.position]
        self.position += 1
        match kind:
            case "number" | "numberL" | "numberD":
                return number(text, kind)
            case "text":
                return Constant(unescape(text), "string")
            case "quoted":
                return Column(text.replace("``", "`"))
            case "name":
                return self.word(text)
        if text == "(":
            node = self.disjunction()
            self.expect(")")
            return node
        raise UnsupportedError(text)

    def word(self, text: str) -> Node:
        """Parse what begins with a word."""
        name = text.lower()
        if name in ("true", "false"):
            return Constant(name == "true", "boolean")
        if name == "null":
            return NULL
        if name == "case":
            return self.case()
        if not self.take("("):
            return Column(text)
        return self.cast(name) if name in ("cast", "try_cast") else Operation(name, self.listed())

    def cast(self, name: str) -> Node:
        """Parse the rest of a cast."""
        node = self.disjunction()
        self.expect("as")
        kind, type_ = self.tokens[self.position]
        self.position += 1
        if kind != "name":
            raise UnsupportedError(type_)
        parameters = [str(part.value) for part in self.listed() if isinstance(part, Constant)] if self.take("(") else []
        self.expect(")")
        return Operation(name, (node,), type_.lower() + (f"({','.join(parameters)})" if parameters else ""))

    def case(self) -> Node:
        """Parse CASE WHEN … END as nested `if`."""
        branches: list[tuple[Node, Node]] = []
        while self.take("when"):
            condition = self.disjunction()
            self.expect("then")
            branches.append((condition, self.disjunction()))
        node = self.disjunction() if self.take("else") else NULL
        self.expect("end")
        for condition, value in reversed(branches):
            node = Operation("if", (condition, value, node))
        return node


def number(text: str, kind: str) -> Node:
    """Return a numeric constant; a number with a point but without suffix is a DECIMAL, which is not supported."""
    if kind == "numberD":
        return Constant(float(text), "double")
    if not text.isdigit():
        raise UnsupportedError(text)
    return Constant(int(text), "bigint" if kind == "numberL" else "int")


def unescape(text: str) -> str:
    """Return the value of a string literal as `string_sql` writes it."""
    return ESCAPES.sub(lambda match: "\x00" if match[1] == "0" else match[1], text)
