"""The methods of IoTDB's RPC service: what they take, what they do, and how a failure is answered."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from thrift.Thrift import TType

from headrace.doors.iotdb import schema, sessions, statements, transfers, writes
from headrace.doors.iotdb.statuses import ILLEGAL_PARAMETER, as_error, failure
from headrace.doors.iotdb.wire import Call, Parameter, method_of, write_answer, write_unknown
from headrace.errors import DataError, Error
from headrace.pipes.iotdb import messages

if TYPE_CHECKING:
    from headrace.doors.iotdb.client import Client

Answer = messages.Message | int
Fail = Callable[[messages.Status], Answer]


def as_status(status: messages.Status) -> Answer:
    return status


def in_message(kind: type[messages.Message], **values: Any) -> Fail:
    """Return what puts a status into an answer."""
    return lambda status: kind(status=status, **values)


@dataclass(frozen=True, slots=True)
class Method:
    """A method of the service.

    Attributes:
        run: Takes the client and the arguments, and returns the answer.
        parameters: The kinds of its arguments.
        fail: Returns the answer of a failure.
    """

    run: Callable[..., Answer]
    parameters: tuple[Parameter, ...] = ()
    fail: Fail = as_status


SESSION: Final = int(TType.I64)
TEXT: Final = int(TType.STRING)
TEXTS: Final = int(TType.LIST)
RESULT: Final = in_message(messages.StatementAnswer)
FETCHED: Final = in_message(messages.FetchAnswer, hasResultSet=False, isAlign=True)

METHODS: Final[dict[str, Method]] = {
    "openSession": Method(
        sessions.open_session, (messages.OpenSession,), in_message(messages.SessionAnswer, serverProtocolVersion=2)
    ),
    "closeSession": Method(sessions.close_session, (messages.CloseSession,)),
    "getProperties": Method(sessions.get_properties, (), lambda _: messages.ServerProperties(version=sessions.VERSION)),
    "getTimeZone": Method(sessions.get_zone, (SESSION,), in_message(messages.ZoneAnswer, timeZone="")),
    "setTimeZone": Method(sessions.set_zone, (messages.SetZone,)),
    "requestStatementId": Method(sessions.request_statement, (SESSION,), lambda _: -1),
    "fetchAllConnectionsInfo": Method(sessions.list_connections, (), lambda _: messages.ConnectionsAnswer(connectionInfoList=[])),
    "getBackupConfiguration": Method(sessions.backup_configuration, (), in_message(messages.BackupAnswer)),
    "testConnectionEmptyRPC": Method(sessions.answer_test),
    "executeStatement": Method(statements.execute(False), (messages.Statement,), RESULT),
    "executeStatementV2": Method(statements.execute(True), (messages.Statement,), RESULT),
    "executeQueryStatement": Method(statements.execute(False), (messages.Statement,), RESULT),
    "executeQueryStatementV2": Method(statements.execute(True), (messages.Statement,), RESULT),
    "executeUpdateStatement": Method(statements.execute(False), (messages.Statement,), RESULT),
    "executeUpdateStatementV2": Method(statements.execute(True), (messages.Statement,), RESULT),
    "executeBatchStatement": Method(statements.execute_batch, (messages.Statements,)),
    "executeRawDataQuery": Method(statements.query(statements.raw_sql, False), (messages.RawQuery,), RESULT),
    "executeRawDataQueryV2": Method(statements.query(statements.raw_sql, True), (messages.RawQuery,), RESULT),
    "executeLastDataQuery": Method(statements.query(statements.last_sql, False), (messages.LastQuery,), RESULT),
    "executeLastDataQueryV2": Method(statements.query(statements.last_sql, True), (messages.LastQuery,), RESULT),
    "executeFastLastDataQueryForOneDeviceV2": Method(
        statements.query(statements.device_last_sql, True), (messages.DeviceLastQuery,), RESULT
    ),
    "executeAggregationQuery": Method(statements.query(statements.aggregation_sql, False), (messages.AggregationQuery,), RESULT),
    "executeAggregationQueryV2": Method(statements.query(statements.aggregation_sql, True), (messages.AggregationQuery,), RESULT),
    "fetchResults": Method(statements.fetch(False), (messages.Fetch,), FETCHED),
    "fetchResultsV2": Method(statements.fetch(True), (messages.Fetch,), FETCHED),
    "fetchMetadata": Method(statements.fetch_metadata, (messages.FetchMetadata,), in_message(messages.MetadataAnswer)),
    "closeOperation": Method(statements.close_operation, (messages.CloseOperation,)),
    "cancelOperation": Method(statements.cancel_operation, (messages.CancelOperation,)),
    "insertRecord": Method(writes.write(writes.read_record), (messages.InsertRecord,)),
    "insertRecords": Method(writes.write(writes.read_records), (messages.InsertRecords,)),
    "insertRecordsOfOneDevice": Method(writes.write(writes.read_device_records), (messages.InsertDeviceRecords,)),
    "insertStringRecord": Method(writes.insert_string_record, (messages.InsertStringRecord,)),
    "insertStringRecords": Method(writes.insert_string_records, (messages.InsertStringRecords,)),
    "insertStringRecordsOfOneDevice": Method(writes.insert_string_device_records, (messages.InsertStringDeviceRecords,)),
    "insertTablet": Method(writes.write(writes.read_tablet), (messages.InsertTablet,)),
    "insertTablets": Method(writes.write(writes.read_tablets), (messages.InsertTablets,)),
    "testInsertRecord": Method(writes.drop_rows, (messages.InsertRecord,)),
    "testInsertRecords": Method(writes.drop_rows, (messages.InsertRecords,)),
    "testInsertRecordsOfOneDevice": Method(writes.drop_rows, (messages.InsertDeviceRecords,)),
    "testInsertStringRecord": Method(writes.drop_rows, (messages.InsertStringRecord,)),
    "testInsertStringRecords": Method(writes.drop_rows, (messages.InsertStringRecords,)),
    "testInsertTablet": Method(writes.drop_rows, (messages.InsertTablet,)),
    "testInsertTablets": Method(writes.drop_rows, (messages.InsertTablets,)),
    "deleteData": Method(writes.delete_data, (messages.DeleteData,)),
    "setStorageGroup": Method(schema.set_database, (SESSION, TEXT)),
    "deleteStorageGroups": Method(schema.drop_databases, (SESSION, TEXTS)),
    "createTimeseries": Method(schema.create_series, (messages.CreateSeries,)),
    "createAlignedTimeseries": Method(schema.create_aligned_series, (messages.CreateAlignedSeries,)),
    "createMultiTimeseries": Method(schema.create_many_series, (messages.CreateManySeries,)),
    "deleteTimeseries": Method(schema.drop_series, (SESSION, TEXTS)),
    "createSchemaTemplate": Method(schema.create_template, (messages.CreateTemplateRequest,)),
    "appendSchemaTemplate": Method(schema.append_template, (messages.AppendTemplate,)),
    "pruneSchemaTemplate": Method(schema.prune_template, (messages.PruneTemplate,)),
    "querySchemaTemplate": Method(schema.query_template, (messages.QueryTemplate,), in_message(messages.TemplateAnswer)),
    "setSchemaTemplate": Method(schema.set_template, (messages.SetTemplateRequest,)),
    "unsetSchemaTemplate": Method(schema.unset_template, (messages.UnsetTemplate,)),
    "dropSchemaTemplate": Method(schema.drop_template, (messages.DropTemplateRequest,)),
    "createTimeseriesUsingSchemaTemplate": Method(schema.activate_templates, (messages.ActivateTemplates,)),
    "pipeTransfer": Method(transfers.receive, (messages.Transfer,), in_message(messages.TransferAnswer)),
}
"""The methods by name. Calls of others are answered as unknown."""
PARAMETERS: Final = {name: method.parameters for name, method in METHODS.items()}
READING: Final = frozenset(name for name, method in METHODS.items() if method.fail in (RESULT, FETCHED)) - {
    "executeUpdateStatement"
}
"""The methods that run queries and read their results."""
SHORT_STATEMENT: Final = re.compile(rb"(?:insert\s+into|delete\s+from|kill\s+query)\s", re.IGNORECASE)
"""Begins a statement that is no query, in the text of a call that may have either."""
MAX_HEAD_BYTES: Final = 1_024
"""The name of a method and the beginning of its statement are within these."""


def reads_rows(frame: bytes) -> bool:
    """Return whether a frame is a call that may run a query, which may take long."""
    return method_of(frame) in READING and SHORT_STATEMENT.search(frame, 0, MAX_HEAD_BYTES) is None


def logs_in(frame: bytes) -> bool:
    """Return whether a frame is a call that checks a password."""
    return method_of(frame) == "openSession"


def answer(client: Client, call: Call) -> bytes:
    """Return the frame of the answer to a call. No error leaves it."""
    method = METHODS.get(call.method)
    if method is None:
        return write_unknown(call)
    try:
        check_complete(call)
        return write_answer(call, method.run(client, *call.arguments))
    except Exception as error:  # whatever a call raises is the client's answer
        return answer_failure(call, error)


def answer_failure(call: Call, error: BaseException) -> bytes:
    """Return the frame that a call has failed."""
    return write_answer(call, METHODS[call.method].fail(failure(as_error(error))))


def check_complete(call: Call) -> None:
    """Raise `DataError` if a call lacks arguments, or one of them a field that is not optional."""
    for argument in call.arguments:
        if argument is None:
            raise incomplete(call.method, "argument")
        needed = argument.needed if isinstance(argument, messages.Message) else ()
        for name in needed:
            if getattr(argument, name) is None:
                raise incomplete(call.method, name)


def incomplete(method: str, name: str) -> Error:
    error = DataError(f"{method} lacks its {name}", hint="use a client library of IoTDB")
    return error.with_status(ILLEGAL_PARAMETER)
