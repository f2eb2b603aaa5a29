"""Datasets of OpenLineage: what jobs read and write, under the names of OpenLineage's specification, with schema and lineage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from openlineage.client.facet_v2 import DatasetFacet, column_lineage_dataset, schema_dataset, symlinks_dataset
from openlineage.client.naming.dataset import S3, Kafka, LocalFileSystem

from headrace.context import Context
from headrace.egress import canonical
from headrace.errors import NotFoundError
from headrace.jobs.lineage import job_lineage
from headrace.model.jobs import JobDefinition
from headrace.model.lineage import ColumnId, ColumnLineage, Inputs, Lineage, Transformation
from headrace.model.pipes import PipeStage
from headrace.model.tables import Table, TableId
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.lookup import plugin_name
from headrace.storage.delta.handles import rows_uri

DatasetId = tuple[str, str]
"""Namespace and name."""
KAFKA_PORT: Final = 9092


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset with its facets."""

    namespace: str
    name: str
    facets: dict[str, DatasetFacet]


@dataclass(frozen=True, slots=True)
class JobDatasets:
    """What a job reads and writes."""

    inputs: tuple[Dataset, ...]
    outputs: tuple[Dataset, ...]


def file_id(uri: str) -> DatasetId:
    """Return namespace and name of a folder, as OpenLineage's specification names file systems and object stores."""
    parts = urlsplit(uri)
    if parts.scheme == "s3":
        bucket = S3(parts.netloc, parts.path.strip("/"))
        return bucket.get_namespace(), bucket.get_name()
    if parts.scheme in ("", "file"):
        local = LocalFileSystem(parts.path)
        return local.get_namespace(), local.get_name()
    return f"{parts.scheme}://{parts.netloc}", parts.path


class DatasetReader:
    """Reads the datasets of jobs from the catalog."""

    def __init__(self, context: Context, namespace: str) -> None:
        """Read the catalog of a context; tables have their names in SQL as symlinks in the namespace."""
        self._context, self._namespace = context, namespace
        self._ids: dict[TableId, DatasetId | None] = {}

    def of_job(self, definition: JobDefinition) -> JobDatasets:
        """Return what a job reads and writes. One that cannot be planned now has no lineage of columns."""
        self._ids.clear()
        lineage = job_lineage(self._context, definition) or Lineage()
        sources = dict.fromkeys((*definition.sources, *tables_of(input_columns(lineage))))
        inputs = tuple(self._dataset(table, {}) for table in self._present(sources))
        return JobDatasets(inputs, tuple(self._outputs(definition, lineage)))

    def _outputs(self, definition: JobDefinition, lineage: Lineage) -> Iterator[Dataset]:
        columns: dict[TableId, list[ColumnLineage]] = defaultdict(list)
        for one in lineage.columns:
            columns[TableId(one.target.database, one.target.table)].append(one)
        targets = dict.fromkeys(filter(None, (definition.target, *columns)))
        for table in self._present(targets):
            yield self._dataset(table, self._lineage_facets(columns.get(table.id, []), lineage.indirect))
        if definition.pipe is not None and (id := receiver_id(definition)) is not None:
            yield Dataset(*id, self._lineage_facets(lineage.columns, lineage.indirect))

    def _present(self, tables: Iterable[TableId]) -> Iterator[Table]:
        """Yield those of the tables that exist and are stored here."""
        for id in tables:
            try:
                table = self._context.catalog.tables.get(id.database, id.name)
            except NotFoundError:
                continue
            if not table.is_virtual:
                yield table

    def _dataset(self, table: Table, facets: dict[str, DatasetFacet]) -> Dataset:
        link = symlinks_dataset.Identifier(self._namespace, f"{table.database}.{table.name}", "TABLE")
        return Dataset(
            *self._table_id(table),
            {"schema": schema_of(table), "symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[link])} | facets,
        )

    def _table_id(self, table: Table) -> DatasetId:
        location = None if table.external is None else table.external.location
        return file_id(location or rows_uri(self._context.settings.tables_uri, table))

    def _column_table(self, column: ColumnId) -> DatasetId | None:
        """Return the dataset of a source column; None if its table is gone."""
        id = TableId(column.database, column.table)
        if id not in self._ids:
            self._ids[id] = next(map(self._table_id, self._present([id])), None)
        return self._ids[id]

    def _lineage_facets(self, columns: Iterable[ColumnLineage], indirect: Inputs) -> dict[str, DatasetFacet]:
        """Return the facet of the lineage of columns. Devices of a tree share their columns, whose inputs are put together."""
        merged: dict[str, dict[tuple[DatasetId, str], set[str]]] = defaultdict(lambda: defaultdict(set))
        for one in columns:
            self._merge(merged[one.target.column], one.inputs)
        for_all: dict[tuple[DatasetId, str], set[str]] = defaultdict(set)
        self._merge(for_all, indirect)
        if not merged:
            return {}
        fields = {name: column_lineage_dataset.Fields(inputFields=input_fields(own)) for name, own in merged.items()}
        facet = column_lineage_dataset.ColumnLineageDatasetFacet(fields=fields, dataset=input_fields(for_all))
        return {"columnLineage": facet}

    def _merge(self, merged: dict[tuple[DatasetId, str], set[str]], inputs: Inputs) -> None:
        for column, ways in inputs.items():
            id = self._column_table(column)
            if id is not None:
                merged[id, column.column] |= ways


def input_columns(lineage: Lineage) -> Iterator[ColumnId]:
    """Yield all source columns of a lineage."""
    for inputs in (*(one.inputs for one in lineage.columns), lineage.indirect):
        yield from inputs


def tables_of(columns: Iterable[ColumnId]) -> Iterator[TableId]:
    """Yield the tables of columns."""
    return (TableId(column.database, column.table) for column in columns)


def schema_of(table: Table) -> schema_dataset.SchemaDatasetFacet:
    """Return the columns and tags of a table, and its series key."""
    typed = [(column.name, str(column.type)) for column in (*table.columns, *table.tags)]
    named = [*typed, (table.series_key, "VARCHAR")] if table.has_series else typed
    return schema_dataset.SchemaDatasetFacet(
        fields=[schema_dataset.SchemaDatasetFacetFields(name=name, type=type_) for name, type_ in named]
    )


def input_fields(inputs: dict[tuple[DatasetId, str], set[str]]) -> list[column_lineage_dataset.InputField]:
    """Return input fields with their transformations."""
    return [
        column_lineage_dataset.InputField(
            namespace=id[0],
            name=id[1],
            field=column,
            transformations=[transformation(way) for way in sorted(ways)],
        )
        for (id, column), ways in sorted(inputs.items())
    ]


def transformation(way: str) -> column_lineage_dataset.Transformation:
    """Return a transformation in OpenLineage's words."""
    type_ = "DIRECT" if Transformation(way).is_direct else "INDIRECT"
    return column_lineage_dataset.Transformation(type=type_, subtype=way, description="", masking=False)


def receiver_id(definition: JobDefinition) -> DatasetId | None:
    """Return the dataset that the receiver of a pipe is; None if it is none."""
    attributes = definition.stages.sink
    find = RECEIVERS.get(plugin_name(PipeStage.SINK, attributes).lower().replace("-connector", "-sink"))
    return None if find is None else find(PipeAttributes(attributes))


def delta_id(attributes: PipeAttributes) -> DatasetId:
    """Return the Delta table of a `delta-sink`."""
    return file_id(canonical(attributes.text("sink.uri")))


def kafka_id(attributes: PipeAttributes) -> DatasetId:
    """Return the topic of a `kafka-sink`, at the first of its brokers."""
    host, _, port = attributes.text("bootstrap.servers").partition(",")[0].rpartition(":")
    topic = Kafka(host or port, port if host else str(KAFKA_PORT), attributes.text("topic"))
    return topic.get_namespace(), topic.get_name()


RECEIVERS: Final[dict[str, Callable[[PipeAttributes], DatasetId]]] = {
    "delta-sink": delta_id,
    "kafka-sink": kafka_id,
}
"""What sinks outside of the catalog write to."""
