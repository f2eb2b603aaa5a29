"""The messages of IoTDB's RPC service that its clients send, and those that answer them."""

from __future__ import annotations

from typing import Final

from thrift.Thrift import TType

from headrace.doors.iotdb.fields import flag, int32, int32s, int64s, labels, lists_of_int32s, lists_of_labels, lists_of_texts
from headrace.pipes.iotdb.messages import (
    CloseOperation,
    Fetch,
    Message,
    OpenSession,
    Statement,
    Statements,
    Status,
    Transfer,
    binaries,
    binary,
    mapping,
    nested,
    number,
    spec,
    text,
    texts,
)

__all__ = ["CloseOperation", "Fetch", "Message", "OpenSession", "Statement", "Statements", "Status", "Transfer"]


class SessionAnswer(Message):
    """The session that was opened."""

    thrift_spec = spec(
        nested(1, "status", Status),
        int32(2, "serverProtocolVersion"),
        number(3, "sessionId"),
        mapping(4, "configuration", TType.STRING, "UTF8"),
    )


class CloseSession(Message):
    """Log out."""

    thrift_spec = spec(number(1, "sessionId"))


class ServerProperties(Message):
    """What the server says of itself."""

    thrift_spec = spec(
        text(1, "version"),
        texts(2, "supportedTimeAggregationOperations"),
        text(3, "timestampPrecision"),
        int32(4, "maxConcurrentClientNum"),
        int32(5, "thriftMaxFrameSize"),
        flag(6, "isReadOnly"),
        text(7, "buildInfo"),
        text(8, "logo"),
    )


class ZoneAnswer(Message):
    """The time zone of a session."""

    thrift_spec = spec(nested(1, "status", Status), text(2, "timeZone"))


class SetZone(Message):
    """Set the time zone of a session."""

    thrift_spec = spec(number(1, "sessionId"), text(2, "timeZone"))


class FetchMetadata(Message):
    """Ask for a part of the schema."""

    thrift_spec = spec(number(1, "sessionId"), text(2, "type"), text(3, "columnPath"))


class MetadataAnswer(Message):
    """A part of the schema."""

    thrift_spec = spec(nested(1, "status", Status), text(2, "metadataInJson"), texts(3, "columnsList"), text(4, "dataType"))


class Rows(Message):
    """Rows in the older form: big-endian times, and for each column its values with bits of those that are there."""

    thrift_spec = spec(binary(1, "time"), binaries(2, "valueList"), binaries(3, "bitmapList"))


class StatementAnswer(Message):
    """The outcome of a statement, and the first rows of its result."""

    thrift_spec = spec(
        nested(1, "status", Status),
        number(2, "queryId"),
        texts(3, "columns"),
        text(4, "operationType"),
        flag(5, "ignoreTimeStamp"),
        texts(6, "dataTypeList"),
        nested(7, "queryDataSet", Rows),
        mapping(9, "columnNameIndexMap", TType.I32, None),
        texts(10, "sgColumns"),
        (11, TType.LIST, "aliasColumns", (TType.BYTE, None, False), None),
        binaries(13, "queryResult"),
        flag(14, "moreData"),
    )


class FetchAnswer(Message):
    """More rows of a result."""

    thrift_spec = spec(
        nested(1, "status", Status),
        flag(2, "hasResultSet"),
        flag(3, "isAlign"),
        nested(4, "queryDataSet", Rows),
        binaries(6, "queryResult"),
        flag(7, "moreData"),
    )


class CancelOperation(Message):
    """End a query."""

    thrift_spec = spec(number(1, "sessionId"), number(2, "queryId"))


class InsertRecord(Message):
    """Write a row of a device: each value has its type before it."""

    thrift_spec = spec(
        number(1, "sessionId"),
        text(2, "prefixPath"),
        texts(3, "measurements"),
        binary(4, "values"),
        number(5, "timestamp"),
        flag(6, "isAligned"),
    )


class InsertStringRecord(Message):
    """Write a row of a device whose values are texts."""

    thrift_spec = spec(
        number(1, "sessionId"),
        text(2, "prefixPath"),
        texts(3, "measurements"),
        texts(4, "values"),
        number(5, "timestamp"),
        flag(6, "isAligned"),
    )


class InsertRecords(Message):
    """Write a row of each of several devices, which may repeat."""

    thrift_spec = spec(
        number(1, "sessionId"),
        texts(2, "prefixPaths"),
        lists_of_texts(3, "measurementsList"),
        binaries(4, "valuesList"),
        int64s(5, "timestamps"),
        flag(6, "isAligned"),
    )


class InsertStringRecords(Message):
    """The same with values that are texts."""

    thrift_spec = spec(
        number(1, "sessionId"),
        texts(2, "prefixPaths"),
        lists_of_texts(3, "measurementsList"),
        lists_of_texts(4, "valuesList"),
        int64s(5, "timestamps"),
        flag(6, "isAligned"),
    )


class InsertDeviceRecords(Message):
    """Write rows of one device, each with measurements of its own."""

    thrift_spec = spec(
        number(1, "sessionId"),
        text(2, "prefixPath"),
        lists_of_texts(3, "measurementsList"),
        binaries(4, "valuesList"),
        int64s(5, "timestamps"),
        flag(6, "isAligned"),
    )


class InsertStringDeviceRecords(Message):
    """The same with values that are texts."""

    thrift_spec = spec(
        number(1, "sessionId"),
        text(2, "prefixPath"),
        lists_of_texts(3, "measurementsList"),
        lists_of_texts(4, "valuesList"),
        int64s(5, "timestamps"),
        flag(6, "isAligned"),
    )


class InsertTablet(Message):
    """Write rows of one device, column by column."""

    thrift_spec = spec(
        number(1, "sessionId"),
        text(2, "prefixPath"),
        texts(3, "measurements"),
        binary(4, "values"),
        binary(5, "timestamps"),
        int32s(6, "types"),
        int32(7, "size"),
        flag(8, "isAligned"),
    )


class InsertTablets(Message):
    """Write tablets of several devices."""

    thrift_spec = spec(
        number(1, "sessionId"),
        texts(2, "prefixPaths"),
        lists_of_texts(3, "measurementsList"),
        binaries(4, "valuesList"),
        binaries(5, "timestampsList"),
        lists_of_int32s(6, "typesList"),
        int32s(7, "sizeList"),
        flag(8, "isAligned"),
    )


class DeleteData(Message):
    """Delete the points of series in a range of time, both ends inclusive."""

    thrift_spec = spec(number(1, "sessionId"), texts(2, "paths"), number(3, "startTime"), number(4, "endTime"))


class CreateSeries(Message):
    """Create a series."""

    thrift_spec = spec(
        number(1, "sessionId"),
        text(2, "path"),
        int32(3, "dataType"),
        int32(4, "encoding"),
        int32(5, "compressor"),
        labels(6, "props"),
        labels(7, "tags"),
        labels(8, "attributes"),
        text(9, "measurementAlias"),
    )


class CreateAlignedSeries(Message):
    """Create series of an aligned device."""

    thrift_spec = spec(
        number(1, "sessionId"),
        text(2, "prefixPath"),
        texts(3, "measurements"),
        int32s(4, "dataTypes"),
        int32s(5, "encodings"),
        int32s(6, "compressors"),
        texts(7, "measurementAlias"),
        lists_of_labels(8, "tagsList"),
        lists_of_labels(9, "attributesList"),
    )


class CreateManySeries(Message):
    """Create several series."""

    thrift_spec = spec(
        number(1, "sessionId"),
        texts(2, "paths"),
        int32s(3, "dataTypes"),
        int32s(4, "encodings"),
        int32s(5, "compressors"),
        lists_of_labels(6, "propsList"),
        lists_of_labels(7, "tagsList"),
        lists_of_labels(8, "attributesList"),
        texts(9, "measurementAliasList"),
    )


class CreateTemplateRequest(Message):
    """Create a device template, in the client's serialized form."""

    thrift_spec = spec(number(1, "sessionId"), text(2, "name"), binary(3, "serializedTemplate"))


class AppendTemplate(Message):
    """Add measurements to a device template."""

    thrift_spec = spec(
        number(1, "sessionId"),
        text(2, "name"),
        flag(3, "isAligned"),
        texts(4, "measurements"),
        int32s(5, "dataTypes"),
        int32s(6, "encodings"),
        int32s(7, "compressors"),
    )


class PruneTemplate(Message):
    """Remove a measurement from a device template."""

    thrift_spec = spec(number(1, "sessionId"), text(2, "name"), text(3, "path"))


class QueryTemplate(Message):
    """Ask about a device template."""

    thrift_spec = spec(number(1, "sessionId"), text(2, "name"), int32(3, "queryType"), text(4, "measurement"))


class TemplateAnswer(Message):
    """What was asked about a device template."""

    thrift_spec = spec(
        nested(1, "status", Status), int32(2, "queryType"), flag(3, "result"), int32(4, "count"), texts(5, "measurements")
    )


class SetTemplateRequest(Message):
    """Set a device template to a path."""

    thrift_spec = spec(number(1, "sessionId"), text(2, "templateName"), text(3, "prefixPath"))


class UnsetTemplate(Message):
    """Remove a device template from a path."""

    thrift_spec = spec(number(1, "sessionId"), text(2, "prefixPath"), text(3, "templateName"))


class DropTemplateRequest(Message):
    """Drop a device template."""

    thrift_spec = spec(number(1, "sessionId"), text(2, "templateName"))


class ActivateTemplates(Message):
    """Create devices from the templates that are set to their paths."""

    thrift_spec = spec(number(1, "sessionId"), texts(2, "devicePathList"))


class RawQuery(Message):
    """Read the points of series in a range of time, without its end."""

    thrift_spec = spec(
        number(1, "sessionId"),
        texts(2, "paths"),
        int32(3, "fetchSize"),
        number(4, "startTime"),
        number(5, "endTime"),
        number(6, "statementId"),
        number(9, "timeout"),
    )


class LastQuery(Message):
    """Read the latest points of series from an instant on."""

    thrift_spec = spec(
        number(1, "sessionId"),
        texts(2, "paths"),
        int32(3, "fetchSize"),
        number(4, "time"),
        number(5, "statementId"),
        number(8, "timeout"),
    )


class DeviceLastQuery(Message):
    """Read the latest points of series of one device."""

    thrift_spec = spec(
        number(1, "sessionId"),
        text(2, "db"),
        text(3, "deviceId"),
        texts(4, "sensors"),
        int32(5, "fetchSize"),
        number(6, "statementId"),
        number(9, "timeout"),
    )


class AggregationQuery(Message):
    """Aggregate series, in a range of time, by intervals of time."""

    thrift_spec = spec(
        number(1, "sessionId"),
        number(2, "statementId"),
        texts(3, "paths"),
        int32s(4, "aggregations"),
        number(5, "startTime"),
        number(6, "endTime"),
        number(7, "interval"),
        number(8, "slidingStep"),
        int32(9, "fetchSize"),
        number(10, "timeout"),
    )


class BackupAnswer(Message):
    """Where else writes are sent: nowhere."""

    thrift_spec = spec(nested(1, "status", Status), flag(2, "enableOperationSync"))


class ConnectionInfo(Message):
    """An open connection."""

    thrift_spec = spec(text(1, "userName"), number(2, "logInTime"), text(3, "connectionId"), int32(4, "type"))


class ConnectionsAnswer(Message):
    """The open connections."""

    thrift_spec = spec(
        (1, TType.LIST, "connectionInfoList", (TType.STRUCT, [ConnectionInfo, ConnectionInfo.thrift_spec], False), None)
    )


class TransferAnswer(Message):
    """The outcome of what a pipe sent."""

    thrift_spec = spec(nested(1, "status", Status), binary(2, "body"))


OPTIONAL: Final = frozenset(
    {
        "zoneId",
        "username",
        "password",
        "configuration",
        "statementId",
        "queryId",
        "fetchSize",
        "timeout",
        "isAlign",
        "isAligned",
        "props",
        "tags",
        "attributes",
        "measurementAlias",
        "propsList",
        "tagsList",
        "attributesList",
        "measurementAliasList",
        "type",
        "columnPath",
        "measurement",
        "statement",
        "interval",
        "slidingStep",
    }
)
"""Fields that a call may lack."""
OPEN_RANGES: Final = (AggregationQuery,)
"""Calls whose range of time may lack its ends."""
NEEDED: Final[dict[type[Message], tuple[str, ...]]] = {}
"""The fields that calls must have, for those that were received."""


def missing_field(message: Message) -> str | None:
    """Return the first field that a call lacks; None if it has all that it needs."""
    kind = type(message)
    if kind not in NEEDED:
        optional = OPTIONAL | {"startTime", "endTime"} if issubclass(kind, OPEN_RANGES) else OPTIONAL
        NEEDED[kind] = tuple(field[2] for field in kind.thrift_spec if field is not None and field[2] not in optional)
    return next((name for name in NEEDED[kind] if getattr(message, name) is None), None)
