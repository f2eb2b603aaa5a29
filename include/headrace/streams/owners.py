"""Whether the owner of a job may still run it. A job whose owner may not is STOPPED, wherever it is about to run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.context import Context
from headrace.errors import PermissionDeniedError
from headrace.jobs.registry import kind_of
from headrace.model.access import Permissions, Privilege
from headrace.model.jobs import JobDefinition
from headrace.streams.failures import stop_job
from headrace.trees.owners import lost


def check_job(permissions: Permissions, job: JobDefinition) -> None:
    """Raise `PermissionDeniedError` if the owner of a job, who has these permissions, lacks a right that it needs to run."""
    if permissions.is_administrator:
        return
    needed = kind_of(job).privilege
    if needed is None:
        check_tables(permissions, job)
    elif not permissions.allows(needed):
        raise lost(job.owner, str(needed))


def check_tables(permissions: Permissions, job: JobDefinition) -> None:
    """Raise `PermissionDeniedError` unless the owner may read the source of a job and write to its target.

    Who may read a virtual table need not know of the tables that its columns come from.
    """
    for source in job.sources if job.virtual is None else (job.virtual,):
        if not permissions.allows_table(Privilege.READ_TABLE, source.database, source.name):
            raise lost(job.owner, f"READ on {source}")
    target = job.target
    if target is not None and not permissions.allows_table(Privilege.WRITE_TABLE, target.database, target.name):
        raise lost(job.owner, f"WRITE on {target}")


@contextmanager
def running_as_owner(context: Context, job: JobDefinition) -> Iterator[None]:
    """Check the rights of a job's owner before a part of its work, and stop the job when the owner lacks one then or meanwhile.

    Raises:
        PermissionDeniedError: The owner lacks a right; the job is STOPPED with that as the reason.
    """
    try:
        check_job(context.catalog.access.owner_permissions(job.owner), job)
        yield
    except PermissionDeniedError as error:
        stop_job(context, job.id, error)
        raise
