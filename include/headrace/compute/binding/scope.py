"""The scope in which the names of a query are resolved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.compute.language import Language
from headrace.compute.nodes import FALSE, Node, call, string
from headrace.errors import NotSupportedError
from headrace.model.tables import ColumnReference, Database, Name, Table


@dataclass(frozen=True, slots=True)
class SeriesNames:
    """A predicate for series with these keys."""

    names: tuple[str, ...]

    def condition(self, column: Node) -> Node:
        """Return the condition on a series key."""
        if len(self.names) == 1:
            return column.equals(string(self.names[0]))
        return call("in", column, *map(string, self.names)) if self.names else FALSE


@dataclass(frozen=True, slots=True)
class SeriesPattern:
    """A predicate for series whose whole key matches a regular expression."""

    pattern: str

    def condition(self, column: Node) -> Node:
        """Return the condition on a series key."""
        return call("matches", column, string(f"^(?:{self.pattern})$"))


SeriesPredicate = SeriesNames | SeriesPattern


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, and a predicate that selects its series, None for all; `references` are those of a virtual table's columns."""

    table: Table
    database: Database
    series: SeriesPredicate | None = None
    references: tuple[ColumnReference, ...] = ()

    @property
    def subtable(self) -> str | None:
        """The only series selected by name, if there is exactly one."""
        match self.series:
            case SeriesNames(names=(name,)):
                return name
            case _:
                return None


@dataclass(frozen=True, slots=True)
class Scope:
    """What the names and expressions of one statement mean.

    Attributes:
        resolve: Returns the relations of a name: one for a table or subtable, several for a pattern over series of several tables.
            Raises `NotFoundError` if there are none. Names may lack a database; `resolve` applies the current one.
        language: Functions, operators and rules of the statement's language.
        timezone: Time zone of a SELECT without FROM, as an IANA name or an offset such as `+08:00`. Other queries use the time zone
            of their source's database.
        now: The present, in epoch milliseconds.
    """

    resolve: Callable[[Name], Sequence[Relation]]
    language: Language
    timezone: str = "UTC"
    now: int = 0

    def relation(self, name: Name) -> Relation:
        """Return the relation of a name, or raise `NotSupportedError` if it refers to several tables."""
        relation, *others = self.resolve(name)
        if others:
            raise NotSupportedError(f"{name} refers to {len(others) + 1} tables", hint="name one table", span=name.span)
        return relation
