"""Where the rows of a plan come from: tables, and series of trees."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.compute.nodes import Node
from headrace.model.tables import ColumnReference, Database, Table, TableId


@dataclass(frozen=True, slots=True)
class Scan:
    """A read of one table.

    Attributes:
        subtable: The only series that the query reads, if it names one.
        columns: The physical columns, tags and the series key that the plan uses, in table order.
        condition: Restricts the rows to the requested series. The `filter` of a plan over the scan includes it, and a
            join or a union of scans applies it, so a reader of the scan may ignore it.
        references: Where the columns of a virtual table come from.
    """

    table: Table
    database: Database
    subtable: str | None
    alias: str | None
    columns: tuple[str, ...]
    condition: Node | None = None
    references: tuple[ColumnReference, ...] = ()

    @property
    def values(self) -> tuple[str, ...]:
        """The columns besides the timestamp, tags and series key."""
        return tuple(name for name in self.columns[1:] if name != self.table.series_key and not self.table.is_tag(name))

    @property
    def references_read(self) -> tuple[ColumnReference, ...]:
        """The references of a virtual table that provide its rows: of the columns read, of all if only instants and tags are."""
        values = self.values
        return tuple(reference for reference in self.references if not values or reference.column in values)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags among the columns that are joined to the rows. Reading needs the tags table only if there are any."""
        return tuple(name for name in self.columns if self.table.is_joined(name))


@dataclass(frozen=True, slots=True)
class ScanUnion:
    """Series of several tables, read as one source. `columns` has for each scan pairs of an expression over it and a name."""

    scans: tuple[Scan, ...]
    columns: tuple[tuple[tuple[Node, str], ...], ...]


SLOT = "_slot"


@dataclass(frozen=True, slots=True)
class Regrouping:
    """A further step over rows of series aligned by time: filter them, and return columns of copies numbered in `_slot`."""

    time: Node
    filter: Node | None
    slots: int
    columns: tuple[tuple[Node, str], ...]


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """The stored column that fills a column of `SeriesRows`, and the only device whose rows do; empty for all devices."""

    device: str
    column: str


@dataclass(frozen=True, slots=True)
class SeriesOrigin:
    """A stored column that fills a column of `SeriesRows`; the device is empty for those of all devices."""

    table: TableId
    column: str
    device: str = ""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A group that some values of a device belong to; `columns` are the elements of `_columns` in its rows, `rank` is `_rank`."""

    device: str
    group: str
    columns: tuple[str, ...]
    rank: int


@dataclass(frozen=True, slots=True)
class SeriesRows:
    """Rows of series of trees of devices; those without any of the columns' values are left out.

    Attributes:
        scans: The trees' tables.
        columns: Of each scan the columns and their names, the same names in the same order.
        devices: The devices that the query names, also those without rows.
        aligned: Rows of an instant are one row, NULL where a series has no value then. Without it rows keep their `device`.
        slots: Number of copies of each row, numbered in `_slot`.
        stored: Of each scan the stored series of each column, None for NULL. Empty if a column is computed otherwise, or if rows
            have to meet further conditions than to be of the devices.
        groups: If set, a row is copied for each group of its device, with the group instead of the device. `devices` are the
            groups then.
        projections: Of each scan the columns `time`, `device` and those that `columns` reads; empty if the table has them.
        origins: What each column is filled from.
    """

    scans: tuple[Scan, ...]
    columns: tuple[tuple[tuple[Node, str], ...], ...]
    devices: tuple[str, ...]
    aligned: bool = False
    slots: int = 1
    stored: tuple[tuple[StoredSeries | None, ...], ...] = ()
    groups: tuple[RowGroup, ...] = ()
    projections: tuple[tuple[tuple[Node, str], ...], ...] = ()
    origins: tuple[tuple[SeriesOrigin, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class OneRow:
    """The source of a SELECT without FROM: one row without columns."""
