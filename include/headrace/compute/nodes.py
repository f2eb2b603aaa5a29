"""Bound expressions as trees of nodes. Spark SQL (`str` of a node) and Arrow (`compute.columnar`) are renderings of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from string import Formatter
from typing import TYPE_CHECKING, Final

from headrace.model.instants import PresentInstant

if TYPE_CHECKING:
    import pyarrow as pa


class UnsupportedError(Exception):
    """An expression or plan that only Spark evaluates. Never leaves this package."""


class Node:
    """An expression over the columns of rows. `str` renders it as Spark SQL."""

    __slots__ = ()

    def __add__(self, other: Node) -> Node:
        return Operation("+", (self, other))

    def __sub__(self, other: Node) -> Node:
        return Operation("-", (self, other))

    def __mul__(self, other: Node) -> Node:
        return Operation("*", (self, other))

    def __truediv__(self, other: Node) -> Node:
        return Operation("/", (self, other))

    def __and__(self, other: Node) -> Node:
        return Operation("&", (self, other))

    def __neg__(self) -> Node:
        return Operation("negative", (self,))

    def __lt__(self, other: Node) -> Node:
        return Operation("<", (self, other))

    def __le__(self, other: Node) -> Node:
        return Operation("<=", (self, other))

    def __gt__(self, other: Node) -> Node:
        return Operation(">", (self, other))

    def __ge__(self, other: Node) -> Node:
        return Operation(">=", (self, other))

    def equals(self, other: Node) -> Node:
        """Return `=`, which `==` cannot be: it compares the nodes."""
        return Operation("=", (self, other))

    def is_null(self) -> Node:
        """Return `IS NULL`."""
        return Operation("is null", (self,))

    def is_not_null(self) -> Node:
        """Return `IS NOT NULL`."""
        return Operation("is not null", (self,))

    def cast(self, type_: str) -> Node:
        """Return a cast to a Spark type."""
        return Operation("cast", (self,), type_.lower())

    def try_cast(self, type_: str) -> Node:
        """Return a cast to a Spark type that is NULL for what cannot be converted."""
        return Operation("try_cast", (self,), type_.lower())


@dataclass(frozen=True, slots=True)
class Column(Node):
    """A column of the rows."""

    name: str

    def __str__(self) -> str:
        return self.name if is_plain(self.name) else quote(self.name)


@dataclass(frozen=True, slots=True)
class Value(Node):
    """A constant of a Spark type; type `void` is NULL."""

    value: int | float | str | bytes | bool | date | None
    type: str

    def __str__(self) -> str:
        match self.value:
            case None:
                return "NULL"
            case bool():
                return "true" if self.value else "false"
            case int():
                return (
                    str(self.value)
                    if self.type == "int"
                    else bigint_sql(self.value)
                    if self.type == "bigint"
                    else f"{self.value}BD"
                )
            case date():
                return f"DATE'{self.value}'"
            case float():
                return double_sql(self.value) if self.type == "double" else f"CAST({double_sql(self.value)} AS {self.type.upper()})"
            case bytes():
                return f"X'{self.value.hex()}'"
        return string_sql(self.value)


@dataclass(frozen=True, slots=True)
class Operation(Node):
    """An operator or function in lower case; a cast has a target type."""

    name: str
    operands: tuple[Node, ...]
    type: str = ""

    def __str__(self) -> str:
        operands = [str(operand) for operand in self.operands]
        if self.type:
            return f"{self.name.upper() if self.name == 'cast' else self.name}({operands[0]} AS {self.type.upper()})"
        if self.name in INFIX:
            return f"({f' {INFIX[self.name]} '.join(operands)})"
        if self.name == "in":
            return f"({operands[0]} IN ({', '.join(operands[1:])}))"
        if self.name == "case":
            branches = zip(operands[:-1:2], operands[1::2], strict=True)
            return f"CASE {' '.join(f'WHEN {when} THEN {then}' for when, then in branches)} ELSE {operands[-1]} END"
        template = TEMPLATES.get(self.name)
        return f"{self.name}({', '.join(operands)})" if template is None else template.format(*operands)


@dataclass(frozen=True, slots=True)
class SparkSql(Node):
    """An expression that is known by its text, such as functions of elements, with other expressions in it.

    `apply` gives the same for arrays of `inputs`; None if only Spark computes it.
    """

    parts: tuple[str | Node, ...]
    inputs: tuple[Node, ...] = ()
    apply: Callable[..., pa.Array] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class Present(Node):
    """An instant that follows from the present by the calendar; `sql` is the same as an expression over `NOW`."""

    instant: PresentInstant
    sql: Node

    def __str__(self) -> str:
        return str(self.sql)


@dataclass(frozen=True, slots=True)
class PythonCall(Node):
    """Python code over Arrow arrays, which Spark SQL knows as a function of this name; see `storage.spark.python_calls`.

    `type` is the Spark type of the values.
    """

    name: str
    operands: tuple[Node, ...]
    type: str
    apply: Callable[..., pa.Array] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True, slots=True)
class Places(Node):
    """Several expressions in the place of one, in a list of them."""

    nodes: tuple[Node, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.nodes))


@dataclass(frozen=True, slots=True)
class Over(Node):
    """A function over the rows with the same keys as a row: up to `frame` in an order, or over all of them without one."""

    function: Node
    keys: tuple[Node, ...]
    order: tuple[Node, ...] = ()
    frame: str = ""
    ignores_nulls: bool = False

    def __str__(self) -> str:
        keys = f"PARTITION BY {Places(self.keys)}" if self.keys else ""
        order = f"ORDER BY {Places(self.order)}" if self.order else ""
        within = " ".join(part for part in (keys, order, self.frame) if part)
        return f"{self.function}{' IGNORE NULLS' if self.ignores_nulls else ''} OVER ({within})"


INFIX: Final = {sign: sign for sign in ("+", "-", "*", "/", "%", "div", "&", "|", "^", "=", "<>", "<", "<=", ">", ">=")} | {
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
    "ilike": "ILIKE",
    "matches": "RLIKE",
}
MERGED_MOMENTS: Final = (
    "aggregate(collect_list(named_struct('n', {0}, 'm', {1}, 'q', {2})), "
    "named_struct('n', 0L, 'm', 0D, 'q', 0D), "
    "(a, b) -> CASE WHEN a.n = 0 THEN b WHEN b.n = 0 THEN a ELSE named_struct("
    "'n', a.n + b.n, "
    "'m', a.m + (b.m - a.m) * (b.n / CAST(a.n + b.n AS DOUBLE)), "
    "'q', a.q + b.q + (b.m - a.m) * (b.m - a.m) * (a.n * CAST(b.n AS DOUBLE) / CAST(a.n + b.n AS DOUBLE))) END)"
)
"""The pairwise merge of counts, means and sums of squared deviations, which is numerically stable for any mean."""
TEMPLATES: Final = {
    "not": "(NOT {})",
    "negative": "(-{})",
    "is null": "({} IS NULL)",
    "is not null": "({} IS NOT NULL)",
    "is_negative_zero": "(CAST({} AS STRING) = '-0.0')",
    "join_halves": "try_cast(CAST({} AS DECIMAL(20,0)) * 4294967296L + {} AS BIGINT)",
    "left_bytes": (
        "if(octet_length({0}) <= {1}, {0}, left({0}, char_length(make_valid_utf8(CAST(left(CAST({0} AS BINARY), {1}) AS STRING)))"
        " - if(is_valid_utf8(CAST(left(CAST({0} AS BINARY), {1}) AS STRING)), 0, 1)))"
    ),
    "assigned": "coalesce({0}, if({1} IS NULL, NULL, raise_error(concat(left(CAST({1} AS STRING), 60), {2}))))",
    "mean": "coalesce(avg({0}), 0D)",
    "squares": "coalesce(var_pop({0}) * count({0}), 0D)",
    "merged_mean": MERGED_MOMENTS + ".m",
    "merged_squares": MERGED_MOMENTS + ".q",
    "has_member": "array_contains(json_object_keys({}), {})",
    "between": "({} BETWEEN {} AND {})",
    "asc": "{} ASC",
    "desc": "{} DESC",
    "nulls first": "{} NULLS FIRST",
    "nulls last": "{} NULLS LAST",
    "instant_of": "{}.t",
    "value_of": "{}.v",
    "present_list": "filter(array({}), e -> e IS NOT NULL)",
    "count_between": "size(filter({}, e -> e > {} AND e <= {}))",
    "count_parts": "array_max(transform({}, (part, i) -> if(part <> '', i + 1, 0)))",
    "trim_both": "trim(BOTH {} FROM {})",
    "trim_leading": "trim(LEADING {} FROM {})",
    "trim_trailing": "trim(TRAILING {} FROM {})",
    "surround": "concat({1}, array_join(transform(filter(split({0}, ''), c -> c <> ''), c -> concat(c, {1})), ''))",
    "strcmp": (
        "if(least(char_length({0}), char_length({1})) = 0, char_length({0}) - char_length({1}), coalesce(transform(array("
        "try_element_at(filter(sequence(1, least(char_length({0}), char_length({1}))), "
        "i -> substr({0}, i, 1) <> substr({1}, i, 1)), 1)), i -> ascii(substr({0}, i, 1)) - ascii(substr({1}, i, 1)))[0], "
        "char_length({0}) - char_length({1})))"
    ),
    "position_in_list": r"array_position(split({1}, concat('\\Q', {2}, '\\E')), {0})",
    "first_byte": "if({0} = '', 0L, CAST(conv(hex(substring(CAST({0} AS BINARY), 1, 1)), 16, 10) AS BIGINT))",
    "parse_boolean": "CASE lower({}) WHEN 'true' THEN true WHEN 'false' THEN false END",
    "thousandths": "floor({} / 1000)",
    "parse_instant": (
        "if({0} RLIKE '(Z|z|[+-][0-9]{{2}}:?[0-9]{{2}})$', unix_micros(try_cast({0} AS TIMESTAMP)), unix_micros(to_utc_timestamp("
        "timestamp_micros(timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01', try_cast({0} AS TIMESTAMP_NTZ))), {1})))"
    ),
    "format_wall": "date_format(to_utc_timestamp({}, current_timezone()), {})",
    "parse_wall": "unix_micros(from_utc_timestamp(try_to_timestamp({}, {}), current_timezone()))",
}
"""Operations that are no functions of Spark. `join_halves` adds the sums of the upper and lower halves of BIGINT, NULL if out of
range; `left_bytes` keeps the complete characters in the first bytes of a text; `squares` sums squared deviations from the mean;
`assigned` takes a value converted for a column, NULL if it does not fit, the value itself, and what the error says after it;
`count_parts` counts parts up to the last that is not empty; `surround` puts a text around each character;
`parse_instant` reads the microseconds of a text that is in
a zone unless it names one; `format_wall` and `parse_wall` write and read a wall clock by a pattern of Java."""
NULL: Final = Value(None, "void")
TRUE: Final = Value(True, "boolean")
FALSE: Final = Value(False, "boolean")
NOW: Final = Column("\x00now\x00")
"""The present in ticks, replaced when a plan runs. No literal can contain its name because literals escape NUL."""
TIME: Final = "time"
"""The column of instants of series."""
UNQUOTED: Final = (NOW.name, TIME, "device")
FORMATTER: Final = Formatter()


def call(name: str, *operands: Node) -> Node:
    """Return the call of a function of Spark."""
    return Operation(name, operands)


def spark_sql(template: str, *operands: object, **named: object) -> SparkSql:
    """Return Spark SQL with operands in place of `{}` and `{name}`: nodes, or text that is inserted as it is."""
    parts: list[str | Node] = []
    rest = iter(operands)
    for text, name, _, _ in FORMATTER.parse(template):
        parts.append(text)
        if name is not None:
            operand = named[name] if name else next(rest)
            parts.append(operand if isinstance(operand, Node) else str(operand))
    return SparkSql(tuple(part for part in parts if part != ""))


def if_(condition: Node, yes: Node, no: Node) -> Node:
    """Return one value where a condition is true, and another where it is false or NULL."""
    return Operation("if", (condition, yes, no))


def case(branches: Iterable[tuple[Node, Node]], default: Node = NULL) -> Node:
    """Return the value of the first branch whose condition is true."""
    return Operation("case", (*(part for branch in branches for part in branch), default))


def both(*conditions: Node) -> Node:
    """Return `AND`."""
    return conditions[0] if len(conditions) == 1 else Operation("and", conditions)


def either(*conditions: Node) -> Node:
    return conditions[0] if len(conditions) == 1 else Operation("or", conditions)


def equals_any(equations: Iterable[Node]) -> Node:
    """Return whether one of some equations holds. Those of an operand with constants become one look-up in a set of them."""
    members: dict[tuple[Node, str], dict[Node, None]] = {}
    tests: dict[Node, None] = {}
    for equation in equations:
        match equation:
            case Operation(name="=", operands=(_, Value(type="void")) | (Value(type="void"), _)):
                tests[NULL.cast("boolean")] = None
            case Operation(name="=", operands=(operand, Value() | Operation(name="cast", operands=(Value(),)) as constant)):
                members.setdefault((operand, constant.type), {})[constant] = None
            case _:
                tests[equation] = None
    for (operand, _), constants in members.items():
        one = next(iter(constants))
        tests[operand.equals(one) if len(constants) == 1 else call("in", operand, *constants)] = None
    return either(*tests)


def negated(condition: Node) -> Node:
    """Return `NOT`."""
    return Operation("not", (condition,))


def bigint(value: int) -> Node:
    """Return a constant of type BIGINT."""
    return Value(value, "bigint")


def integer(value: int) -> Node:
    return Value(value, "int")


def double(value: float) -> Node:
    """Return a constant of type DOUBLE."""
    return Value(float(value), "double")


def string(value: str) -> Node:
    """Return a constant text."""
    return Value(value, "string")


def substitute(node: Node, nodes: Mapping[str, Node]) -> Node:
    """Replace columns by other expressions."""
    match node:
        case Column(name=name):
            return nodes.get(name, node)
        case Present(instant=instant, sql=sql):
            match nodes.get(NOW.name):
                case Value(value=int(now)):
                    return bigint(instant.at(now))
            return substitute(sql, nodes)
        case Operation(name=name, operands=operands, type=type_):
            return Operation(name, tuple(substitute(part, nodes) for part in operands), type_)
        case PythonCall(operands=operands):
            return replace(node, operands=tuple(substitute(part, nodes) for part in operands))
        case SparkSql(parts=parts, inputs=inputs):
            written = tuple(substitute(part, nodes) if isinstance(part, Node) else part for part in parts)
            return replace(node, parts=written, inputs=tuple(substitute(part, nodes) for part in inputs))
        case Places(nodes=parts):
            return Places(tuple(substitute(part, nodes) for part in parts))
        case Over(function=function, keys=keys, order=order):
            own = substitute(function, nodes)
            return replace(node, function=own, keys=placed(keys, nodes), order=placed(order, nodes))
    return node


def columns_of(node: Node) -> Iterator[str]:
    """Yield the names of the columns that an expression reads."""
    match node:
        case Column(name=name):
            yield name
        case Present():
            yield NOW.name
        case Operation(operands=parts) | SparkSql(parts=parts) | PythonCall(operands=parts) | Places(nodes=parts):
            for part in (*parts, *(node.inputs if isinstance(node, SparkSql) else ())):
                if isinstance(part, Node) and not isinstance(part, Value):
                    yield from columns_of(part)
        case Over(function=function, keys=keys, order=order):
            for part in (function, *keys, *order):
                yield from columns_of(part)


def placed(parts: Iterable[Node], nodes: Mapping[str, Node]) -> tuple[Node, ...]:
    """Replace the columns of a list of expressions, each by as many as take its place."""
    replaced = (substitute(part, nodes) for part in parts)
    return tuple(own for part in replaced for own in (part.nodes if isinstance(part, Places) else (part,)))


def is_plain(name: str) -> bool:
    """Return whether a name needs no quotes: those of the evaluation, which no word of Spark SQL is."""
    return name in UNQUOTED or (name.isascii() and name.isidentifier() and (name[0] == "_" or name[-1].isdigit()))


def quote(name: str) -> str:
    """Quote a column name as a Spark SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def string_sql(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\x00", "\\0")
    return f"'{escaped}'"


def double_sql(value: float) -> str:
    if math.isnan(value) or math.isinf(value):
        return f"CAST('{value}' AS DOUBLE)"
    return f"{value!r}D"


def bigint_sql(value: int) -> str:
    """Write a BIGINT literal."""
    return f"{value}L" if value > -(2**63) else f"({value + 1}L - 1L)"
