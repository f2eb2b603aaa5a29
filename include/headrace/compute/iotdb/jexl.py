"""IoTDB's `JEXL`: lambdas such as `x -> {x * 2 + 1}`, compiled to Spark SQL.

Supports a safe subset: arithmetic, comparison, logic, the ternary, concatenation, `var`, `if` and `return`. It cannot call a method
or refer to a class; the error for anything else in JEXL names it. Integers stay integers until the result, as in Java.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from headrace.compute.functions.scalars import ScalarArguments
from headrace.compute.iotdb.conversions import raise_error
from headrace.compute.iotdb.scalars import RowFunction
from headrace.compute.iotdb.types import BOOLEAN, FLOATING, INT64, NUMERIC, TEXT, Attributes, type_error
from headrace.compute.nodes import FALSE, NULL, TRUE, Node, Value, bigint, both, call, double, either, if_, integer, negated, string
from headrace.compute.terms import Term
from headrace.errors import TypeMismatchError
from headrace.model.types import DOUBLE, TypeKind

TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+|\d+)|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<name>[A-Za-z_$][\w$]*)|(?P<sign>->|=>|&&|\|\||==|!=|<=|>=|=~|[-+*/%!<>?:(){};,=.\[\]&|^~]))"""
)
OPERATOR_WORDS: Final = {"and": "&&", "or": "||", "not": "!", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
ARITHMETIC_WORDS: Final = {"div": "/", "mod": "%"}
PRECEDENCE: Final = (("||",), ("&&",), ("==", "!=", "=~"), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))
"""Binary operators, from the lowest to the highest precedence."""


class ValueKind(Enum):
    """The type of a part of an expression during evaluation."""

    INTEGER = "whole"
    REAL = "real"
    TEXT = "text"
    BOOLEAN_VALUE = "truth"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a lambda and the kind of its value."""

    node: Node
    kind: ValueKind

    @property
    def real(self) -> Node:
        return self.number if self.kind is ValueKind.REAL else self.number.cast("double")

    @property
    def number(self) -> Node:
        """The part as a number: truth is 1 or 0."""
        if self.kind is ValueKind.TEXT:
            raise unsupported_error("arithmetic of text", "text can only be joined with + and compared")
        return self.node.cast("bigint") if self.kind is ValueKind.BOOLEAN_VALUE else self.node

    @property
    def text(self) -> Node:
        """The part as a STRING."""
        return self.node if self.kind is ValueKind.TEXT else self.node.cast("string")

    @property
    def truth(self) -> Node:
        """The part as a condition: numbers are true unless they are 0."""
        if self.kind is ValueKind.TEXT:
            raise unsupported_error("text as a condition", "compare it")
        return self.node if self.kind is ValueKind.BOOLEAN_VALUE else call("<>", self.node, integer(0))


def boolean_part(condition: Node) -> Part:
    return Part(condition, ValueKind.BOOLEAN_VALUE)


def unsupported_error(what: str, hint: str = "") -> TypeMismatchError:
    return type_error(
        f"JEXL: {what} is not supported",
        hint=hint
        or "use + - * / %, comparisons, && || !, the ternary ? :, var, if and return; or write it as an expression of SQL",
    )


def jexl(arguments: ScalarArguments) -> Term:
    """Compile a lambda over the inputs: numbers give DOUBLE, text TEXT, booleans BOOLEAN."""
    source = Attributes(arguments.attributes).text("expr")
    parser = Parser(tokenize(source))
    names = parser.parse_parameters()
    if len(names) < len(arguments.terms):
        raise type_error(f"JEXL: the lambda takes {len(names)} inputs, not {len(arguments.terms)}", hint="name one for each series")
    inputs = {name: input_part(term) for name, term in zip(names, arguments.terms, strict=False)}
    result = replace(parser, names=inputs).parse_body()
    present = both(*(term.node.is_not_null() for term in arguments.terms))
    type_ = {ValueKind.TEXT: TEXT, ValueKind.BOOLEAN_VALUE: BOOLEAN}.get(result.kind, DOUBLE)
    return Term(if_(present, result.real if type_ == DOUBLE else result.node, NULL), type_)


def input_part(term: Term) -> Part:
    """Convert an input to a part. FLOAT is read through its decimal text: 1.1, not 1.10000002."""
    kind = term.type.kind if term.type is not None else TypeKind.DOUBLE
    if kind is TypeKind.FLOAT:
        return Part(term.node.cast("string").cast("double"), ValueKind.REAL)
    if kind in FLOATING:
        return Part(term.node, ValueKind.REAL)
    if kind in NUMERIC:
        return Part(term.node.cast("bigint"), ValueKind.INTEGER)
    return Part(term.node, ValueKind.TEXT if kind is TypeKind.VARCHAR else ValueKind.BOOLEAN_VALUE)


def tokenize(source: str) -> tuple[tuple[str, str], ...]:
    """Split a lambda into pairs of token kind and text; operator words become signs."""
    tokens, at = [], 0
    end = len(source.rstrip())
    while at < end:
        match = TOKEN.match(source, at)
        if match is None:
            raise type_error(f"JEXL: parsing error in {source[at:].strip()[:1]!r}", hint="write it as in 'expr'='x -> {x + 1}'")
        kind = match.lastgroup or ""
        word = match[kind]
        sign = {**OPERATOR_WORDS, **ARITHMETIC_WORDS}.get(word) if kind == "name" else None
        tokens.append(("sign", sign) if sign else (kind, word))
        at = match.end()
    return tuple(tokens)


@dataclass(slots=True)
class Parser:
    """A recursive descent parser that returns Spark SQL."""

    tokens: tuple[tuple[str, str], ...]
    names: dict[str, Part] = field(default_factory=dict)
    at: int = 0

    # Tokens

    def is_at(self, *string: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at][0] != "text" and self.tokens[self.at][1] in string

    def advance(self) -> tuple[str, str]:
        """Consume and return the next token. Raise `TypeMismatchError` at the end."""
        if self.at == len(self.tokens):
            raise type_error("JEXL: parsing error at the end of the expression", hint="write it as in 'expr'='x -> {x + 1}'")
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, *string: str) -> str | None:
        """Consume the next token if it is one of these, and return it."""
        return self.advance()[1] if self.is_at(*string) else None

    def expect(self, word: str) -> None:
        """Consume a token that must be this word or sign."""
        token = self.advance()[1]
        if token != word:
            raise type_error(f"JEXL: parsing error in {token!r}", hint=f"{word} was expected")

    # The lambda

    def parse_parameters(self) -> list[str]:
        is_function = self.accept("function") is not None
        names = []
        if self.accept("("):
            while not self.accept(")"):
                names.append(self.advance()[1])
                self.accept(",")
        else:
            names.append(self.advance()[1])
        if not is_function and not self.accept("->", "=>"):
            raise type_error(f"JEXL: {names[0]!r} begins no lambda", hint="write it as in 'expr'='x -> {x + 1}'")
        return names

    def parse_body(self) -> Part:
        value = self.parse_block() if self.accept("{") else self.parse_expression()
        self.accept(";")
        if self.at < len(self.tokens):
            raise type_error(f"JEXL: parsing error in {self.tokens[self.at][1]!r}", hint="it follows the end of the lambda")
        return value

    def parse_block(self) -> Part:
        """Parse a block, whose variables are local; return the value of `return` or of its last statement."""
        names = dict(self.names)
        value = self.parse_statements()
        self.expect("}")
        self.names = names
        return value

    def parse_statements(self) -> Part:
        """Parse variables, then `if`, `return` or an expression, and return the value."""
        while self.accept("var"):
            name = self.advance()[1]
            self.expect("=")
            self.names[name] = self.parse_expression()
            self.expect(";")
        if self.accept("if"):
            return self.parse_if()
        self.accept("return")
        value = self.parse_expression()
        self.accept(";")
        if not self.is_at("}"):
            raise unsupported_error("a statement whose value is not used")
        return value

    def parse_if(self) -> Part:
        """Parse `if (…) … else …`. Without `else`, the statements after it are the other branch."""
        self.expect("(")
        condition = self.parse_expression().truth
        self.expect(")")
        then = self.parse_branch()
        other = self.parse_branch() if self.accept("else") else self.parse_statements()
        return choose(condition, then, other)

    def parse_branch(self) -> Part:
        """Return the value of one side of an `if`: a block, another `if`, or a statement."""
        if self.accept("{"):
            return self.parse_block()
        if self.accept("if"):
            return self.parse_if()
        self.accept("return")
        value = self.parse_expression()
        self.accept(";")
        return value

    # Expressions

    def parse_expression(self) -> Part:
        condition = self.parse_operation(0)
        if not self.accept("?"):
            return condition
        then = self.parse_expression()
        self.expect(":")
        return choose(condition.truth, then, self.parse_expression())

    def parse_operation(self, level: int) -> Part:
        if level == len(PRECEDENCE):
            return self.parse_unary()
        left = self.parse_operation(level + 1)
        while sign := self.accept(*PRECEDENCE[level]):
            left = OPERATORS[sign](left, self.parse_operation(level + 1))
        return left

    def parse_unary(self) -> Part:
        if self.accept("!"):
            return boolean_part(negated(self.parse_unary().truth))
        if self.accept("-"):
            operand = self.parse_unary()
            return Part(-operand.number, ValueKind.REAL if operand.kind is ValueKind.REAL else ValueKind.INTEGER)
        return self.parse_unary() if self.accept("+") else self.parse_primary()

    def parse_primary(self) -> Part:
        kind, word = self.advance()
        if kind == "number":
            return (
                Part(bigint(int(word)), ValueKind.INTEGER)
                if word.isdigit() and int(word) < 2**63
                else Part(double(float(word)), ValueKind.REAL)
            )
        if kind == "text":
            return Part(string(re.sub(r"\\(.)", r"\1", word[1:-1])), ValueKind.TEXT)
        if word == "(":
            inside = self.parse_expression()
            self.expect(")")
            return inside
        if word in ("true", "false"):
            return Part(TRUE if word == "true" else FALSE, ValueKind.BOOLEAN_VALUE)
        return self.variable(kind, word)

    def variable(self, kind: str, word: str) -> Part:
        """Return an input or a variable. Raise `TypeMismatchError` for calls and member access, which could reach Java."""
        if kind != "name":
            raise type_error(f"JEXL: parsing error in {word!r}", hint="a value was expected")
        if self.is_at("(", ".", "["):
            raise unsupported_error(f"the call or member {word}{self.tokens[self.at][1]}…")
        if word not in self.names:
            raise type_error(f"JEXL: variable {word!r} is undefined", hint=f"the lambda has {', '.join(self.names)}")
        return self.names[word]


def choose(condition: Node, then: Part, other: Part) -> Part:
    """Choose between two values, which must both be numbers, texts or booleans."""
    if then.kind is other.kind:
        kind, parts = then.kind, (then.node, other.node)
    elif {then.kind, other.kind} == {ValueKind.INTEGER, ValueKind.REAL}:
        kind, parts = ValueKind.REAL, (then.real, other.real)
    else:
        raise unsupported_error("a choice between values of different types", "make both numbers or both text")
    return Part(if_(condition, *parts), kind)


def add(left: Part, right: Part) -> Part:
    """Add numbers, or concatenate if a side is text."""
    if ValueKind.TEXT in (left.kind, right.kind):
        return Part(call("concat", left.text, right.text), ValueKind.TEXT)
    return calculate("+", "try_add", left, right)


def calculate(sign: str, checked: str, left: Part, right: Part) -> Part:
    """Calculate a number: an integer if both sides are, NULL out of the range of INT64."""
    if ValueKind.REAL in (left.kind, right.kind):
        return Part(call(sign, left.real, right.real), ValueKind.REAL)
    return Part(call(checked, left.number, right.number), ValueKind.INTEGER)


def division(sign: str, whole_sign: str) -> Callable[[Part, Part], Part]:
    """Return the operator of a quotient or remainder, an integer for integers. A divisor of 0 raises an error, as in JEXL."""

    def operator(left: Part, right: Part) -> Part:
        is_real = ValueKind.REAL in (left.kind, right.kind)
        divisor = right.real if is_real else right.number
        is_constant = isinstance(right.node, Value) and right.kind in (ValueKind.INTEGER, ValueKind.REAL)
        if is_constant and right.node in (bigint(0), double(0)):
            raise type_error(f"JEXL error : {sign} error", hint="divide by something other than 0")
        used = call(sign if is_real else whole_sign, left.real if is_real else left.number, divisor)
        problem = raise_error(string(f"301: {sign} by zero in JEXL"), DOUBLE if is_real else INT64)
        guarded = used if is_constant else if_(divisor.equals(integer(0)), problem, used)
        return Part(guarded, ValueKind.REAL if is_real else ValueKind.INTEGER)

    return operator


def comparison(sign: str, spark_sign: str) -> Callable[[Part, Part], Part]:
    """Return a comparison operator. Two texts compare as texts; a text and a number compare as numbers, if the text is one."""

    def operator(left: Part, right: Part) -> Part:
        if left.kind is right.kind and left.kind is not ValueKind.REAL:
            return boolean_part(call(spark_sign, left.node, right.node))
        if ValueKind.TEXT in (left.kind, right.kind):
            sides = [part.node.try_cast("double") if part.kind is ValueKind.TEXT else part.real for part in (left, right)]
            return boolean_part(call("coalesce", call(spark_sign, *sides), TRUE if sign == "!=" else FALSE))
        compared = call(spark_sign, left.real, right.real)
        comparable = [negated(call("isnan", part.real)) for part in (left, right)]
        if sign == "!=":
            return boolean_part(either(compared, negated(both(*comparable))))
        return boolean_part(both(compared, *comparable))

    return operator


def match_regexp(left: Part, right: Part) -> Part:
    """Return whether a whole text matches a regular expression."""
    if left.kind is not ValueKind.TEXT or right.kind is not ValueKind.TEXT:
        raise unsupported_error("=~ of anything but text")
    return boolean_part(call("matches", left.node, call("concat", string("^(?:"), right.node, string(")$"))))


def logical(word: str) -> Callable[[Part, Part], Part]:
    return lambda left, right: boolean_part(call(word, left.truth, right.truth))


OPERATORS: Final[dict[str, Callable[[Part, Part], Part]]] = {
    "||": logical("or"),
    "&&": logical("and"),
    "=~": match_regexp,
    "+": add,
    "-": lambda left, right: calculate("-", "try_subtract", left, right),
    "*": lambda left, right: calculate("*", "try_multiply", left, right),
    "/": division("/", "div"),
    "%": division("%", "%"),
    **{sign: comparison(sign, {"==": "=", "!=": "<>"}.get(sign, sign)) for sign in ("==", "!=", "<", "<=", ">", ">=")},
}
ACCEPTED_TYPES: Final[Sequence[TypeKind]] = (*NUMERIC, TypeKind.VARCHAR, TypeKind.BOOL)

JEXL: Final = RowFunction(
    "jexl", 1, None, jexl, "the lambda `expr`, such as `x -> {x * 2}`, of the inputs", accepts=tuple(ACCEPTED_TYPES)
)
