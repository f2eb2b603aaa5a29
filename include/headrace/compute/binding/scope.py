"""What a query's names are resolved against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.compute.language import Language
from headrace.compute.terms import text
from headrace.errors import NotSupportedError
from headrace.model.tables import Database, Name, Table


@dataclass(frozen=True, slots=True)
class SeriesNames:
    """The series of these keys."""

    names: tuple[str, ...]

    def sql(self, column: str) -> str:
        """Return the condition on a series key as Spark SQL."""
        if len(self.names) == 1:
            return f"{column} = {text(self.names[0])}"
        return f"{column} IN ({', '.join(map(text, self.names))})" if self.names else "false"


@dataclass(frozen=True, slots=True)
class SeriesPattern:
    """The series whose whole key matches a regular expression."""

    pattern: str

    def sql(self, column: str) -> str:
        """Return the condition on a series key as Spark SQL."""
        return f"{column} RLIKE {text(f'^(?:{self.pattern})$')}"


SeriesPredicate = SeriesNames | SeriesPattern


@dataclass(frozen=True, slots=True)
class Relation:
    """A table that a name means, and which of its series (None: all)."""

    table: Table
    database: Database
    series: SeriesPredicate | None = None

    @property
    def subtable(self) -> str | None:
        """The one series that is meant by its name, if one is."""
        match self.series:
            case SeriesNames(names=(name,)):
                return name
            case _:
                return None


@dataclass(frozen=True, slots=True)
class Scope:
    """The surroundings of one statement.

    `resolve` turns a name as written into relations: one for a table or a subtable, more for a pattern over series of several
    tables. It raises `NotFoundError` if there are none; it sees names without a database too and applies the current one itself.
    `language` gives the statement its meaning. `timezone` (an IANA name or an offset such as `+08:00`) is that of a SELECT without
    FROM; any other takes the zone of its source's database. `now` is the present in epoch milliseconds.
    """

    resolve: Callable[[Name], Sequence[Relation]]
    language: Language
    timezone: str = "UTC"
    now: int = 0

    def relation(self, name: Name) -> Relation:
        """Return the relation of a name that has to mean one table."""
        first, *others = self.resolve(name)
        if others:
            raise NotSupportedError(f"{name} means {len(others) + 1} tables, not one", hint="name one table", span=name.span)
        return first
