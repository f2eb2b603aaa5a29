"""Whether the owners of jobs may still run them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.jobs import JobDefinition
from headrace.streams.owners import check_job

if TYPE_CHECKING:
    from headrace.catalog import Catalog


class OwnerRights:
    """The rights of the owners of jobs at one moment. Costs one read of a number, whatever the number of jobs."""

    def __init__(self, catalog: Catalog) -> None:
        """Read what has changed."""
        self._catalog, self._permissions = catalog, catalog.access.owners()

    def check(self, job: JobDefinition) -> None:
        """Raise `PermissionDeniedError` if the owner lacks a right that a job needs to run."""
        check_job(self._catalog, self._permissions(job.owner), job)
