"""What a query's names are resolved against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.model.tables import Database, Name, Table


@dataclass(frozen=True, slots=True)
class Relation:
    """What a table name means: a table, and the subtable of it where the name is a subtable's."""

    table: Table
    database: Database
    subtable: str | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """The surroundings of one statement.

    `lookup` turns a name as written into a `Relation` and raises `NotFoundError` where there is none; it sees names without a
    database too and applies the current one itself. `timezone` (an IANA name or an offset such as `+08:00`) is that of
    a SELECT without FROM; any other takes the zone of its source's database. `now` is the present in epoch milliseconds.
    """

    lookup: Callable[[Name], Relation]
    timezone: str = "UTC"
    now: int = 0
