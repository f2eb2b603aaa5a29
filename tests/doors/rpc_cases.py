"""Calls of IoTDB's RPC about what a user may not read, by method: the values of their messages."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from thrift.Thrift import TMessageType, TType

from headrace.doors.iotdb.wire import protocol
from headrace.pipes.iotdb import requests

Values = Mapping[str, Any]
DEVICE, SERIES = "root.plant.line1", "root.plant.line1.s1"
INTEGER, DOUBLE = b"\x01" + struct.pack(">i", 7), b"\x04" + struct.pack(">d", 7)
"""A value with its type before it. The series has integers, so the second one would not fit."""
TIME: Final = struct.pack(">q", 5)
ROW: Final = {"prefixPath": DEVICE, "timestamp": 5, "measurements": ["s1"]}
ROWS: Final = {"prefixPaths": [DEVICE], "timestamps": [5], "measurementsList": [["s1"]]}
DEVICE_ROWS: Final = {"prefixPath": DEVICE, "timestamps": [5], "measurementsList": [["s1"]]}
TABLET: Final = {"prefixPath": DEVICE, "measurements": ["s1"], "timestamps": TIME, "size": 1}
TABLETS: Final = {"prefixPaths": [DEVICE], "measurementsList": [["s1"]], "timestampsList": [TIME], "sizeList": [1]}
QUERY: Final = {"fetchSize": 10, "statementId": 1}
CODES: Final = {"dataType": 5, "encoding": 0, "compressor": 1}


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


PLAN: Final = (
    struct.pack(">hq", 14, 5)
    + text(DEVICE)
    + struct.pack(">iB", 1, 0)
    + text("s1")
    + INTEGER
    + b"\x00\x00"
    + text("")
    + struct.pack(">i", 0)
)
"""A row as pipes send it."""
TRANSFERRED: Final = (requests.handshake({"timestampPrecision": "ms"}), requests.Request(2, PLAN))
SESSION_ONLY: Final = frozenset(
    {
        *("openSession", "closeSession", "getProperties", "getTimeZone", "setTimeZone", "requestStatementId"),
        *("fetchAllConnectionsInfo", "getBackupConfiguration", "testConnectionEmptyRPC", "fetchResults", "fetchResultsV2"),
        *("closeOperation", "cancelOperation", "pruneSchemaTemplate"),
    }
)
"""Methods that are about the session of the client and its results alone, or always refused."""


def queries(**values: Any) -> Sequence[Values]:
    return [QUERY | values]


STATEMENT: Final = queries(statement="select * from root.**")
CALLS: Final[Mapping[str, Sequence[Values]]] = {
    "executeStatement": STATEMENT,
    "executeStatementV2": STATEMENT,
    "executeQueryStatement": STATEMENT,
    "executeQueryStatementV2": STATEMENT,
    "executeUpdateStatement": queries(statement="delete from root.**"),
    "executeUpdateStatementV2": queries(statement="delete from root.**"),
    "executeBatchStatement": [{"statements": [f"insert into {DEVICE}(time, s1) values (1, 'x')", "delete from root.**"]}],
    "executeRawDataQuery": queries(paths=["root.**", SERIES], startTime=0, endTime=9),
    "executeRawDataQueryV2": queries(paths=["root.**", SERIES], startTime=0, endTime=9),
    "executeLastDataQuery": queries(paths=["root.**", SERIES], time=0),
    "executeLastDataQueryV2": queries(paths=["root.**", SERIES], time=0),
    "executeFastLastDataQueryForOneDeviceV2": queries(db="root.plant", deviceId=DEVICE, sensors=["s1", "label"]),
    "executeAggregationQuery": queries(paths=[SERIES], aggregations=[0]),
    "executeAggregationQueryV2": queries(paths=[SERIES], aggregations=[0]),
    "fetchMetadata": [{"type": kind, "columnPath": path} for kind in ("COLUMN", "ALL_COLUMNS") for path in (SERIES, "root.**")],
    "insertRecord": [ROW | {"values": value} for value in (INTEGER, DOUBLE)],
    "insertRecords": [ROWS | {"valuesList": [value]} for value in (INTEGER, DOUBLE)],
    "insertRecordsOfOneDevice": [DEVICE_ROWS | {"valuesList": [value]} for value in (INTEGER, DOUBLE)],
    "insertStringRecord": [ROW | {"values": [value]} for value in ("7", "x")],
    "insertStringRecords": [ROWS | {"valuesList": [[value]]} for value in ("7", "x")],
    "insertStringRecordsOfOneDevice": [DEVICE_ROWS | {"valuesList": [[value]]} for value in ("7", "x")],
    "insertTablet": [TABLET | {"values": value[1:] + b"\x00", "types": [value[0]]} for value in (INTEGER, DOUBLE)],
    "insertTablets": [TABLETS | {"valuesList": [value[1:] + b"\x00"], "typesList": [[value[0]]]} for value in (INTEGER, DOUBLE)],
    "testInsertRecord": [ROW | {"values": DOUBLE}],
    "testInsertRecords": [ROWS | {"valuesList": [DOUBLE]}],
    "testInsertRecordsOfOneDevice": [DEVICE_ROWS | {"valuesList": [DOUBLE]}],
    "testInsertStringRecord": [ROW | {"values": ["x"]}],
    "testInsertStringRecords": [ROWS | {"valuesList": [["x"]]}],
    "testInsertTablet": [TABLET | {"values": DOUBLE[1:], "types": [4]}],
    "testInsertTablets": [TABLETS | {"valuesList": [DOUBLE[1:]], "typesList": [[4]]}],
    "deleteData": [{"paths": [path], "startTime": 0, "endTime": 9} for path in (SERIES, "root.**")],
    "setStorageGroup": [{"path": "root.plant"}, {"path": "root.fresh"}],
    "deleteStorageGroups": [{"paths": ["root.plant"]}],
    "createTimeseries": [CODES | {"path": path} for path in (SERIES, f"{DEVICE}.s9")],
    "createAlignedTimeseries": [
        {"prefixPath": DEVICE, "measurements": ["s1"], "dataTypes": [5], "encodings": [0], "compressors": [1]}
    ],
    "createMultiTimeseries": [{"paths": [SERIES], "dataTypes": [5], "encodings": [0], "compressors": [1]}],
    "deleteTimeseries": [{"paths": [SERIES]}],
    "createSchemaTemplate": [{"name": name, "serializedTemplate": text(name) + b"\x00"} for name in ("t0", "t9")],
    "appendSchemaTemplate": [
        {"name": "t0", "isAligned": False, "measurements": ["s1"], "dataTypes": [1], "encodings": [0], "compressors": [1]}
    ],
    "querySchemaTemplate": [{"name": "t0", "queryType": kind, "measurement": "s1"} for kind in range(7)],
    "setSchemaTemplate": [{"templateName": "t0", "prefixPath": "root.plant.pumps"}],
    "unsetSchemaTemplate": [{"templateName": "t1", "prefixPath": "root.plant.pumps"}],
    "dropSchemaTemplate": [{"templateName": "t0"}],
    "createTimeseriesUsingSchemaTemplate": [{"devicePathList": ["root.plant.pumps.p2"]}],
    "pipeTransfer": [{"version": 1, "type": one.kind, "body": one.body} for one in TRANSFERRED],
}


def frame_of(method: str, request: Any, *, is_compact: bool = False) -> bytes:
    """Return the frame of a call with one argument."""
    writer = protocol(None, is_compact=is_compact)
    writer.writeMessageBegin(method, TMessageType.CALL, 1)
    writer.writeStructBegin(method)
    writer.writeFieldBegin("request", TType.STRUCT, 1)
    request.write(writer)
    writer.writeFieldEnd()
    writer.writeFieldStop()
    writer.writeStructEnd()
    writer.writeMessageEnd()
    frame: bytes = writer.trans.getvalue()
    return frame
