"""Series of several tables as one source. Columns match by name and get a type that holds the values of all."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.compute.binding.environment import Environment, SourceColumn, scan_environment
from headrace.compute.language import Language
from headrace.compute.nodes import NULL, Column, Node
from headrace.compute.plan_sources import Scan, ScanUnion
from headrace.compute.terms import ColumnRole
from headrace.compute.types import spark_type, to_ticks
from headrace.errors import NotSupportedError


def bind_scan_union(scans: tuple[Scan, ...], alias: str | None, language: Language) -> tuple[ScanUnion, Environment]:
    """Combine scans into one source, with the columns of the first table followed by those that only others have.

    Raises:
        NotSupportedError: Precisions differ, or a table has a composite key.
    """
    sides = [scan_environment(scan, language) for scan in scans]
    check_sides(sides)
    columns = [
        union_column(number, name, sides, alias, language)
        for number, name in enumerate(dict.fromkeys(name for side in sides for name in column_identities(side)))
    ]
    named = tuple(column.named for column in columns)
    time = next(column for column in named if column.role is ColumnRole.TIME)
    series = next(column for column in named if column.role is ColumnRole.SERIES)
    pairs = tuple(tuple((column.sides[number], column.named.column) for column in columns) for number in range(len(scans)))
    return ScanUnion(scans, pairs), Environment(language, named, sides[0].precision, sides[0].timezone, time, series)


def check_sides(sides: list[Environment]) -> None:
    """Raise `NotSupportedError` if tables cannot be read as one."""
    if any(side.precision != sides[0].precision for side in sides):
        raise NotSupportedError("tables of databases with different precisions cannot be read as one")
    if any(side.key is not None for side in sides):
        raise NotSupportedError("a table with a composite key cannot be read as one with others")


@dataclass(frozen=True, slots=True)
class UnionColumn:
    """A column of the union, and the expression for it over each side."""

    named: SourceColumn
    sides: tuple[Node, ...]


ColumnIdentity = str | ColumnRole
"""Identifies a column across tables: its role if it has one, else its name."""


def column_identities(side: Environment) -> list[ColumnIdentity]:
    """Return what identifies each column across tables."""
    return [column.role or column.name for column in side.columns]


def union_column(number: int, name: ColumnIdentity, sides: list[Environment], alias: str | None, language: Language) -> UnionColumn:
    """Return one column of the union, NULL for tables that lack it."""
    matching = [dict(zip(column_identities(side), side.columns, strict=True)).get(name) for side in sides]
    if name is ColumnRole.TIME:
        return time_column(f"c{number}", sides, alias)
    existing = [column for column in matching if column is not None]
    type_ = language.operators.common_type([column.type for column in existing]) or existing[0].type
    named = replace(existing[0], column=f"c{number}", node=Column(f"c{number}"), type=type_, qualifier=alias, is_converted=False)
    missing, convert = NULL.cast(spark_type(type_)), language.operators.convert
    expressions = tuple(missing if column is None else convert(column.term, type_) for column in matching)
    return UnionColumn(named, expressions)


def time_column(column: str, sides: list[Environment], alias: str | None) -> UnionColumn:
    """Return the timestamp column. It stays as stored, so that conditions on it prune files of each table."""
    times = [side.time for side in sides if side.time is not None]
    named = replace(times[0], column=column, node=to_ticks(Column(column), sides[0].precision), qualifier=alias)
    return UnionColumn(named, tuple(Column(time.column) for time in times))
