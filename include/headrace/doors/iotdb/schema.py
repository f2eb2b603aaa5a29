"""Calls that change the schema: databases, series and device templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.doors.iotdb.reading import type_of_code
from headrace.doors.iotdb.statements import legal_nodes
from headrace.doors.iotdb.statuses import attempt, combined, success
from headrace.doors.iotdb.tablets import device_nodes, measurement_name
from headrace.errors import DataError, NotSupportedError
from headrace.model.paths import PathPattern
from headrace.model.statements import Statement
from headrace.model.tree_statements import (
    ActivateTemplate,
    AlterTemplate,
    CreateTemplate,
    CreateTimeseries,
    CreateTreeDatabase,
    DropTemplate,
    DropTimeseries,
    DropTreeDatabases,
    SetTemplate,
    TimeseriesSpec,
)
from headrace.pipes.iotdb import messages
from headrace.pipes.iotdb.content import Content
from headrace.sql import to_sql

if TYPE_CHECKING:
    from headrace.doors.iotdb.client import Client

ENCODINGS: Final = {
    0: "PLAIN",
    1: "DICTIONARY",
    2: "RLE",
    4: "TS_2DIFF",
    6: "GORILLA_V1",
    8: "GORILLA",
    9: "ZIGZAG",
    11: "CHIMP",
    12: "SPRINTZ",
    13: "RLBE",
}
COMPRESSORS: Final = {0: "UNCOMPRESSED", 1: "SNAPPY", 2: "GZIP", 7: "LZ4", 8: "ZSTD", 9: "LZMA2"}
COUNT, IS_MEASUREMENT, PATH_EXISTS, MEASUREMENTS, TEMPLATES, SET_PATHS, USING_PATHS = range(7)
"""What a client may ask about device templates."""


def run(client: Client, statement: Statement) -> messages.Status:
    """Run a statement."""
    client.execute(to_sql(statement, "iotdb"))
    return success()


def pattern(path: str) -> PathPattern:
    """Return a path or pattern."""
    return PathPattern(legal_nodes(path))


def named(code: int, names: Mapping[int, str], what: str) -> str:
    """Return the name of an encoding or a compression."""
    if code not in names:
        raise DataError(f"{code} is no code of {what}", hint=f"the codes are {', '.join(map(str, names))}")
    return names[code]


def series_spec(
    name: str,
    codes: tuple[int, int, int],
    alias: str | None = None,
    tags: Mapping[str, str] | None = None,
    attributes: Mapping[str, str] | None = None,
) -> TimeseriesSpec:
    """Return a series to create; the codes are those of its type, encoding and compression."""
    return TimeseriesSpec(
        measurement_name(name),
        type_of_code(codes[0]),
        named(codes[1], ENCODINGS, "an encoding"),
        named(codes[2], COMPRESSORS, "a compression"),
        alias or None,
        tuple((tags or {}).items()),
        tuple((attributes or {}).items()),
    )


def at(values: Sequence[Any] | None, index: int) -> Any:
    """Return an element of a list that may be missing or shorter."""
    return values[index] if values is not None and index < len(values) else None


def set_database(client: Client, _: int, path: str) -> messages.Message:
    """Create a database."""
    return run(client, CreateTreeDatabase(pattern(path)))


def drop_databases(client: Client, _: int, paths: Sequence[str]) -> messages.Message:
    """Drop databases."""
    return run(client, DropTreeDatabases(tuple(map(pattern, paths))))


def drop_series(client: Client, _: int, paths: Sequence[str]) -> messages.Message:
    """Drop series."""
    return run(client, DropTimeseries(tuple(map(pattern, paths))))


def create_series(client: Client, request: messages.CreateSeries) -> messages.Message:
    """Create a series."""
    codes = (request.dataType, request.encoding, request.compressor)
    return run(client, creation(request.path, codes, request.measurementAlias, request.tags, request.attributes))


def creation(
    path: str,
    codes: tuple[int, int, int],
    alias: str | None,
    tags: Mapping[str, str] | None,
    attributes: Mapping[str, str] | None,
) -> CreateTimeseries:
    """Return the creation of a series."""
    nodes = device_nodes(path)
    spec = series_spec(nodes[-1], codes, alias, tags, attributes)
    return CreateTimeseries(PathPattern(nodes[:-1]), (spec,))


def create_aligned_series(client: Client, request: messages.CreateAlignedSeries) -> messages.Message:
    """Create series of an aligned device."""
    specs = tuple(
        series_spec(
            name,
            (request.dataTypes[index], request.encodings[index], request.compressors[index]),
            at(request.measurementAlias, index),
            at(request.tagsList, index),
            at(request.attributesList, index),
        )
        for index, name in enumerate(request.measurements)
    )
    return run(client, CreateTimeseries(PathPattern(device_nodes(request.prefixPath)), specs, aligned=True))


def create_many_series(client: Client, request: messages.CreateManySeries) -> messages.Message:
    """Create series, each whatever becomes of the others."""
    client.connection.check()

    def create(index: int) -> messages.Status:
        codes = (request.dataTypes[index], request.encodings[index], request.compressors[index])
        alias, tags, attributes = (
            at(values, index) for values in (request.measurementAliasList, request.tagsList, request.attributesList)
        )
        return run(client, creation(request.paths[index], codes, alias, tags, attributes))

    return combined([attempt(partial(create, index)) for index in range(len(request.paths))])


def create_template(client: Client, request: messages.CreateTemplateRequest) -> messages.Message:
    """Create a device template."""
    content = Content(request.serializedTemplate)
    name, aligned = content.text(), content.flag()
    specs = []
    while not content.is_read:
        prefix, _, measurement = content.text(), content.flag(), content.text()
        if prefix:
            raise NotSupportedError(f"{prefix}.{measurement} is nested in a template", hint="a template is a list of measurements")
        specs.append(series_spec(measurement, (content.byte(), content.byte(), content.byte())))
    return run(client, CreateTemplate(name, tuple(specs), aligned))


def append_template(client: Client, request: messages.AppendTemplate) -> messages.Message:
    """Add measurements to a device template."""
    codes = zip(request.dataTypes, request.encodings, request.compressors, strict=True)
    specs = tuple(series_spec(name, own) for name, own in zip(request.measurements, codes, strict=True))
    return run(client, AlterTemplate(request.name, specs))


def prune_template(_: Client, request: messages.PruneTemplate) -> messages.Message:
    """Refuse to remove a measurement from a device template, as IoTDB does."""
    raise NotSupportedError(f"{request.path} cannot be removed from template {request.name}", hint="create another template")


def query_template(client: Client, request: messages.QueryTemplate) -> messages.Message:
    """Answer what a client asks about device templates."""
    kind = request.queryType
    answer = messages.TemplateAnswer(status=success(), queryType=kind)
    if kind == TEMPLATES:
        answer.measurements = first_column(client, "show device templates")
    elif kind in (SET_PATHS, USING_PATHS):
        verb = "set" if kind == SET_PATHS else "using"
        answer.measurements = first_column(client, f"show paths {verb} device template {request.name}")
    else:
        names = first_column(client, f"show nodes in device template {request.name}")
        answer.measurements, answer.count = names, len(names)
        answer.result = request.measurement in names
    return answer


def first_column(client: Client, sql: str) -> list[str]:
    return [str(row[0]) for row in client.execute(sql).tuples()]


def set_template(client: Client, request: messages.SetTemplateRequest) -> messages.Message:
    """Set a device template to a path."""
    return run(client, SetTemplate(request.templateName, pattern(request.prefixPath)))


def unset_template(client: Client, request: messages.UnsetTemplate) -> messages.Message:
    """Remove a device template from a path."""
    return run(client, SetTemplate(request.templateName, pattern(request.prefixPath), unset=True))


def drop_template(client: Client, request: messages.DropTemplateRequest) -> messages.Message:
    """Drop a device template."""
    return run(client, DropTemplate(request.templateName))


def activate_templates(client: Client, request: messages.ActivateTemplates) -> messages.Message:
    """Create devices from the templates that are set to their paths."""
    client.connection.check()
    return combined([attempt(partial(activate, client, path)) for path in request.devicePathList])


def activate(client: Client, path: str) -> messages.Status:
    """Create a device from its template."""
    return run(client, ActivateTemplate(pattern(path)))
