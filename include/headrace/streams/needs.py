"""What streams need."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.errors import Error
from headrace.model.egress import Endpoint
from headrace.model.jobs import JobDefinition
from headrace.model.needs import Needs
from headrace.streams.definition.define import recorded_statement

if TYPE_CHECKING:
    from headrace.catalog import Catalog


def stream_needs(_: Catalog, job: JobDefinition) -> Needs:
    """Return what a stream needs. Who may read a virtual table need not know of the tables that its columns come from."""
    return Needs(
        reads=job.sources if job.virtual is None else (job.virtual,),
        writes=() if job.target is None else (job.target,),
        endpoints=receivers(job),
        code=job.functions,
    )


def receivers(job: JobDefinition) -> tuple[Endpoint, ...]:
    """Return where a stream sends notifications; nowhere if its statement cannot be parsed, as it does not run then."""
    with suppress(Error):
        notification = recorded_statement(job).notification
        return () if notification is None else notification.endpoints
    return ()
