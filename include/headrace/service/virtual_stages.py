"""Stages of statements about virtual tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.model.tables import ColumnReference
from headrace.service.dispatched import DispatchedStage
from headrace.service.rights import Action, ObjectKind, Right, Securable, table_securable

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from headrace.model.statements import AlterTable
    from headrace.model.tables import Database, Table


@dataclass(frozen=True, slots=True)
class MakeVirtualTable(DispatchedStage):
    """Create a virtual table of one series, with the origins of its columns."""

    table: Table
    database: Database
    references: tuple[ColumnReference, ...]
    if_not_exists: bool

    @property
    def required(self) -> tuple[Right, ...]:
        """CREATE on the table, and READ on its origins."""
        return (Right(Action.CREATE, table_securable(self.table)), *read_origins(self.references))


@dataclass(frozen=True, slots=True)
class MakeVirtualSubtable(DispatchedStage):
    """Create a virtual subtable, with its row of tags and the origins of its columns."""

    table: Table
    name: str
    tags: pa.Table
    references: tuple[ColumnReference, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        """WRITE on the virtual supertable, and READ on the origins."""
        return (Right(Action.WRITE, table_securable(self.table)), *read_origins(self.references))


@dataclass(frozen=True, slots=True)
class ChangeVirtualTable(DispatchedStage):
    """Change the columns of a virtual table of one series. `added` is the origin of an added column."""

    table: Table
    change: AlterTable
    added: ColumnReference | None

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the table, and READ on the origin."""
        origins = () if self.added is None else read_origins([self.added])
        return (Right(Action.ALTER, table_securable(self.table)), *origins)


@dataclass(frozen=True, slots=True)
class ChangeOrigin(DispatchedStage):
    """Change where a column of a series of a virtual table comes from; None makes it NULL."""

    table: Table
    series: str
    column: str
    reference: ColumnReference | None

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the series, and READ on the origin."""
        origins = () if self.reference is None else read_origins([self.reference])
        return (Right(Action.ALTER, table_securable(self.table, self.series)), *origins)


def read_origins(references: Iterable[ColumnReference]) -> tuple[Right, ...]:
    """Return the rights to read the stored tables that references name."""
    names = dict.fromkeys((reference.origin.database, reference.origin_series) for reference in references)
    return tuple(Right(Action.READ, Securable(ObjectKind.TABLE, *name)) for name in names)
