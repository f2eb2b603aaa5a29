"""The messages of IoTDB's RPC service: what its clients and pipes send, and what answers them. Thrift skips other fields."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

from thrift.protocol.TBase import TBase
from thrift.Thrift import TType

Field = tuple[int, int, str, Any, Any]
PROTOCOL_VERSION: Final = 2
TYPES: Final[dict[str, tuple[int, Any]]] = {
    "bool": (TType.BOOL, None),
    "byte": (TType.BYTE, None),
    "i16": (TType.I16, None),
    "i32": (TType.I32, None),
    "i64": (TType.I64, None),
    "string": (TType.STRING, "UTF8"),
    "binary": (TType.STRING, "BINARY"),
}
"""Thrift's code of a type by its name, and its details; those of messages are added as they are declared."""


class Message(TBase):  # type: ignore[misc]  # Thrift has no types
    """A structure, declared in Thrift's language. Its fields are attributes, None if they are not set."""

    fields: ClassVar[str]
    needed: ClassVar[tuple[str, ...]]
    """The fields that are not optional."""
    thrift_spec: ClassVar[tuple[Field | None, ...]]

    def __init_subclass__(cls) -> None:
        declared: dict[int, Field] = {}
        needed = []
        for number, *words, name in (field.split(" ") for field in re.split(r",\s+", cls.fields)):
            identifier = int(number.removesuffix(":"))
            code, details = type_of(words[-1])
            declared[identifier] = (identifier, code, name, details, None)
            if "optional" not in words:
                needed.append(name)
            setattr(cls, name, None)
        cls.thrift_spec = tuple(declared.get(identifier) for identifier in range(max(declared) + 1))
        cls.needed = tuple(needed)
        TYPES[cls.__name__] = (TType.STRUCT, [cls, cls.thrift_spec])

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value)


def type_of(name: str) -> tuple[int, Any]:
    """Return Thrift's code of a type, such as `list<i32>`, and its details."""
    if name in TYPES:
        return TYPES[name]
    container, _, inner = name[:-1].partition("<")
    if container == "list":
        return TType.LIST, (*type_of(inner), False)
    key, _, value = inner.partition(",")
    return TType.MAP, (*type_of(key), *type_of(value), False)


class SubStatus(Message):
    """The outcome of a part of a request, which has no parts."""

    subStatus = None  # noqa: N815  (the name of the service)
    fields = "1: i32 code, 2: string message"


class Status(Message):
    """The outcome of a request."""

    fields = "1: i32 code, 2: string message, 3: list<SubStatus> subStatus"


class OpenSession(Message):
    """Log in."""

    fields = """1: i32 client_protocol, 2: optional string zoneId, 3: optional string username, 4: optional string password,
        5: optional map<string,string> configuration"""


class Statement(Message):
    """Execute a statement."""

    fields = """1: i64 sessionId, 2: optional string statement, 3: optional i64 statementId, 4: optional i32 fetchSize,
        5: optional i64 timeout"""


class Statements(Message):
    """Execute statements without results in order."""

    fields = "1: i64 sessionId, 2: list<string> statements"


class Fetch(Message):
    """Ask for more blocks."""

    fields = """1: i64 sessionId, 2: optional string statement, 3: optional i32 fetchSize, 4: optional i64 queryId,
        5: optional bool isAlign, 6: optional i64 timeout, 7: optional i64 statementId"""


class CloseOperation(Message):
    """Release a result or a statement."""

    fields = "1: i64 sessionId, 2: optional i64 queryId, 3: optional i64 statementId"


class Transfer(Message):
    """Receive something from a pipe; what the body holds depends on the type."""

    fields = "1: byte version, 2: optional i16 type, 3: binary body"


class SessionAnswer(Message):
    """The session that was opened."""

    fields = "1: Status status, 2: i32 serverProtocolVersion, 3: i64 sessionId, 4: map<string,string> configuration"


class CloseSession(Message):
    """Log out."""

    fields = "1: i64 sessionId"


class ServerProperties(Message):
    """What the server says of itself."""

    fields = """1: string version, 2: list<string> supportedTimeAggregationOperations, 3: string timestampPrecision,
        4: i32 maxConcurrentClientNum, 5: i32 thriftMaxFrameSize, 6: bool isReadOnly, 7: string buildInfo, 8: string logo"""


class ZoneAnswer(Message):
    """The time zone of a session."""

    fields = "1: Status status, 2: string timeZone"


class SetZone(Message):
    """Set the time zone of a session."""

    fields = "1: i64 sessionId, 2: string timeZone"


class FetchMetadata(Message):
    """Ask for a part of the schema."""

    fields = "1: i64 sessionId, 2: optional string type, 3: optional string columnPath"


class MetadataAnswer(Message):
    """A part of the schema."""

    fields = "1: Status status, 2: string metadataInJson, 3: list<string> columnsList, 4: string dataType"


class Rows(Message):
    """Rows in the older form: big-endian times, and for each column its values with bits of those that are there."""

    fields = "1: binary time, 2: list<binary> valueList, 3: list<binary> bitmapList"


class StatementAnswer(Message):
    """The outcome of a statement, and the first rows of its result."""

    fields = """1: Status status, 2: i64 queryId, 3: list<string> columns, 4: string operationType, 5: bool ignoreTimeStamp,
        6: list<string> dataTypeList, 7: Rows queryDataSet, 9: map<string,i32> columnNameIndexMap, 10: list<string> sgColumns,
        11: list<byte> aliasColumns, 13: list<binary> queryResult, 14: bool moreData"""


class FetchAnswer(Message):
    """More rows of a result."""

    fields = """1: Status status, 2: bool hasResultSet, 3: bool isAlign, 4: Rows queryDataSet, 6: list<binary> queryResult,
        7: bool moreData"""


class CancelOperation(Message):
    """End a query."""

    fields = "1: i64 sessionId, 2: optional i64 queryId"


class InsertRecord(Message):
    """Write a row of a device: each value has its type before it."""

    fields = """1: i64 sessionId, 2: string prefixPath, 3: list<string> measurements, 4: binary values, 5: i64 timestamp,
        6: optional bool isAligned"""


class InsertStringRecord(Message):
    """Write a row of a device whose values are texts."""

    fields = """1: i64 sessionId, 2: string prefixPath, 3: list<string> measurements, 4: list<string> values, 5: i64 timestamp,
        6: optional bool isAligned"""


class InsertRecords(Message):
    """Write a row of each of several devices, which may repeat."""

    fields = """1: i64 sessionId, 2: list<string> prefixPaths, 3: list<list<string>> measurementsList, 4: list<binary> valuesList,
        5: list<i64> timestamps, 6: optional bool isAligned"""


class InsertStringRecords(Message):
    """The same with values that are texts."""

    fields = """1: i64 sessionId, 2: list<string> prefixPaths, 3: list<list<string>> measurementsList,
        4: list<list<string>> valuesList, 5: list<i64> timestamps, 6: optional bool isAligned"""


class InsertDeviceRecords(Message):
    """Write rows of one device, each with measurements of its own."""

    fields = """1: i64 sessionId, 2: string prefixPath, 3: list<list<string>> measurementsList, 4: list<binary> valuesList,
        5: list<i64> timestamps, 6: optional bool isAligned"""


class InsertStringDeviceRecords(Message):
    """The same with values that are texts."""

    fields = """1: i64 sessionId, 2: string prefixPath, 3: list<list<string>> measurementsList, 4: list<list<string>> valuesList,
        5: list<i64> timestamps, 6: optional bool isAligned"""


class InsertTablet(Message):
    """Write rows of one device, column by column."""

    fields = """1: i64 sessionId, 2: string prefixPath, 3: list<string> measurements, 4: binary values, 5: binary timestamps,
        6: list<i32> types, 7: i32 size, 8: optional bool isAligned"""


class InsertTablets(Message):
    """Write tablets of several devices."""

    fields = """1: i64 sessionId, 2: list<string> prefixPaths, 3: list<list<string>> measurementsList, 4: list<binary> valuesList,
        5: list<binary> timestampsList, 6: list<list<i32>> typesList, 7: list<i32> sizeList, 8: optional bool isAligned"""


class DeleteData(Message):
    """Delete the points of series in a range of time, both ends inclusive."""

    fields = "1: i64 sessionId, 2: list<string> paths, 3: i64 startTime, 4: i64 endTime"


class CreateSeries(Message):
    """Create a series."""

    fields = """1: i64 sessionId, 2: string path, 3: i32 dataType, 4: i32 encoding, 5: i32 compressor,
        6: optional map<string,string> props, 7: optional map<string,string> tags, 8: optional map<string,string> attributes,
        9: optional string measurementAlias"""


class CreateAlignedSeries(Message):
    """Create series of an aligned device."""

    fields = """1: i64 sessionId, 2: string prefixPath, 3: list<string> measurements, 4: list<i32> dataTypes,
        5: list<i32> encodings, 6: list<i32> compressors, 7: optional list<string> measurementAlias,
        8: optional list<map<string,string>> tagsList, 9: optional list<map<string,string>> attributesList"""


class CreateManySeries(Message):
    """Create several series."""

    fields = """1: i64 sessionId, 2: list<string> paths, 3: list<i32> dataTypes, 4: list<i32> encodings, 5: list<i32> compressors,
        6: optional list<map<string,string>> propsList, 7: optional list<map<string,string>> tagsList,
        8: optional list<map<string,string>> attributesList, 9: optional list<string> measurementAliasList"""


class CreateTemplateRequest(Message):
    """Create a device template, in the client's serialized form."""

    fields = "1: i64 sessionId, 2: string name, 3: binary serializedTemplate"


class AppendTemplate(Message):
    """Add measurements to a device template."""

    fields = """1: i64 sessionId, 2: string name, 3: optional bool isAligned, 4: list<string> measurements, 5: list<i32> dataTypes,
        6: list<i32> encodings, 7: list<i32> compressors"""


class PruneTemplate(Message):
    """Remove a measurement from a device template."""

    fields = "1: i64 sessionId, 2: string name, 3: string path"


class QueryTemplate(Message):
    """Ask about a device template."""

    fields = "1: i64 sessionId, 2: string name, 3: i32 queryType, 4: optional string measurement"


class TemplateAnswer(Message):
    """What was asked about a device template."""

    fields = "1: Status status, 2: i32 queryType, 3: bool result, 4: i32 count, 5: list<string> measurements"


class SetTemplateRequest(Message):
    """Set a device template to a path."""

    fields = "1: i64 sessionId, 2: string templateName, 3: string prefixPath"


class UnsetTemplate(Message):
    """Remove a device template from a path."""

    fields = "1: i64 sessionId, 2: string prefixPath, 3: string templateName"


class DropTemplateRequest(Message):
    """Drop a device template."""

    fields = "1: i64 sessionId, 2: string templateName"


class ActivateTemplates(Message):
    """Create devices from the templates that are set to their paths."""

    fields = "1: i64 sessionId, 2: list<string> devicePathList"


class RawQuery(Message):
    """Read the points of series in a range of time, without its end."""

    fields = """1: i64 sessionId, 2: list<string> paths, 3: optional i32 fetchSize, 4: i64 startTime, 5: i64 endTime,
        6: optional i64 statementId, 9: optional i64 timeout"""


class LastQuery(Message):
    """Read the latest points of series from an instant on."""

    fields = """1: i64 sessionId, 2: list<string> paths, 3: optional i32 fetchSize, 4: i64 time, 5: optional i64 statementId,
        8: optional i64 timeout"""


class DeviceLastQuery(Message):
    """Read the latest points of series of one device."""

    fields = """1: i64 sessionId, 2: string db, 3: string deviceId, 4: list<string> sensors, 5: optional i32 fetchSize,
        6: optional i64 statementId, 9: optional i64 timeout"""


class AggregationQuery(Message):
    """Aggregate series, in a range of time, by intervals of time."""

    fields = """1: i64 sessionId, 2: optional i64 statementId, 3: list<string> paths, 4: list<i32> aggregations,
        5: optional i64 startTime, 6: optional i64 endTime, 7: optional i64 interval, 8: optional i64 slidingStep,
        9: optional i32 fetchSize, 10: optional i64 timeout"""


class BackupAnswer(Message):
    """Where else writes are sent: nowhere."""

    fields = "1: Status status, 2: bool enableOperationSync"


class ConnectionInfo(Message):
    """An open connection."""

    fields = "1: string userName, 2: i64 logInTime, 3: string connectionId, 4: i32 type"


class ConnectionsAnswer(Message):
    """The open connections."""

    fields = "1: list<ConnectionInfo> connectionInfoList"


class TransferAnswer(Message):
    """The outcome of what a pipe sent."""

    fields = "1: Status status, 2: binary body"


METHODS: Final[dict[str, tuple[int, type[Message]]]] = {
    "openSession": (1, SessionAnswer),
    "executeQueryStatementV2": (1, StatementAnswer),
    "executeBatchStatement": (1, Status),
    "fetchResultsV2": (1, FetchAnswer),
    "closeOperation": (1, Status),
    "pipeTransfer": (-1, TransferAnswer),
}
"""The methods that pipes call: the identifier of the argument, which its declaration may lack, and the type of the answer."""
