"""What defined jobs before: each CREATE, ALTER and CREATE OR REPLACE adds a version."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from headrace.catalog.rows.jobs import JOB_VERSIONS
from headrace.catalog.store import Repository
from headrace.model.conversion import from_row
from headrace.model.job_versions import JobVersion

MAX_VERSIONS: Final = 100
"""Versions that are kept of a job; older ones are removed."""


class JobVersions(Repository):
    """The versions of all jobs that exist. A job that replaces another one takes over its versions."""

    def all(self, job_id: str | None = None) -> list[JobVersion]:
        """Return the versions of all jobs, or of one, oldest first."""
        query = select(JOB_VERSIONS).order_by(JOB_VERSIONS.c.job_id, JOB_VERSIONS.c.number)
        return self._all(JobVersion, query if job_id is None else query.where(JOB_VERSIONS.c.job_id == job_id))


def read_versions(connection: Connection, job_id: str) -> list[JobVersion]:
    """Return the versions of a job, oldest first."""
    query = select(JOB_VERSIONS).where(JOB_VERSIONS.c.job_id == job_id).order_by(JOB_VERSIONS.c.number)
    return [from_row(JobVersion, row) for row in connection.execute(query).mappings()]


def add_version(connection: Connection, version: JobVersion) -> None:
    """Record the next version of a job, whatever its number says, unless the statement is that of the last one."""
    last = next(reversed(read_versions(connection, version.job_id)), None)
    if last is not None and last.sql == version.sql:
        return
    number = 1 if last is None else last.number + 1
    connection.execute(insert(JOB_VERSIONS).values(asdict(version) | {"number": number}))
    is_too_old = (JOB_VERSIONS.c.job_id == version.job_id) & (JOB_VERSIONS.c.number <= number - MAX_VERSIONS)
    connection.execute(delete(JOB_VERSIONS).where(is_too_old))


def hand_over(connection: Connection, versions: list[JobVersion], job_id: str) -> None:
    """Record the versions of a job that was replaced as those of another one."""
    if versions:
        connection.execute(insert(JOB_VERSIONS), [asdict(version) | {"job_id": job_id} for version in versions])
