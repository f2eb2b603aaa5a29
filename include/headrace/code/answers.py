"""Answers of a code host. They may come from hostile code, so all that is in them is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

import pyarrow as pa

from headrace.code.protocol import GarbageError, Header, Message
from headrace.udf import Type

Kind = Literal["UDTF", "UDAF", "TRIGGER", "SOURCE", "PROCESSOR", "SINK"]
KINDS: Final = ("UDTF", "UDAF", "TRIGGER", "SOURCE", "PROCESSOR", "SINK")
Changes = Mapping[str, str | None]
"""What an instance has stored: JSON texts by key, None for a removed key."""
VALUE_TYPES: Final = frozenset(type_.arrow for type_ in Type)


@dataclass(frozen=True, slots=True)
class ClassDescription:
    """What a class is, and whether it has the form that takes many rows at once."""

    kind: Kind
    vectorized: bool


@dataclass(frozen=True, slots=True)
class CallDescription:
    """What a call returns. A mappable call has one value for each row; the states of a mergeable one can be merged."""

    output_type: Type
    mappable: bool = False
    mergeable: bool = False


def nothing(message: Message) -> None:
    """Read an answer that says nothing."""


def class_description(message: Message) -> ClassDescription:
    """Read the answer to `describe`."""
    kind = message.header.get("kind")
    if kind not in KINDS:
        raise GarbageError("not a description of a class")
    return ClassDescription(cast(Kind, kind), message.header.get("vectorized") is True)


def function_names(message: Message) -> frozenset[str]:
    """Read the answer to `defined_functions`."""
    names = message.header.get("functions")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise GarbageError("not a list of functions")
    return frozenset(names)


def call_description(message: Message) -> CallDescription:
    """Read the answer to `configure`."""
    try:
        output_type = Type(str(message.header.get("output_type")))
    except ValueError:
        raise GarbageError("not a description of a call") from None
    return CallDescription(output_type, message.header.get("mappable") is True, message.header.get("mergeable") is True)


def points_schema(type_: Type) -> pa.Schema:
    """Return the columns of points of a type."""
    return pa.schema([("series", pa.int64()), ("time", pa.int64()), ("value", type_.arrow)])


def points(message: Message) -> pa.Table:
    """Read the answer to `series`."""
    return values_with(message, [("series", pa.int64()), ("time", pa.int64())])


def values(groups: int, message: Message) -> pa.Table:
    """Read the answer to `values` for some groups."""
    return of_groups(groups, values_with(message, []))


def states(groups: int, message: Message) -> pa.Table:
    """Read the answer to `merge` for some groups."""
    return of_groups(groups, values_with(message, [("state", pa.binary())]))


def of_groups(groups: int, table: pa.Table) -> pa.Table:
    """Return a table. Raise `GarbageError` unless it has a row for each group."""
    if table.num_rows != groups:
        raise GarbageError(f"{table.num_rows} values for {groups} groups")
    return table


def values_with(message: Message, columns: list[tuple[str, pa.DataType]]) -> pa.Table:
    """Return the table of a message. Raise `GarbageError` unless it has these columns, without NULL, and values."""
    table = message.table()
    has_columns = [(field.name, field.type) for field in table.schema][:-1] == columns
    if not has_columns or table.schema.names[-1:] != ["value"] or table.schema.types[-1] not in VALUE_TYPES:
        raise GarbageError("not a table of values")
    if any(table[name].null_count for name, _ in columns):
        raise GarbageError("a value is missing")
    return table


def read_changes(header: Header) -> Changes:
    """Return what an instance has stored."""
    changes = header.get("changes")
    if not isinstance(changes, dict) or not all(value is None or isinstance(value, str) for value in changes.values()):
        raise GarbageError("not the entries of a store")
    return changes
