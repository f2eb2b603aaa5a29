"""Lineage of columns: which columns of which tables a column of a job's target is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Transformation(StrEnum):
    """How a source column takes part in a target column, in the words of OpenLineage.

    The first three are *direct*, the weakest first: the values go into the target's values. The others decide which rows and
    windows there are, or which of several values is taken.
    """

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    CONDITIONAL = "CONDITIONAL"
    SORT = "SORT"
    FILTER = "FILTER"
    GROUP_BY = "GROUP_BY"
    WINDOW = "WINDOW"
    JOIN = "JOIN"

    @property
    def is_direct(self) -> bool:
        """Whether the source's values go into the target's values."""
        return self in DIRECT


DIRECT: Final = (Transformation.IDENTITY, Transformation.TRANSFORMATION, Transformation.AGGREGATION)


EVERY_DEVICE: Final = "**"


@dataclass(frozen=True, slots=True, order=True)
class ColumnId:
    """A stored column: database, table and column; of a tree also the device, or `EVERY_DEVICE` for all that a query reads.

    The database is empty of what lies outside of the catalog, and of a device whose database does not exist yet.
    """

    database: str
    table: str
    column: str
    device: str = ""


Inputs = Mapping[ColumnId, frozenset[Transformation]]
"""The source columns of something, each with the ways in which it takes part."""
NO_INPUTS: Final[Inputs] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ColumnLineage:
    """A column of a target, and what it is made of."""

    target: ColumnId
    inputs: Inputs


@dataclass(frozen=True, slots=True)
class Lineage:
    """What the columns of a target are made of, and what decides about all of them: conditions, groups, windows and joins."""

    columns: tuple[ColumnLineage, ...] = ()
    indirect: Inputs = field(default_factory=dict)


def joined(*parts: Inputs) -> Inputs:
    """Return the inputs of several parts together."""
    result: dict[ColumnId, frozenset[Transformation]] = {}
    for part in parts:
        for column, ways in part.items():
            result[column] = result.get(column, frozenset()) | ways
    return result


def through(inputs: Inputs, way: Transformation) -> Inputs:
    """Return inputs after a further step: of two direct steps the stronger counts, and what is indirect once stays so."""
    return {column: frozenset(composed(one, way) for one in ways) for column, ways in inputs.items()}


def composed(inner: Transformation, outer: Transformation) -> Transformation:
    """Return what two steps amount to, one after the other."""
    if not inner.is_direct:
        return inner
    return max(inner, outer, key=DIRECT.index) if outer.is_direct else outer


def simplified(inputs: Inputs) -> Inputs:
    """Return the strongest direct way of each column; the indirect ones if there is no direct one."""
    return {column: strongest(ways) for column, ways in inputs.items()}


def strongest(ways: frozenset[Transformation]) -> frozenset[Transformation]:
    """Return the strongest direct way; all of them if none is direct."""
    direct = [way for way in DIRECT if way in ways]
    return frozenset(direct[-1:]) or ways
