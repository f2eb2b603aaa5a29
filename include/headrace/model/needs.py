"""What a job or a trigger does, for which its owner needs rights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Self

from headrace.model.access import Permissions, Privilege
from headrace.model.egress import Endpoint
from headrace.model.paths import PathPattern
from headrace.model.tables import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a definition reads, writes, reaches and runs.

    Attributes:
        privileges: Privileges that are not on paths or tables.
        reads: The tables of which it reads all rows.
        writes: The tables that it writes.
        reads_some: Patterns of series. It reads those that its owner may read, of each pattern at least one.
        paths: Privileges on all paths of patterns.
        endpoints: The hosts, files and folders that it reaches.
        secrets: References to secrets that it uses, such as `secret:NAME`.
        code: The names of the registered functions and plugins that it runs. Those who may create a job may call them.
    """

    privileges: tuple[Privilege, ...] = ()
    reads: tuple[TableId, ...] = ()
    writes: tuple[TableId, ...] = ()
    reads_some: tuple[PathPattern, ...] = ()
    paths: tuple[tuple[Privilege, PathPattern], ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    secrets: tuple[str, ...] = ()
    code: tuple[str, ...] = ()

    def __add__(self, other: Self) -> Self:
        """Return the needs of both."""
        sums = {one.name: tuple(dict.fromkeys(getattr(self, one.name) + getattr(other, one.name))) for one in fields(self)}
        return type(self)(**sums)

    def lacking(self, permissions: Permissions) -> str | None:
        """Return the first privilege that a user lacks, in words; None if the user has all."""
        if permissions.is_administrator:
            return None
        return next((words for words, is_allowed in self._checked(permissions) if not is_allowed), None)

    def are_readable(self, permissions: Permissions) -> bool:
        """Return whether a user may read all that is read, and so the values that errors quote."""
        patterns = [*self.reads_some, *(pattern for privilege, pattern in self.paths if privilege is Privilege.READ_DATA)]
        return all(permissions.allows_table(Privilege.READ_TABLE, one.database, one.name) for one in self.reads) and all(
            permissions.allows(Privilege.READ_DATA, pattern) for pattern in patterns
        )

    def _checked(self, permissions: Permissions) -> Iterator[tuple[str, bool]]:
        """Yield each privilege in words, and whether a user has it."""
        for privilege in self.privileges:
            yield str(privilege), permissions.allows(privilege)
        for table in self.reads:
            yield f"READ on {table}", permissions.allows_table(Privilege.READ_TABLE, table.database, table.name)
        for table in self.writes:
            yield f"WRITE on {table}", permissions.allows_table(Privilege.WRITE_TABLE, table.database, table.name)
        for pattern in self.reads_some:
            yield f"{Privilege.READ_DATA} on [{pattern}]", permissions.allows_some(Privilege.READ_DATA, pattern)
        for privilege, pattern in self.paths:
            yield f"{privilege} on [{pattern}]", permissions.allows(privilege, pattern)
        for reference in self.secrets:
            yield f"{Privilege.USE_SECRET} on {reference}", permissions.allows_secret(reference)
