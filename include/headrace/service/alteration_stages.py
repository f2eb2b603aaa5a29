"""Stages that alter tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.service.rights import Action, Right, table_securable

if TYPE_CHECKING:
    from headrace.model.tables import Column, Database, Table


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a column or tag, NULL in existing rows and subtables."""

    table: Table
    database: Database
    column: Column
    is_tag: bool

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the table."""
        return (Right(Action.ALTER, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column or tag."""

    table: Table
    name: str
    is_tag: bool

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the table."""
        return (Right(Action.ALTER, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class ModifyColumn:
    """Lengthen the declared type of a column or tag; stored values do not change."""

    table: Table
    column: Column
    is_tag: bool

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the table."""
        return (Right(Action.ALTER, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class RenameTag:
    """Rename a tag."""

    table: Table
    old: str
    new: str

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the table."""
        return (Right(Action.ALTER, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column of a plain table."""

    table: Table
    database: Database
    old: str
    new: str

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the table."""
        return (Right(Action.ALTER, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class SetComment:
    """Change the comment of a table; None removes it."""

    table: Table
    comment: str | None

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the table."""
        return (Right(Action.ALTER, table_securable(self.table)),)


@dataclass(frozen=True, slots=True)
class SetTtl:
    """Let a plain table, or subtables of a table, expire a number of days from now; 0 for never."""

    table: Table
    names: tuple[str, ...]
    days: int

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on each table."""
        return tuple(Right(Action.ALTER, table_securable(self.table, name)) for name in self.names)


Alteration = AddColumn | DropColumn | ModifyColumn | RenameTag | RenameColumn | SetComment | SetTtl
