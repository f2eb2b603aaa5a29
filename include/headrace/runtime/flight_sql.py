"""The messages of Flight SQL: commands, requests and results, built from their names, numbers and types in the protocol.

A command is sent as a protobuf `Any` in the descriptor, ticket or action of a Flight call.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

PACKAGE: Final = "arrow.flight.protocol.sql"
FIELDS: Final[dict[str, str]] = {
    "CommandGetSqlInfo": "1 uint32 info*",
    "CommandGetXdbcTypeInfo": "1 int32 data_type",
    "CommandGetCatalogs": "",
    "CommandGetDbSchemas": "1 string catalog, 2 string db_schema_filter_pattern",
    "CommandGetTables": (
        "1 string catalog, 2 string db_schema_filter_pattern, 3 string table_name_filter_pattern, 4 string table_types*, "
        "5 bool include_schema"
    ),
    "CommandGetTableTypes": "",
    "CommandGetPrimaryKeys": "1 string catalog, 2 string db_schema, 3 string table",
    "CommandGetExportedKeys": "1 string catalog, 2 string db_schema, 3 string table",
    "CommandGetImportedKeys": "1 string catalog, 2 string db_schema, 3 string table",
    "CommandGetCrossReference": "1 string pk_catalog",
    "CommandStatementQuery": "1 string query, 2 bytes transaction_id",
    "CommandStatementUpdate": "1 string query, 2 bytes transaction_id",
    "CommandPreparedStatementQuery": "1 bytes prepared_statement_handle",
    "CommandPreparedStatementUpdate": "1 bytes prepared_statement_handle",
    "CommandStatementIngest": "2 string table, 3 string schema, 4 string catalog, 5 bool temporary",
    "TicketStatementQuery": "1 bytes statement_handle",
    "ActionCreatePreparedStatementRequest": "1 string query, 2 bytes transaction_id",
    "ActionCreatePreparedStatementResult": "1 bytes prepared_statement_handle, 2 bytes dataset_schema, 3 bytes parameter_schema",
    "ActionClosePreparedStatementRequest": "1 bytes prepared_statement_handle",
    "ActionCancelQueryRequest": "1 bytes info",
    "ActionCancelQueryResult": "1 int32 result",
    "CancelFlightInfoRequest": "1 bytes info",
    "CancelFlightInfoResult": "1 int32 status",
    "DoPutUpdateResult": "1 int64 record_count",
    "DoPutPreparedStatementResult": "1 bytes prepared_statement_handle",
    "CloseSessionResult": "1 int32 status",
}
"""The fields of each message: number, type and name; a `*` marks repeated ones. Messages and enums that are not looked into are
bytes and integers, which are encoded alike."""
CANCELED: Final = 1
NOT_CANCELABLE: Final = 3
CLOSED: Final = 1


def _describe(name: str, fields: str) -> DescriptorProto:
    message = DescriptorProto(name=name)
    for text in filter(None, fields.split(", ")):
        number, type_name, field = text.split()
        message.field.add(
            name=field.rstrip("*"),
            number=int(number),
            type=getattr(FieldDescriptorProto, f"TYPE_{type_name.upper()}"),
            label=FieldDescriptorProto.LABEL_REPEATED if field.endswith("*") else FieldDescriptorProto.LABEL_OPTIONAL,
        )
    return message


def _build() -> dict[str, type[Message]]:
    # In proto2, all optional fields know whether they are set; the encoding is that of proto3.
    file = FileDescriptorProto(name="headrace/flight_sql.proto", package=PACKAGE, syntax="proto2")
    file.message_type.extend(_describe(name, fields) for name, fields in FIELDS.items())
    pool = DescriptorPool()
    pool.Add(file)
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in FIELDS}


MESSAGES: Final = _build()


def encode(name: str, **values: Any) -> bytes:
    """Return a message as bytes."""
    content: bytes = MESSAGES[name](**values).SerializeToString()
    return content


def encode_command(name: str, **values: Any) -> bytes:
    """Return a message wrapped in an `Any`, as tickets and the bodies of actions are."""
    wrapper = AnyMessage(type_url=f"type.googleapis.com/{PACKAGE}.{name}", value=encode(name, **values))
    content: bytes = wrapper.SerializeToString()
    return content


def decode_command(content: bytes) -> tuple[str, Any]:
    """Return the name and the message of a command.

    Raises:
        pyarrow.ArrowInvalid: It is not one of Flight SQL.
    """
    wrapper = AnyMessage()
    try:
        wrapper.ParseFromString(content)
        name = wrapper.type_url.rpartition(".")[2]
        if name in MESSAGES:
            return name, MESSAGES[name].FromString(wrapper.value)
    except DecodeError:
        pass
    raise pa.ArrowInvalid("this is no command of Flight SQL that is known here")


def decode_request(name: str, content: bytes) -> Any:
    """Return the body of an action, which clients wrap in an `Any` or send as it is."""
    try:
        return decode_command(content)[1]
    except pa.ArrowInvalid:
        try:
            return MESSAGES[name].FromString(content)
        except DecodeError:
            raise pa.ArrowInvalid(f"the action needs a {name}") from None


def schema_bytes(schema: pa.Schema) -> bytes:
    """Return a schema as an IPC message."""
    content: bytes = schema.serialize().to_pybytes()
    return content
