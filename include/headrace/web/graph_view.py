"""The graph of the page: tables, trees and receivers, and the jobs that move rows between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from headrace.model.execution_history import NO_HISTORY
from headrace.model.jobs import JobDefinition, JobRecord
from headrace.model.pipes import PipeStage
from headrace.pipes.ends import PipeEnd, end_of
from headrace.web.preview import path_preview, table_preview
from headrace.web.view import Json, Overview, job_address

Node: TypeAlias = tuple[str, str, Json | None]
"""Kind and label of a node, and the statement for its latest rows."""
MAX_PATHS: Final = 20
"""Sources and targets of a continuous query that are shown."""
DATA: Final = "data"
OUTSIDE: Final = "outside"
TRIGGER: Final = "trigger"


@dataclass
class Graph:
    """Nodes by id, and edges in the direction of the rows."""

    nodes: dict[str, Json] = field(default_factory=dict)
    edges: list[Json] = field(default_factory=list)

    def add(self, kind: str, label: str, preview: Json | None = None, **facts: Any) -> str:
        """Add a node unless it is there, and return its id. `preview` shows the latest rows of data."""
        id = f"{kind}:{label}"
        node = self.nodes.setdefault(id, {"id": id, "label": label, "kind": kind, **facts})
        if preview is not None:
            node["preview"] = preview
        return id

    def connect(self, source: str, target: str, rate: float | None = None, **facts: Any) -> None:
        """Add an edge, with rows per second if they are known."""
        self.edges.append({"source": source, "target": target, "rate": rate, **facts})


def make_graph(overview: Overview) -> Json:
    """Return the nodes and edges of the jobs and triggers that a user may see."""
    graph = Graph()
    for record in overview.state.jobs.values():
        add_job(graph, overview, record)
    for trigger, _ in overview.triggers:
        watched = graph.add(DATA, trigger.pattern)
        graph.connect(watched, graph.add(TRIGGER, trigger.name, state=trigger.state.value))
    return {"as_of": overview.state.now, "nodes": list(graph.nodes.values()), "edges": graph.edges}


def add_job(graph: Graph, overview: Overview, record: JobRecord) -> None:
    """Add a job with what it reads and writes."""
    definition, rate = record.definition, overview.rate(record)
    facts: Json = {
        "state": record.state.value,
        "lag_ms": overview.lag_ms(record),
        "address": job_address(definition),
        "job_id": definition.id,
        "updated": last_update(overview, record),
        "rows_out": record.progress.counters.rows_out,
    }
    job = graph.add(definition.kind, str(definition), **facts)
    for source in sources_of(definition):
        rows_in = None if rate is None else rate.rows_in
        graph.connect(graph.add(*source), job, rows_in, state=facts["state"], lag_ms=facts["lag_ms"])
    for target in targets_of(definition):
        graph.connect(job, graph.add(*target), None if rate is None else rate.rows_out, state=facts["state"])


def last_update(overview: Overview, record: JobRecord) -> int | None:
    """Return when a job wrote last: a micro-batch, or an execution of a query."""
    last = overview.histories.get(record.definition.id, NO_HISTORY).last
    return record.progress.updated if last is None else last.finished


def sources_of(definition: JobDefinition) -> Iterator[Node]:
    """Yield what a job reads."""
    if definition.pipe is not None:
        yield node_of(end_of(definition.pipe.source, PipeStage.SOURCE))
    elif definition.continuous_query is not None:
        yield from ((DATA, path, path_preview(path)) for path in definition.continuous_query.sources[:MAX_PATHS])
    else:
        yield from ((DATA, str(table), table_preview(table)) for table in definition.sources)


def targets_of(definition: JobDefinition) -> Iterator[Node]:
    """Yield what a job writes."""
    if definition.pipe is not None:
        yield node_of(end_of(definition.pipe.sink, PipeStage.SINK))
    elif definition.continuous_query is not None:
        yield from ((DATA, path, path_preview(path)) for path in definition.continuous_query.targets[:MAX_PATHS])
    elif definition.target is not None:
        yield DATA, str(definition.target), table_preview(definition.target)


def node_of(end: PipeEnd) -> Node:
    """Return an end of a pipe."""
    if not end.is_stored:
        return OUTSIDE, end.label, None
    return DATA, end.label, path_preview(end.label)
