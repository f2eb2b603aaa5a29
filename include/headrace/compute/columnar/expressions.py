"""Expressions rendered with Arrow: their values over columns, which are those of Spark.

A function has one entry in a table: the types of its operands, and its kernel over arrays or scalars. What is not there, and types
that it does not take, raise `UnsupportedError` before any row is read (`type_of`). Values that Spark refuses, such as sums out of
range, raise it during evaluation: Spark then reports them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar import mathematics
from headrace.compute.columnar.arrays import (
    TIMESTAMP,
    TYPES,
    Values,
    any_true,
    apply_code,
    arrow_type,
    by_row,
    refuse,
)
from headrace.compute.columnar.casts import cast, nulls_like
from headrace.compute.columnar.numbers import NUMBER_FUNCTIONS, common_type, is_number, typed
from headrace.compute.columnar.texts import TEXT_FUNCTIONS
from headrace.compute.columnar.times import TIME_FUNCTIONS
from headrace.compute.nodes import Column, Node, Operation, PythonCall, SparkSql, UnsupportedError, Value, columns_of, if_
from headrace.compute.sql_text import unassignable

ROWS: Final = "\x00rows"
"""A column that is there although no expression reads it: its length is the number of rows."""


def type_of(node: Node, types: Mapping[str, pa.DataType]) -> pa.DataType:
    """Return the type of an expression over columns of these types: that of its values over no rows.

    Raise `UnsupportedError` if only Spark computes it.
    """
    empty = {name: pa.array([], types[name]) for name in columns_of(node) if name in types}
    return evaluate(node, empty | {ROWS: pa.nulls(0)}).type


def evaluate(node: Node, columns: Mapping[str, Values]) -> Values:
    """Return the values of an expression; a scalar if it reads no column.

    Raise `UnsupportedError` if Spark would refuse a value, or is the only one to compute it.
    """
    try:
        return Evaluation(columns).values(node)
    except UnsupportedError:
        if has_no_rows(columns):
            raise
        return Evaluation(columns, by_branch=True).values(node)


@dataclass(frozen=True)
class Evaluation:
    """Evaluates expressions over columns.

    By branch, an operand of CASE and the like is evaluated for the rows that choose it alone, as Spark may refuse it for others.
    Else it is for all rows, which is faster.
    """

    columns: Mapping[str, Values]
    by_branch: bool = False

    def values(self, node: Node) -> Values:
        """Return the values of an expression, or raise `UnsupportedError`."""
        match node:
            case Column(name=name) if name in self.columns:
                return self.columns[name]
            case Value(value=value, type=type_):
                exact = Decimal(value) if isinstance(value, int) and type_.startswith("decimal") else value
                return applied(partial(pa.scalar, exact, arrow_type(type_)))
            case Operation(name="cast" | "try_cast" as name, operands=(operand,), type=type_):
                return applied(lambda values: cast(values, type_, is_try=name == "try_cast"), self.values(operand))
            case Operation(name="struct" | "array" | "named_struct"):
                return self._compound(node)
            case SparkSql(inputs=inputs, apply=code) if code is not None:
                return applied(partial(apply_all, code), *map(self.values, inputs))
            case Operation(name="if" | "case" | "coalesce" | "raise_error"):
                return self._choice(node)
            case Operation():
                return self._apply(node)
            case PythonCall(operands=operands, type=type_, apply=code) if type_ in TYPES and operands:
                arguments = [self.values(operand) for operand in operands]
                return pa.array([], TYPES[type_]) if has_no_rows(self.columns) else apply_code(code, arguments)
        raise UnsupportedError(str(node))

    def _apply(self, node: Operation) -> Values:
        operands = [self.values(operand) for operand in node.operands[: 1 if node.name == "in" else None]]
        if node.name != "in":
            return apply(node.name, operands)
        texts = texts_of(node.operands[1:])
        if texts is None or not pa.types.is_string(operands[0].type):
            return apply("in", [*operands, *map(self.values, node.operands[1:])])
        found = applied(partial(pc.is_in, value_set=texts), operands[0])
        return pc.if_else(pc.is_valid(operands[0]), found, pa.scalar(None, pa.bool_()))

    def _choice(self, node: Operation) -> Values:
        """Return the values of an operation that evaluates not all of its operands for each row."""
        match node.name, node.operands:
            case "case", operands:
                return self.values(nested(operands))
            case "if", (condition, first, second):
                chosen = as_condition(self.values(condition))
                return one_of(chosen, self._where(chosen, first), self._where(pc.invert(chosen), second))
            case "coalesce", (only,):
                return self.values(only)
            case "coalesce", (first, *rest):
                values = self.values(first)
                return one_of(pc.is_valid(values), values, self._where(pc.is_null(values), Operation("coalesce", tuple(rest))))
        refuse(not has_no_rows(self.columns), "an error")
        return pa.scalar(None, pa.null())

    def _where(self, condition: Values, node: Node) -> Values:
        """Return the values of an expression, by branch only in the rows for which a condition is true, and NULL in the others."""
        if not self.by_branch:
            return self.values(node)
        arrays = [values for values in self.columns.values() if not isinstance(values, pa.Scalar)]
        size = len(arrays[0]) if arrays else 1
        mask = pa.repeat(condition, size) if isinstance(condition, pa.Scalar) else condition
        count = pc.sum(mask).as_py() or 0
        if count == size and size:
            return self.values(node)
        kept = {name: values if isinstance(values, pa.Scalar) else values.filter(mask) for name, values in self.columns.items()}
        values = Evaluation(kept | {ROWS: pa.nulls(count)}, by_branch=True).values(node)
        if isinstance(values, pa.Scalar):
            return values
        indexes = pc.if_else(mask, pc.subtract(pc.cumulative_sum(pc.cast(mask, pa.int64())), 1), pa.scalar(None, pa.int64()))
        return values.take(indexes)

    def _compound(self, node: Operation) -> Values:
        """Return a struct, or a list of one."""
        fields = struct_fields(node)
        values = pc.make_struct(*(self.values(part) for _, part in fields), field_names=[name for name, _ in fields])
        if node.name != "array":
            return values
        if isinstance(values, pa.Scalar):
            return pa.scalar([values], list_of(values.type))
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        return pa.ListArray.from_arrays(pa.array(range(len(array) + 1), pa.int32()), array, list_of(array.type))


def texts_of(nodes: Sequence[Node]) -> pa.Array | None:
    """Return literals as an array if all are texts: a condition may list thousands of series."""
    values = [node.value for node in nodes if isinstance(node, Value) and node.type == "string"]
    return pa.array(values, pa.string()) if len(values) == len(nodes) else None


def apply_all(code: Callable[..., pa.Array], *values: Values) -> Values:
    return apply_code(code, list(values))


def has_no_rows(columns: Mapping[str, Values]) -> bool:
    return any(not isinstance(values, pa.Scalar) and not len(values) for values in columns.values())


def nested(operands: tuple[Node, ...]) -> Node:
    *branches, result = operands
    for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        result = if_(condition, value, result)
    return result


def as_condition(values: Values) -> Values:
    """Return whether a condition is true; NULL is not."""
    if pa.types.is_null(values.type):
        values = nulls_like(values, pa.bool_())
    refuse(not pa.types.is_boolean(values.type), "a condition that is not BOOLEAN")
    return pc.fill_null(values, False)


def one_of(condition: Values, first: Values, second: Values) -> Values:
    """Return the first values where a condition is true, and the second elsewhere, in their common type."""
    type_ = common_type([first.type, second.type])
    return pc.if_else(condition, typed(first, type_), typed(second, type_))


def apply(name: str, values: list[Values]) -> Values:
    """Apply an operator or function to the values of its operands."""
    functions = mathematics.FUNCTIONS if mathematics.ALLOWED.get() and name in mathematics.FUNCTIONS else FUNCTIONS
    refuse(name not in functions, name)
    signature, kernel = functions[name]
    letters = signature.ljust(len(values), signature[-1])
    return applied(kernel, *map(as_operand, values, letters))


def applied(kernel: Callable[..., Values], *values: Values) -> Values:
    try:
        return kernel(*values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError) as error:
        raise UnsupportedError(str(error)) from None


def as_operand(values: Values, letter: str) -> Values:
    """Return values as an operand of the type of a letter, which NULL takes. Raise `UnsupportedError` for other types."""
    accepts, default = OPERANDS[letter]
    if pa.types.is_null(values.type) and default is not None:
        return nulls_like(values, default)
    refuse(not accepts(values.type), f"an operand of type {values.type}")
    return values


def list_of(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def struct_fields(node: Operation) -> list[tuple[str, Node]]:
    """Return name and expression of each field of `struct`, which Spark names, of `named_struct`, or of a list of one of these."""
    match node:
        case Operation(name="struct", operands=operands):
            return [(part.name if isinstance(part, Column) else f"col{number}", part) for number, part in enumerate(operands, 1)]
        case Operation(name="array", operands=(Operation(name="named_struct") as element,)):
            return struct_fields(element)
        case Operation(name="named_struct", operands=operands):
            names = [str(name.value) for name in operands[::2] if isinstance(name, Value)]
            return list(zip(names, operands[1::2], strict=True))
    raise UnsupportedError(str(node))


def present_list(values: Values) -> Values:
    """Return a list of each value, empty for NULL."""
    array = pa.repeat(values, 1) if isinstance(values, pa.Scalar) else values
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    offsets = np.concatenate(([0], np.cumsum(array.is_valid().to_numpy(zero_copy_only=False)))).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), array.drop_null(), list_of(array.type))
    return lists[0] if isinstance(values, pa.Scalar) else lists


def check_assigned(converted: Values, values: Values, message: pa.Scalar) -> Values:
    """Return values as a column holds them.

    Raises:
        DataError: A value could not be converted.
    """
    refuse(pa.types.is_dictionary(converted.type) or pa.types.is_dictionary(values.type), "a value for a column")
    is_lost = pc.and_(pc.is_null(converted), pc.is_valid(values))
    if any_true(is_lost):
        lost = values if isinstance(values, pa.Scalar) else values.filter(is_lost)[0]
        raise unassignable(str(lost.as_py())[:60] + message.as_py())
    return converted


OPERANDS: Final[dict[str, tuple[Callable[[pa.DataType], bool], pa.DataType | None]]] = {
    "*": (lambda _: True, None),
    "o": (pa.types.is_boolean, pa.bool_()),
    "i": (lambda type_: pa.types.is_integer(type_) and type_.bit_width <= 32, pa.int32()),
    "l": (pa.types.is_integer, pa.int64()),
    "n": (is_number, pa.float64()),
    "m": (lambda type_: is_number(type_) or pa.types.is_decimal(type_), pa.float64()),
    "r": (pa.types.is_floating, pa.float64()),
    "t": (pa.types.is_string, pa.string()),
    "b": (pa.types.is_binary, pa.binary()),
    "c": (lambda type_: pa.types.is_string(type_) or pa.types.is_binary(type_), pa.string()),
    "D": (pa.types.is_date32, pa.date32()),
    "T": (lambda type_: type_ == TIMESTAMP, TIMESTAMP),
}
"""Which types an operand may have, by the letters of signatures, and that of NULL."""
FUNCTIONS: Final[dict[str, tuple[str, Callable[..., Values]]]] = {
    **TEXT_FUNCTIONS,
    **TIME_FUNCTIONS,
    **NUMBER_FUNCTIONS,
    "and": ("o", lambda *values: reduce(pc.and_kleene, values)),
    "or": ("o", lambda *values: reduce(pc.or_kleene, values)),
    "not": ("o", pc.invert),
    "is null": ("*", pc.is_null),
    "is not null": ("*", pc.is_valid),
    "assigned": ("*", check_assigned),
    "present_list": ("*", present_list),
    "array_contains": ("*", by_row(lambda members, member: member in members, pa.bool_())),
    "instant_of": ("*", lambda points: pc.struct_field(points, "t")),
    "value_of": ("*", lambda points: pc.struct_field(points, "v")),
}
"""The types of the operands, the last of which holds for all that follow, and the kernel of each function."""
