"""Whether the owner of a job may still run it. A job whose owner may not is STOPPED, wherever it is about to run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.catalog import Catalog
from headrace.context import Context
from headrace.errors import PermissionDeniedError
from headrace.jobs.needs import needs_of
from headrace.model.access import Permissions
from headrace.model.jobs import JobDefinition
from headrace.streams.failures import stop_job
from headrace.trees.owners import check_needs


def check_job(catalog: Catalog, permissions: Permissions, job: JobDefinition) -> None:
    """Raise `PermissionDeniedError` if the owner of a job, who has these permissions, lacks a right that it needs to run."""
    if not permissions.is_administrator:
        check_needs(permissions, job.owner, needs_of(catalog, job))


@contextmanager
def running_as_owner(context: Context, job: JobDefinition) -> Iterator[None]:
    """Check the rights of a job's owner before a part of its work, and stop the job when the owner lacks one then or meanwhile.

    Raises:
        PermissionDeniedError: The owner lacks a right; the job is STOPPED with that as the reason.
    """
    try:
        check_job(context.catalog, context.catalog.access.owner_permissions(job.owner), job)
        yield
    except PermissionDeniedError as error:
        stop_job(context, job.id, error)
        raise
