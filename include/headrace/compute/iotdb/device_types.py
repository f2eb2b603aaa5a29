"""Measurements of ALIGN BY DEVICE that have different types on different devices.

A column of the result must have one type, but `count(s1)`, `avg(s1)` and `s1 = s1` have one for all types of `s1`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.compute.functions.scalars import ScalarArguments, ScalarFunction
from headrace.compute.iotdb.aggregates import COUNTING
from headrace.compute.iotdb.types import NUMERIC, TEXTUAL, type_name
from headrace.compute.nodes import if_
from headrace.compute.terms import Term
from headrace.errors import TypeMismatchError
from headrace.model.expressions import Call, Case, Cast, ColumnRef, Expression, Literal, transform, walk
from headrace.model.spans import Span
from headrace.model.trees import Device, SeriesRef
from headrace.model.types import DOUBLE, DataType

PRESENCE_ONLY: Final = COUNTING | {"is null", "is not null"}
"""Functions that only need to know whether their argument has a value."""


def common_type(name: str, types: Collection[DataType], nodes: Sequence[Expression], span: Span | None) -> DataType | None:
    """Return the type of the column of a measurement that has one of several types, depending on the device.

    It is DOUBLE for numbers, and None if only the presence of values matters to `nodes`, all expressions of the query. Raise
    `TypeMismatchError` if they need the values themselves.
    """
    if len(types) == 1:
        return next(iter(types))
    if not any(needs_value(node, name) for node in nodes):
        return None
    if all(type_.kind in NUMERIC for type_ in types) and not any(is_written(node, name) for node in nodes):
        return DOUBLE
    raise mixed_types(span)


def needs_value(node: Expression, name: str) -> bool:
    def hide(part: Expression) -> Expression | None:
        is_presence = isinstance(part, Call) and part.function in PRESENCE_ONLY and part.arguments == (ColumnRef(name),)
        return Literal(None) if is_presence else None

    return refers_to(transform(node, hide), name)


def is_written(node: Expression, name: str) -> bool:
    """Return whether an expression casts a number that depends on a measurement to text, which shows its type."""
    casts = (part for part in walk(node) if isinstance(part, Cast) and part.type.kind in TEXTUAL)
    return any(refers_to(part.operand, name) for part in casts)


def written_types(types: Mapping[str, Collection[DataType]], nodes: Sequence[Expression]) -> dict[str, tuple[DataType, ...]]:
    """Return the types of the measurements of several numeric types that expressions cast to text, in a fixed order."""
    return {
        name: tuple(sorted(own, key=str))
        for name, own in types.items()
        if len(own) > 1 and all(type_.kind in NUMERIC for type_ in own) and any(is_written(node, name) for node in nodes)
    }


def typed_name(name: str, type_: DataType) -> str:
    """Return the name of the column with the values of a measurement on devices where it has a type. No path has such a name."""
    return f"{name} as {type_name(type_)}"


def split_casts(node: Expression, types: Mapping[str, Sequence[DataType]]) -> Expression:
    def change(part: Expression) -> Expression | None:
        if not isinstance(part, Cast) or part.type.kind not in TEXTUAL:
            return None
        names = [name for name in types if refers_to(part.operand, name)]
        if len(names) != 1:
            return None
        operands = [with_name(part.operand, names[0], typed_name(names[0], type_)) for type_ in types[names[0]]]
        return Case(
            tuple((Call("is not null", (operand,)), replace(part, operand=operand)) for operand in operands), span=part.span
        )

    return transform(node, change)


def devices_by_type(
    devices: Iterable[tuple[Device, Mapping[str, SeriesRef]]], names: Collection[str]
) -> dict[str, dict[DataType, list[str]]]:
    """Return the paths of the devices on which measurements of several types have each type, unless all of them are numeric."""
    typed: dict[str, dict[DataType, list[str]]] = {name: defaultdict(list) for name in names}
    for device, refs in devices:
        for name in names:
            if name in refs:
                typed[name][refs[name].type].append(device.path)
    return {name: own for name, own in typed.items() if any(type_.kind not in NUMERIC for type_ in own)}


def split_devices(node: Expression, types: Mapping[str, Mapping[DataType, Collection[str]]], device: Expression) -> Expression:
    """Evaluate an expression with a measurement of several types, of which not all are numeric, device by device.

    `types` has devices by measurement and type; `device` is what has the device of a row.
    """
    name = next((name for name in types if needs_value(node, name)), None)
    if name is None or isinstance(node, ColumnRef):
        return node
    chosen: Expression | None = None
    for type_, devices in types[name].items():
        others = {other: restrict(own, devices) for other, own in types.items() if other != name}
        own = split_devices(with_name(node, name, typed_name(name, type_)), others, device)
        # The first one is also that of devices that lack the measurement.
        is_own = Call("in", (device, *map(Literal, devices)))
        chosen = own if chosen is None else Call(CHOICE.name, (is_own, own, chosen), span=node.span)
    return chosen or node


def choose(arguments: ScalarArguments) -> Term:
    """Return the second argument where the first is true, else the third. Unlike CASE, it keeps the type."""
    condition, yes, no = arguments.terms
    if yes.type is not None and no.type is not None and yes.type != no.type:
        raise mixed_types(None)
    return Term(if_(condition.node, yes.node, no.node), yes.type or no.type)


CHOICE: Final = ScalarFunction("choose by device", 3, 3, choose, "")
"""What expressions that are evaluated device by device call; no statement can."""


def restrict(types: Mapping[DataType, Collection[str]], devices: Collection[str]) -> dict[DataType, list[str]]:
    """Return those of the devices on which a measurement has each type; one type without devices if there are none."""
    chosen = frozenset(devices)
    kept = {type_: [device for device in own if device in chosen] for type_, own in types.items()}
    return {type_: own for type_, own in kept.items() if own} or {next(iter(types)): []}


def with_name(node: Expression, name: str, new: str) -> Expression:
    """Rename a column of an expression."""
    return transform(node, lambda part: replace(part, name=new) if isinstance(part, ColumnRef) and part.name == name else None)


def refers_to(node: Expression, name: str) -> bool:
    return any(isinstance(part, ColumnRef) and part.name == name for part in walk(node))


def check_equal(results: Iterable[Sequence[tuple[Expression, DataType]]], span: Span | None) -> None:
    """Raise `TypeMismatchError` if a column of the result has several types, given the columns for devices of each kind."""
    types: dict[Expression, DataType] = {}
    for columns in results:
        for node, type_ in columns:
            if types.setdefault(node, type_) != type_:
                raise mixed_types(span)


def mixed_types(span: Span | None) -> TypeMismatchError:
    return TypeMismatchError(
        "ALIGN BY DEVICE: the data types of the same measurement column should be the same across devices.",
        hint="name the devices of one type in FROM, or cast to one type, as in CAST(x AS DOUBLE)",
        span=span,
    )
