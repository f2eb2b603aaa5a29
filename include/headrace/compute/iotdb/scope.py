"""The scope against which queries over trees are bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.compute.iotdb.schema import SeriesTree
from headrace.compute.language import Language
from headrace.model.tables import Database, Table


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A stored column, and the Spark type to which its values are converted, if they are."""

    name: str
    cast: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """The table that holds the rows of devices.

    Attributes:
        subtables: Of a table of another language: its subtables by the path of the device that each is. A tree has none: its
            series key is the path.
        columns: Of such a table: its columns by the name that series have for them.
    """

    database: Database
    table: Table
    subtables: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, StoredColumn] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TreeScope:
    """Schema, settings and time (`now`, in epoch milliseconds) against which a query is bound, with the table of each database.

    `ttl_ms` has the time to live by device path. `timezone` is the session's, for texts without a zone and for calendar months.
    """

    language: Language
    tree: SeriesTree
    tables: Mapping[str, DeviceTable]
    timezone: str = "UTC"
    now: int = 0
    ttl_ms: Mapping[str, int] = field(default_factory=dict)
