"""What streams need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.model.jobs import JobDefinition
from headrace.model.needs import Needs

if TYPE_CHECKING:
    from headrace.catalog import Catalog


def stream_needs(_: Catalog, job: JobDefinition) -> Needs:
    """Return what a stream needs. Who may read a virtual table need not know of the tables that its columns come from."""
    return Needs(
        reads=job.sources if job.virtual is None else (job.virtual,),
        writes=() if job.target is None else (job.target,),
        code=job.functions,
    )
