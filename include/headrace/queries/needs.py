"""What continuous queries need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from headrace.model.access import Privilege
from headrace.model.jobs import JobDefinition
from headrace.model.needs import Needs
from headrace.model.paths import ROOT, PathPattern
from headrace.model.tree_queries import TreeQuery
from headrace.queries.continuous_query import recorded_query
from headrace.trees.scope import series_patterns

if TYPE_CHECKING:
    from headrace.catalog import Catalog

PLACEHOLDERS: Final = ("::", "${")
"""Parts of names in INTO that each series of the result replaces."""


def query_needs(_: Catalog, job: JobDefinition) -> Needs:
    """Return what a continuous query needs. Each execution also asks for the right to write the series that it has."""
    query = recorded_query(job.sql, job.dialect)
    writes = tuple((Privilege.WRITE_DATA, PathPattern(path)) for path in written_paths(query))
    return Needs(
        privileges=(Privilege.USE_CQ,),
        reads_some=tuple(dict.fromkeys(series_patterns(query))),
        paths=writes,
        code=job.functions,
    )


def written_paths(query: TreeQuery) -> Iterator[tuple[str, ...]]:
    """Yield the paths of INTO that do not depend on what the query reads."""
    for target in query.into:
        for measurement in target.measurements:
            path = (*target.device, measurement)
            if path[0] == ROOT and not any(part in node for node in path for part in PLACEHOLDERS):
                yield path
