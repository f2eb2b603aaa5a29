"""Stages of databases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.service.rights import Action, Right, database_securable

if TYPE_CHECKING:
    from headrace.model.jobs import JobRecord
    from headrace.model.tables import Database, Table
    from headrace.storage import Bounds


@dataclass(frozen=True, slots=True)
class MakeDatabase:
    """Create a database."""

    database: Database
    if_not_exists: bool

    @property
    def required(self) -> tuple[Right, ...]:
        """CREATE on the database."""
        return (Right(Action.CREATE, database_securable(self.database.name)),)


@dataclass(frozen=True, slots=True)
class ChangeDatabase:
    """Change options of a database, and leave the others as they are."""

    name: str
    options: tuple[tuple[str, str], ...]

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the database."""
        return (Right(Action.ALTER, database_securable(self.name)),)


@dataclass(frozen=True, slots=True)
class CompactDatabase:
    """Compact the tables of a database (only files with rows of a range, if there is one), and remove files that nothing needs."""

    name: str
    bounds: Bounds | None = None

    @property
    def required(self) -> tuple[Right, ...]:
        """ALTER on the database."""
        return (Right(Action.ALTER, database_securable(self.name)),)


@dataclass(frozen=True, slots=True)
class RemoveDatabase:
    """Drop a database with its tables and streams."""

    name: str
    tables: tuple[Table, ...]
    streams: tuple[JobRecord, ...]

    @property
    def required(self) -> tuple[Right, ...]:
        """DROP on the database."""
        return (Right(Action.DROP, database_securable(self.name)),)


@dataclass(frozen=True, slots=True)
class SwitchDatabase:
    """Make a database the session's current one."""

    name: str

    @property
    def required(self) -> tuple[Right, ...]:
        """DESCRIBE on the database."""
        return (Right(Action.DESCRIBE, database_securable(self.name)),)
