"""Series of several tables as one source: columns by name, each of the type that holds the values of all."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.compute.binding.environment import Environment, SourceColumn, of_scan
from headrace.compute.language import Language
from headrace.compute.plan import Scan, ScanUnion
from headrace.compute.terms import ColumnRole, quote
from headrace.compute.types import spark_type, to_ticks
from headrace.errors import NotSupportedError


def scan_union(scans: tuple[Scan, ...], alias: str | None, language: Language) -> tuple[ScanUnion, Environment]:
    """Return scans as one source, with its names: those of the first table, then what others have more.

    Raises:
        NotSupportedError: precisions differ, or a table has a composite key.
    """
    sides = [of_scan(scan, language) for scan in scans]
    check_sides(sides)
    columns = [
        union_column(number, name, sides, alias, language)
        for number, name in enumerate(dict.fromkeys(name for side in sides for name in names_of(side)))
    ]
    named = tuple(column.named for column in columns)
    time = next(column for column in named if column.role is ColumnRole.TIME)
    series = next(column for column in named if column.role is ColumnRole.SERIES)
    pairs = tuple(tuple((column.sides[number], column.named.column) for column in columns) for number in range(len(scans)))
    return ScanUnion(scans, pairs), Environment(language, named, sides[0].precision, sides[0].timezone, time, series)


def check_sides(sides: list[Environment]) -> None:
    """Refuse tables that cannot be read as one."""
    if any(side.precision != sides[0].precision for side in sides):
        raise NotSupportedError("tables of databases with different precisions cannot be read as one")
    if any(side.key is not None for side in sides):
        raise NotSupportedError("a table with a composite key cannot be read as one with others")


@dataclass(frozen=True, slots=True)
class UnionColumn:
    """A column of the union, and what it is of each side, as Spark SQL."""

    named: SourceColumn
    sides: tuple[str, ...]


Name = str | ColumnRole
"""What tells that columns of two tables are the same: their name, or their role."""


def names_of(side: Environment) -> list[Name]:
    return [column.role or column.name for column in side.columns]


def union_column(number: int, name: Name, sides: list[Environment], alias: str | None, language: Language) -> UnionColumn:
    """Return one column; NULL of tables that have none of that name."""
    own = [dict(zip(names_of(side), side.columns, strict=True)).get(name) for side in sides]
    if name is ColumnRole.TIME:
        return time_column(f"c{number}", sides, alias)
    present = [column for column in own if column is not None]
    type_ = language.operators.common([column.type for column in present]) or present[0].type
    named = replace(present[0], column=f"c{number}", sql=f"c{number}", type=type_, qualifier=alias, converted=False)
    missing, converted = f"CAST(NULL AS {spark_type(type_)})", language.operators.converted
    texts = tuple(missing if column is None else converted(column.term, type_) for column in own)
    return UnionColumn(named, texts)


def time_column(column: str, sides: list[Environment], alias: str | None) -> UnionColumn:
    """Return the timestamp. It stays as stored, so that conditions on it choose files of each table."""
    times = [side.time for side in sides if side.time is not None]
    named = replace(times[0], column=column, sql=to_ticks(column, sides[0].precision), qualifier=alias)
    return UnionColumn(named, tuple(quote(time.column) for time in times))
