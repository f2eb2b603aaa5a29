"""From a `CREATE STREAM` statement to a plan: everything that can be refused is refused here, before anything is created."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.catalog import Catalog
from headrace.compute import Plan, Scope
from headrace.model.statements import CreateStream
from headrace.model.streams import StreamDefinition, StreamOptions
from headrace.model.tables import Database, Table

if TYPE_CHECKING:
    from headrace.streams.groups import GroupRule


@dataclass(frozen=True)
class StreamPlan:
    """A stream, all names resolved.

    Attributes:
        id: Names the stream's state and transactions; new for each `define`.
        database, name: The stream's own name.
        query: The bound query. Its partitions are those of the statement, then hidden ones: the SUBTABLE expression and the
            tags of the target. Its first output column is the window's start (the row's timestamp without a window).
        source: The table whose changes are read, `source_subtable` the one subtable of it that the query names, if it does.
        target: The table that takes the results; `target_exists` tells whether it was there when the statement was checked.
        columns: For each output column of `query`, in order, the column of `target` that it fills.
        groups: How a group of the query gets its subtable of the target, with tags.
        watermark: Ticks of the source's precision.
    """

    id: str
    database: str
    name: str
    sql: str
    options: StreamOptions
    query: Plan
    source: Table
    source_database: Database
    source_subtable: str | None
    target: Table
    target_database: Database
    target_exists: bool
    columns: tuple[str, ...]
    groups: GroupRule
    watermark: int

    def definition(self, *, created: int, snode: str = "default", dialect: str = "tdengine") -> StreamDefinition:
        """What the catalog records of the stream."""
        return StreamDefinition(
            id=self.id,
            database=self.database,
            name=self.name,
            sql=self.sql,
            dialect=dialect,
            source_database=self.source_database.name,
            source_table=self.source.name,
            target_database=self.target_database.name,
            target_table=self.target.name,
            created=created,
            snode=snode,
        )


def catalog_scope(catalog: Catalog, database: str | None, *, timezone: str = "UTC", now: int = 0) -> Scope:
    """The scope in which names without a database mean those of `database`."""
    raise NotImplementedError


def define(statement: CreateStream, catalog: Catalog, database: str | None, *, timezone: str = "UTC", now: int = 0) -> StreamPlan:
    """Check a statement in the context of a current database.

    Creates nothing. Whether a stream of that name exists is the caller's to see.

    Raises:
        InvalidStreamError: the query or an option is none that a stream may have.
        NotSupportedError: a window or trigger mode that is not offered.
        NotFoundError, ExistsError, LimitError, TypeMismatchError: as their names say; all carry the place in the text.
    """
    raise NotImplementedError


def plan_of(definition: StreamDefinition, catalog: Catalog, *, timezone: str = "UTC") -> StreamPlan:
    """The plan of a recorded stream, as `define` gave it, with its id."""
    raise NotImplementedError
