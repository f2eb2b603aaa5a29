"""Which columns the results of a job are made of."""

from __future__ import annotations

import logging

from headrace.context import Context
from headrace.errors import Error
from headrace.jobs.registry import is_known, kind_of
from headrace.model.jobs import JobDefinition
from headrace.model.lineage import Lineage

logger = logging.getLogger(__name__)


def job_lineage(context: Context, job: JobDefinition) -> Lineage | None:
    """Return the lineage of a job; None if its kind has none, or it cannot be planned now."""
    part = kind_of(job).lineage if is_known(job.kind) else None
    if part is None:
        return None
    try:
        return part()(context, job)
    except Error as error:
        logger.info("no lineage of %s %s: %s", job.kind, job, error.message)
        return None
