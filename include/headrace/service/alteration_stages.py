"""Stages that alter tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.service.dispatched import DispatchedStage
from headrace.service.rights import Action, Right, table_securable

if TYPE_CHECKING:
    from headrace.model.tables import Column, Database, Table


@dataclass(frozen=True, slots=True)
class TableAlteration(DispatchedStage):
    """Something that changes a table for all of its subtables."""

    table: Table

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the table."""
        return (Right(Action.ALTER, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class AddColumn(TableAlteration):
    """Add a column or tag, NULL in existing rows and subtables."""

    database: Database
    column: Column
    is_tag: bool


@dataclass(frozen=True, slots=True)
class DropColumn(TableAlteration):
    """Drop a column or tag."""

    name: str
    is_tag: bool


@dataclass(frozen=True, slots=True)
class ModifyColumn(TableAlteration):
    """Lengthen the declared type of a column or tag; stored values do not change."""

    column: Column
    is_tag: bool


@dataclass(frozen=True, slots=True)
class RenameTag(TableAlteration):
    """Rename a tag."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class RenameColumn(TableAlteration):
    """Rename a column of a plain table."""

    database: Database
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class SetComment(TableAlteration):
    """Change the comment of a table; None removes it."""

    comment: str | None


@dataclass(frozen=True, slots=True)
class SetTtl(DispatchedStage):
    """Let a plain table, or subtables of a table, expire a number of days from now; 0 for never."""

    table: Table
    names: tuple[str, ...]
    days: int

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on each table."""
        return tuple(Right(Action.ALTER, table_securable(self.table, name)) for name in self.names)
