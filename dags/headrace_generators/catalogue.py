"""From the catalog to DAGs, with one query."""

from __future__ import annotations

from collections.abc import Iterator

from airflow.sdk import DAG

from headrace.catalog import Catalog
from headrace.model.streams import DesiredState, StreamDefinition
from headrace.runtime.dag_ids import snode_dag_id, stream_dag_id
from headrace.settings import Settings, current
from headrace_generators.snode import snode_dag
from headrace_generators.stream import stream_dag


def generate(only: str | None = None) -> Iterator[DAG]:
    """Every DAG of the catalog, or the one that is asked for."""
    settings = current()
    definitions = read(settings)
    for name in sorted({settings.snode, *(definition.snode for definition in definitions)}):
        if only in (None, snode_dag_id(name)):
            yield snode_dag(name, settings)
    for definition in definitions:
        if only in (None, stream_dag_id(definition.database, definition.name)):
            yield stream_dag(definition, settings)


def read(settings: Settings) -> list[StreamDefinition]:
    """The streams that have not been dropped."""
    with Catalog.open(settings.catalog) as catalog:
        return [record.definition for record in catalog.streams.all() if record.desired is not DesiredState.DROPPED]
