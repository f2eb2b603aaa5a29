"""Whether the owners of jobs may still run them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.model.access import Permissions, Privilege
from headrace.model.jobs import JobDefinition
from headrace.pipes.kind import PIPE
from headrace.queries.kind import CONTINUOUS_QUERY
from headrace.trees.owners import lost

if TYPE_CHECKING:
    from headrace.catalog import Catalog

PRIVILEGES: Final = {CONTINUOUS_QUERY: Privilege.USE_CQ, PIPE: Privilege.USE_PIPE}


class OwnerRights:
    """The rights of the owners of jobs at one moment. Costs one read of a number, whatever the number of jobs."""

    def __init__(self, catalog: Catalog) -> None:
        """Read what has changed."""
        self._permissions = catalog.access.owners()

    def check(self, job: JobDefinition) -> None:
        """Raise `PermissionDeniedError` if the owner lacks a right that a job needs to run."""
        permissions = self._permissions(job.owner)
        if permissions.is_administrator:
            return
        needed = PRIVILEGES.get(job.kind)
        if needed is not None and not permissions.allows(needed):
            raise lost(job.owner, str(needed))
        if needed is None:
            check_tables(permissions, job)


def check_tables(permissions: Permissions, job: JobDefinition) -> None:
    """Raise `PermissionDeniedError` unless the owner may read the sources of a job and write to its target."""
    for source in job.sources:
        if not permissions.allows_table(Privilege.READ_TABLE, source.database, source.name):
            raise lost(job.owner, f"READ on {source}")
    target = job.target
    if target is not None and not permissions.allows_table(Privilege.WRITE_TABLE, target.database, target.name):
        raise lost(job.owner, f"WRITE on {target}")
