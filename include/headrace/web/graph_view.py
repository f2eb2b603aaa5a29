"""The graph of the page: tables, trees and receivers, and the jobs that move rows between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.jobs.registry import is_known, kind_of
from headrace.model.jobs import JobDefinition, JobRecord
from headrace.model.pipes import PipeStage
from headrace.pipes.ends import PipeEnd, end_of
from headrace.web.view import Json, Overview

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

    def add(self, kind: str, label: str, **facts: Any) -> str:
        """Add a node unless it is there, and return its id."""
        id = f"{kind}:{label}"
        self.nodes.setdefault(id, {"id": id, "label": label, "kind": kind, **facts})
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
    return {"nodes": list(graph.nodes.values()), "edges": graph.edges}


def add_job(graph: Graph, overview: Overview, record: JobRecord) -> None:
    """Add a job with what it reads and writes."""
    definition, rate = record.definition, overview.rate(record)
    address = {kind_of(definition).address: str(definition)} if is_known(definition.kind) else None
    facts = {"state": record.state.value, "lag_ms": overview.lag_ms(record), "address": address, "job_id": definition.id}
    job = graph.add(definition.kind, str(definition), **facts)
    for kind, label in sources_of(definition):
        graph.connect(
            graph.add(kind, label), job, None if rate is None else rate.rows_in, state=facts["state"], lag_ms=facts["lag_ms"]
        )
    for kind, label in targets_of(definition):
        graph.connect(job, graph.add(kind, label), None if rate is None else rate.rows_out, state=facts["state"])


def sources_of(definition: JobDefinition) -> Iterator[tuple[str, str]]:
    """Yield kind and label of what a job reads."""
    if definition.pipe is not None:
        yield node_of(end_of(definition.pipe.source, PipeStage.SOURCE))
    elif definition.continuous_query is not None:
        yield from ((DATA, path) for path in definition.continuous_query.sources[:MAX_PATHS])
    else:
        yield from ((DATA, f"{table.database}.{table.name}") for table in definition.sources)


def targets_of(definition: JobDefinition) -> Iterator[tuple[str, str]]:
    """Yield kind and label of what a job writes."""
    if definition.pipe is not None:
        yield node_of(end_of(definition.pipe.sink, PipeStage.SINK))
    elif definition.continuous_query is not None:
        yield from ((DATA, path) for path in definition.continuous_query.targets[:MAX_PATHS])
    elif definition.target is not None:
        yield DATA, f"{definition.target.database}.{definition.target.name}"


def node_of(end: PipeEnd) -> tuple[str, str]:
    """Return kind and label of an end of a pipe."""
    return DATA if end.is_stored else OUTSIDE, end.label
