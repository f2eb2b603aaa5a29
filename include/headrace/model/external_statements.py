"""The statement that makes a table of another writer a source."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model.external_tables import External, ExternalFormat, OnChange
from headrace.model.spans import Span
from headrace.model.tables import Name, Table
from headrace.model.types import DataType
from headrace.model.values import Statement


@dataclass(frozen=True, slots=True)
class ExternalColumn:
    """`name [type] [FROM column]`; without them it has the type that the source has, and is read from the column of its name."""

    name: str
    type: DataType | None = None
    source: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CreateExternalTable(Statement):
    """`CREATE EXTERNAL STABLE`, or `CREATE EXTERNAL TABLE`, which has no tags: a table or files of another writer.

    Attributes:
        name: Its name.
        columns: The columns, the time first.
        tags: The tags.
        location: The folder or URI of the table, or of the files; empty if a catalog says it.
        series: The tags whose values name the series; empty if all do.
        timezone: Of times without a zone; None for that of the database.
        unit: Of times that are whole numbers; None if it is not said.
        on_change: What a commit that removes or replaces rows means; None for what the format allows.
        format: What is at the location.
        catalog: The catalog, and the name of the table there, namespaces first; empty if there is a location.
        comment: Its comment.
        if_not_exists: Whether a table of the name is no error.
        series_span: Where `series` is.
        location_span: Where `location` is.
        time_span: Where `timezone` or `unit` is.
    """

    name: Name
    columns: tuple[ExternalColumn, ...]
    tags: tuple[ExternalColumn, ...]
    location: str = ""
    series: tuple[str, ...] = ()
    timezone: str | None = None
    unit: str | None = None
    on_change: OnChange | None = None
    format: ExternalFormat = ExternalFormat.DELTA
    catalog: tuple[str, ...] = ()
    comment: str | None = None
    if_not_exists: bool = False
    series_span: Span | None = field(default=None, compare=False)
    location_span: Span | None = field(default=None, compare=False)
    time_span: Span | None = field(default=None, compare=False)


def definition(table: Table, external: External) -> CreateExternalTable:
    """Return the statement that creates an external table as it is."""
    paths = iter(external.sources)
    columns, tags = (
        tuple(ExternalColumn(one.name, one.type, path) for one, path in zip(part, paths, strict=False))
        for part in (table.columns, table.tags)
    )
    return CreateExternalTable(
        Name(table.database, table.name),
        columns,
        tags,
        "" if external.catalog else external.location,
        external.series,
        external.timezone,
        external.unit,
        external.on_change,
        external.format,
        external.catalog,
        table.comment,
    )
