"""JSON values that the page shows of the lineage of a job's columns."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from headrace.jobs.lineage import job_lineage
from headrace.service.lineage_table import LineageOwner, LineageRow, ShownColumn, rows_of

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.model.jobs import JobDefinition

Json = dict[str, Any]
MAX_ROWS: Final = 5_000
"""Pairs of columns that are shown of a job."""


def lineage_view(context: Context, job: JobDefinition) -> Json:
    """Return the columns of a job's targets with what they are made of, and what decides about all columns of a target.

    It has what the user of the context may know of; nothing if the job cannot be planned now.
    """
    known = job_lineage(context, job)
    owner = LineageOwner(job.kind, job.database, job.name, job.id)
    rows = [] if known is None else list(islice(rows_of(context, owner, known), MAX_ROWS))
    columns: dict[ShownColumn, list[Json]] = {}
    for row in rows:
        if row.target is not None:
            columns.setdefault(row.target, []).append(input_field(row))
    return {
        "columns": [{"table": one.label, "column": one.column, "inputs": inputs} for one, inputs in columns.items()],
        "all": distinct(input_field(row) for row in rows if row.target is None),
    }


def input_field(row: LineageRow) -> Json:
    """Return a source column, and what it does."""
    source = row.source
    return {"table": source.label, "column": source.column, "transformation": row.way.value, "direct": row.way.is_direct}


def distinct(fields: Iterable[Json]) -> list[Json]:
    """Return fields without repetitions, such as those of several targets of a job."""
    return list({tuple(field.items()): field for field in fields}.values())
