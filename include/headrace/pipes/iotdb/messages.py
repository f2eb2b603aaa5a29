"""The messages of IoTDB's RPC service that pipes use, with the fields that they need. Thrift skips the others."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from thrift.protocol.TBase import TBase
from thrift.Thrift import TType

Field = tuple[int, int, str, Any, Any]
Spec = tuple[Field | None, ...]
PROTOCOL_VERSION: Final = 2


class Message(TBase):  # type: ignore[misc]  # Thrift has no types
    """A structure whose fields are attributes, None if they are not set."""

    thrift_spec: ClassVar[Spec] = ()

    def __init_subclass__(cls) -> None:
        for field in cls.thrift_spec:
            if field is not None:
                setattr(cls, field[2], None)

    def __init__(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self, name, value)


def number(identifier: int, name: str, kind: int = TType.I64) -> Field:
    return (identifier, kind, name, None, None)


def text(identifier: int, name: str) -> Field:
    return (identifier, TType.STRING, name, "UTF8", None)


def binary(identifier: int, name: str) -> Field:
    return (identifier, TType.STRING, name, "BINARY", None)


def nested(identifier: int, name: str, kind: type[Message]) -> Field:
    return (identifier, TType.STRUCT, name, [kind, kind.thrift_spec], None)


def texts(identifier: int, name: str) -> Field:
    return (identifier, TType.LIST, name, (TType.STRING, "UTF8", False), None)


def binaries(identifier: int, name: str) -> Field:
    return (identifier, TType.LIST, name, (TType.STRING, "BINARY", False), None)


def mapping(identifier: int, name: str, kind: int, encoding: str | None) -> Field:
    return (identifier, TType.MAP, name, (TType.STRING, "UTF8", kind, encoding, False), None)


def spec(*fields: Field) -> Spec:
    """Return fields at the index of their identifiers."""
    by_identifier = {field[0]: field for field in fields}
    return tuple(by_identifier.get(identifier) for identifier in range(max(by_identifier, default=0) + 1))


class SubStatus(Message):
    """The outcome of a part of a request, which has no parts."""

    subStatus = None  # noqa: N815  (the name of the service)
    thrift_spec = spec(number(1, "code", TType.I32), text(2, "message"))


class Status(Message):
    """The outcome of a request."""

    thrift_spec = spec(
        number(1, "code", TType.I32),
        text(2, "message"),
        (3, TType.LIST, "subStatus", (TType.STRUCT, [SubStatus, SubStatus.thrift_spec], False), None),
    )


class OpenSession(Message):
    """Log in."""

    thrift_spec = spec(
        number(1, "client_protocol", TType.I32),
        text(2, "zoneId"),
        text(3, "username"),
        text(4, "password"),
        mapping(5, "configuration", TType.STRING, "UTF8"),
    )


class OpenedSession(Message):
    """A session."""

    thrift_spec = spec(nested(1, "status", Status), number(3, "sessionId"))


class Properties(Message):
    """What a server says of itself."""

    thrift_spec = spec(text(1, "version"), text(3, "timestampPrecision"))


class Statement(Message):
    """Execute a statement."""

    thrift_spec = spec(
        number(1, "sessionId"),
        text(2, "statement"),
        number(3, "statementId"),
        number(4, "fetchSize", TType.I32),
        number(5, "timeout"),
    )


class Statements(Message):
    """Execute statements without results in order."""

    thrift_spec = spec(number(1, "sessionId"), texts(2, "statements"))


class Result(Message):
    """The first blocks of the result of a statement."""

    thrift_spec = spec(
        nested(1, "status", Status),
        number(2, "queryId"),
        texts(3, "columns"),
        number(5, "ignoreTimeStamp", TType.BOOL),
        texts(6, "dataTypeList"),
        mapping(9, "columnNameIndexMap", TType.I32, None),
        binaries(13, "queryResult"),
        number(14, "moreData", TType.BOOL),
    )


class Fetch(Message):
    """Ask for more blocks."""

    thrift_spec = spec(
        number(1, "sessionId"),
        text(2, "statement"),
        number(3, "fetchSize", TType.I32),
        number(4, "queryId"),
        number(5, "isAlign", TType.BOOL),
        number(6, "timeout"),
        number(7, "statementId"),
    )


class Fetched(Message):
    """More blocks of a result."""

    thrift_spec = spec(
        nested(1, "status", Status),
        number(2, "hasResultSet", TType.BOOL),
        binaries(6, "queryResult"),
        number(7, "moreData", TType.BOOL),
    )


class CloseOperation(Message):
    """Release a result or a statement."""

    thrift_spec = spec(number(1, "sessionId"), number(2, "queryId"), number(3, "statementId"))


class Transfer(Message):
    """Receive something from a pipe; what the body holds depends on the type."""

    thrift_spec = spec(number(1, "version", TType.BYTE), number(2, "type", TType.I16), binary(3, "body"))


class Transferred(Message):
    """The outcome of a transfer."""

    thrift_spec = spec(nested(1, "status", Status))


METHODS: Final[dict[str, tuple[int, type[Message]]]] = {
    "openSession": (1, OpenedSession),
    "executeQueryStatementV2": (1, Result),
    "executeBatchStatement": (1, Status),
    "fetchResultsV2": (1, Fetched),
    "closeOperation": (1, Status),
    "pipeTransfer": (-1, Transferred),
}
"""The identifier of the argument of each method, which its declaration may lack, and the type of the answer."""
