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
from headrace.compute.iotdb.inputs import Attributes
from headrace.compute.iotdb.scalars import RowFunction
from headrace.compute.iotdb.types import BOOLEAN, FLOATING, NUMERIC, TEXT, refusal
from headrace.compute.terms import Term, string_sql
from headrace.errors import TypeMismatchError
from headrace.model.types import DOUBLE, TypeKind

TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+|\d+)|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<name>[A-Za-z_$][\w$]*)|(?P<sign>->|=>|&&|\|\||==|!=|<=|>=|=~|[-+*/%!<>?:(){};,=.\[\]&|^~]))"""
)
WORDS: Final = {"and": "&&", "or": "||", "not": "!", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
WORDS_OF_NUMBERS: Final = {"div": "/", "mod": "%"}
LEVELS: Final = (("||",), ("&&",), ("==", "!=", "=~"), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))
"""Binary operators, from the lowest to the highest precedence."""


class Kind(Enum):
    """The type of a part of an expression during evaluation."""

    WHOLE = "whole"
    REAL = "real"
    TEXT = "text"
    TRUTH = "truth"


@dataclass(frozen=True, slots=True)
class Part:
    """Spark SQL and the kind of its value."""

    sql: str
    kind: Kind

    @property
    def real(self) -> str:
        """The part as a DOUBLE."""
        return self.number if self.kind is Kind.REAL else f"CAST({self.number} AS DOUBLE)"

    @property
    def number(self) -> str:
        """The part as a number: truth is 1 or 0."""
        if self.kind is Kind.TEXT:
            raise unsupported("arithmetic of text", "text can only be joined with + and compared")
        return f"CAST({self.sql} AS BIGINT)" if self.kind is Kind.TRUTH else self.sql

    @property
    def text(self) -> str:
        """The part as a STRING."""
        return self.sql if self.kind is Kind.TEXT else f"CAST({self.sql} AS STRING)"

    @property
    def truth(self) -> str:
        """The part as a condition: numbers are true unless they are 0."""
        if self.kind is Kind.TEXT:
            raise unsupported("text as a condition", "compare it")
        return self.sql if self.kind is Kind.TRUTH else f"({self.sql} <> 0)"


def unsupported(what: str, hint: str = "") -> TypeMismatchError:
    """Return the error for a construct that is not supported."""
    return refusal(
        f"JEXL: {what} is not supported",
        hint=hint
        or "use + - * / %, comparisons, && || !, the ternary ? :, var, if and return; or write it as an expression of SQL",
    )


def jexl(arguments: ScalarArguments) -> Term:
    """Compile a lambda over the inputs: numbers give DOUBLE, text TEXT, booleans BOOLEAN."""
    source = Attributes(arguments.attributes).text("expr")
    parser = Parser(tokens_of(source))
    names = parser.parameters()
    if len(names) < len(arguments.terms):
        raise refusal(f"JEXL: the lambda takes {len(names)} inputs, not {len(arguments.terms)}", hint="name one for each series")
    inputs = {name: input_part(term) for name, term in zip(names, arguments.terms, strict=False)}
    result = replace(parser, names=inputs).body()
    present = " AND ".join(f"{term.sql} IS NOT NULL" for term in arguments.terms)
    type_ = {Kind.TEXT: TEXT, Kind.TRUTH: BOOLEAN}.get(result.kind, DOUBLE)
    return Term(f"if({present}, {result.real if type_ == DOUBLE else result.sql}, NULL)", type_)


def input_part(term: Term) -> Part:
    """Convert an input to a part. FLOAT is read through its decimal text: 1.1, not 1.10000002."""
    kind = term.type.kind if term.type is not None else TypeKind.DOUBLE
    if kind is TypeKind.FLOAT:
        return Part(f"CAST(CAST({term.sql} AS STRING) AS DOUBLE)", Kind.REAL)
    if kind in FLOATING:
        return Part(term.sql, Kind.REAL)
    if kind in NUMERIC:
        return Part(f"CAST({term.sql} AS BIGINT)", Kind.WHOLE)
    return Part(term.sql, Kind.TEXT if kind is TypeKind.VARCHAR else Kind.TRUTH)


def tokens_of(source: str) -> tuple[tuple[str, str], ...]:
    """Split a lambda into pairs of token kind and text; operator words become signs."""
    tokens, at = [], 0
    end = len(source.rstrip())
    while at < end:
        match = TOKEN.match(source, at)
        if match is None:
            raise refusal(f"JEXL: parsing error in {source[at:].strip()[:1]!r}", hint="write it as in 'expr'='x -> {x + 1}'")
        kind = match.lastgroup or ""
        word = match[kind]
        sign = {**WORDS, **WORDS_OF_NUMBERS}.get(word) if kind == "name" else None
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

    def next_is(self, *string: str) -> bool:
        """Return whether the next token is one of these words or signs."""
        return self.at < len(self.tokens) and self.tokens[self.at][0] != "text" and self.tokens[self.at][1] in string

    def take(self) -> tuple[str, str]:
        """Consume and return the next token. Raise `TypeMismatchError` at the end."""
        if self.at == len(self.tokens):
            raise refusal("JEXL: parsing error at the end of the expression", hint="write it as in 'expr'='x -> {x + 1}'")
        self.at += 1
        return self.tokens[self.at - 1]

    def taken(self, *string: str) -> str | None:
        """Consume the next token if it is one of these, and return it."""
        return self.take()[1] if self.next_is(*string) else None

    def expect(self, word: str) -> None:
        """Consume a token that must be this word or sign."""
        token = self.take()[1]
        if token != word:
            raise refusal(f"JEXL: parsing error in {token!r}", hint=f"{word} was expected")

    # The lambda

    def parameters(self) -> list[str]:
        """Parse the parameter names before the arrow."""
        is_function = self.taken("function") is not None
        names = []
        if self.taken("("):
            while not self.taken(")"):
                names.append(self.take()[1])
                self.taken(",")
        else:
            names.append(self.take()[1])
        if not is_function and not self.taken("->", "=>"):
            raise refusal(f"JEXL: {names[0]!r} begins no lambda", hint="write it as in 'expr'='x -> {x + 1}'")
        return names

    def body(self) -> Part:
        """Parse the lambda's body up to the end of the text."""
        value = self.block() if self.taken("{") else self.expression()
        self.taken(";")
        if self.at < len(self.tokens):
            raise refusal(f"JEXL: parsing error in {self.tokens[self.at][1]!r}", hint="it follows the end of the lambda")
        return value

    def block(self) -> Part:
        """Parse a block, whose variables are local; return the value of `return` or of its last statement."""
        names = dict(self.names)
        value = self.statements()
        self.expect("}")
        self.names = names
        return value

    def statements(self) -> Part:
        """Parse variables, then `if`, `return` or an expression, and return the value."""
        while self.taken("var"):
            name = self.take()[1]
            self.expect("=")
            self.names[name] = self.expression()
            self.expect(";")
        if self.taken("if"):
            return self.choice()
        self.taken("return")
        value = self.expression()
        self.taken(";")
        if not self.next_is("}"):
            raise unsupported("a statement whose value is not used")
        return value

    def choice(self) -> Part:
        """Parse `if (…) … else …`. Without `else`, the statements after it are the other branch."""
        self.expect("(")
        condition = self.expression().truth
        self.expect(")")
        then = self.branch()
        other = self.branch() if self.taken("else") else self.statements()
        return either(condition, then, other)

    def branch(self) -> Part:
        """Return the value of one side of an `if`: a block, another `if`, or a statement."""
        if self.taken("{"):
            return self.block()
        if self.taken("if"):
            return self.choice()
        self.taken("return")
        value = self.expression()
        self.taken(";")
        return value

    # Expressions

    def expression(self) -> Part:
        """Parse an expression with an optional ternary."""
        condition = self.operation(0)
        if not self.taken("?"):
            return condition
        then = self.expression()
        self.expect(":")
        return either(condition.truth, then, self.expression())

    def operation(self, level: int) -> Part:
        """Parse a chain of operators of one precedence level, left-associative."""
        if level == len(LEVELS):
            return self.unary()
        left = self.operation(level + 1)
        while sign := self.taken(*LEVELS[level]):
            left = OPERATORS[sign](left, self.operation(level + 1))
        return left

    def unary(self) -> Part:
        """Parse signs and negations, then their operand."""
        if self.taken("!"):
            return Part(f"(NOT {self.unary().truth})", Kind.TRUTH)
        if self.taken("-"):
            operand = self.unary()
            return Part(f"(- {operand.number})", Kind.REAL if operand.kind is Kind.REAL else Kind.WHOLE)
        return self.unary() if self.taken("+") else self.primary()

    def primary(self) -> Part:
        """Parse a literal, a name, or an expression in parentheses."""
        kind, word = self.take()
        if kind == "number":
            return Part(f"{word}L", Kind.WHOLE) if word.isdigit() and int(word) < 2**63 else Part(f"{float(word)!r}D", Kind.REAL)
        if kind == "text":
            return Part(string_sql(re.sub(r"\\(.)", r"\1", word[1:-1])), Kind.TEXT)
        if word == "(":
            inside = self.expression()
            self.expect(")")
            return inside
        if word in ("true", "false"):
            return Part(word, Kind.TRUTH)
        return self.named(kind, word)

    def named(self, kind: str, word: str) -> Part:
        """Return an input or a variable. Raise `TypeMismatchError` for calls and member access, which could reach Java."""
        if kind != "name":
            raise refusal(f"JEXL: parsing error in {word!r}", hint="a value was expected")
        if self.next_is("(", ".", "["):
            raise unsupported(f"the call or member {word}{self.tokens[self.at][1]}…")
        if word not in self.names:
            raise refusal(f"JEXL: variable {word!r} is undefined", hint=f"the lambda has {', '.join(self.names)}")
        return self.names[word]


def either(condition: str, then: Part, other: Part) -> Part:
    """Choose between two values, which must both be numbers, texts or booleans."""
    if then.kind is other.kind:
        kind, parts = then.kind, (then.sql, other.sql)
    elif {then.kind, other.kind} == {Kind.WHOLE, Kind.REAL}:
        kind, parts = Kind.REAL, (then.real, other.real)
    else:
        raise unsupported("a choice between values of different types", "make both numbers or both text")
    return Part(f"if({condition}, {parts[0]}, {parts[1]})", kind)


def added(left: Part, right: Part) -> Part:
    """Add numbers, or concatenate if a side is text."""
    if Kind.TEXT in (left.kind, right.kind):
        return Part(f"concat({left.text}, {right.text})", Kind.TEXT)
    return calculated("+", "try_add", left, right)


def calculated(sign: str, checked: str, left: Part, right: Part) -> Part:
    """Calculate a number: an integer if both sides are, NULL out of the range of INT64."""
    if Kind.REAL in (left.kind, right.kind):
        return Part(f"({left.real} {sign} {right.real})", Kind.REAL)
    return Part(f"{checked}({left.number}, {right.number})", Kind.WHOLE)


def divided(sign: str, whole_sign: str) -> Callable[[Part, Part], Part]:
    """Return the operator of a quotient or remainder, an integer for integers. A divisor of 0 raises an error, as in JEXL."""

    def operator(left: Part, right: Part) -> Part:
        is_real = Kind.REAL in (left.kind, right.kind)
        divisor = right.real if is_real else right.number
        if divisor in ("0L", "0.0D", "CAST(0L AS DOUBLE)"):
            raise refusal(f"JEXL error : {sign} error", hint="divide by something other than 0")
        used = f"{left.real if is_real else left.number} {sign if is_real else whole_sign} {divisor}"
        problem = f"raise_error('301: {sign} by zero in JEXL')"
        guarded = f"if({divisor} = 0, CAST({problem} AS {'DOUBLE' if is_real else 'BIGINT'}), {used})"
        literal = re.fullmatch(r"[\d.e+]+[LD]|CAST\(\d+L AS DOUBLE\)", divisor)
        return Part(f"({used})" if literal else guarded, Kind.REAL if is_real else Kind.WHOLE)

    return operator


def compared(sign: str, spark_sign: str) -> Callable[[Part, Part], Part]:
    """Return a comparison operator. Two texts compare as texts; a text and a number compare as numbers, if the text is one."""

    def operator(left: Part, right: Part) -> Part:
        if left.kind is right.kind and left.kind is not Kind.REAL:
            return Part(f"({left.sql} {spark_sign} {right.sql})", Kind.TRUTH)
        if Kind.TEXT in (left.kind, right.kind):
            sides = [f"try_cast({part.sql} AS DOUBLE)" if part.kind is Kind.TEXT else part.real for part in (left, right)]
            return Part(f"coalesce({sides[0]} {spark_sign} {sides[1]}, {'true' if sign == '!=' else 'false'})", Kind.TRUTH)
        comparable = f"NOT isnan({left.real}) AND NOT isnan({right.real})"
        if sign == "!=":
            return Part(f"({left.real} <> {right.real} OR NOT ({comparable}))", Kind.TRUTH)
        return Part(f"({left.real} {spark_sign} {right.real} AND {comparable})", Kind.TRUTH)

    return operator


def matched(left: Part, right: Part) -> Part:
    """Return whether a whole text matches a regular expression."""
    if left.kind is not Kind.TEXT or right.kind is not Kind.TEXT:
        raise unsupported("=~ of anything but text")
    return Part(f"({left.sql} RLIKE concat('^(?:', {right.sql}, ')$'))", Kind.TRUTH)


def joined(word: str) -> Callable[[Part, Part], Part]:
    """Return `AND` or `OR` of two conditions."""
    return lambda left, right: Part(f"({left.truth} {word} {right.truth})", Kind.TRUTH)


OPERATORS: Final[dict[str, Callable[[Part, Part], Part]]] = {
    "||": joined("OR"),
    "&&": joined("AND"),
    "=~": matched,
    "+": added,
    "-": lambda left, right: calculated("-", "try_subtract", left, right),
    "*": lambda left, right: calculated("*", "try_multiply", left, right),
    "/": divided("/", "div"),
    "%": divided("%", "%"),
    **{sign: compared(sign, {"==": "=", "!=": "<>"}.get(sign, sign)) for sign in ("==", "!=", "<", "<=", ">", ">=")},
}
ACCEPTED: Final[Sequence[TypeKind]] = (*NUMERIC, TypeKind.VARCHAR, TypeKind.BOOL)

JEXL: Final = RowFunction(
    "jexl", 1, None, jexl, "the lambda `expr`, such as `x -> {x * 2}`, of the inputs", accepts=tuple(ACCEPTED)
)
