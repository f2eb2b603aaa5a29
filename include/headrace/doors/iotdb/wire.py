"""Frames of Thrift: a call is decoded from the bytes of one frame, and its answer encoded to the bytes of another.

Clients speak the binary or the compact protocol; the first byte of a call says which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TCompactProtocol import TCompactProtocolAccelerated
from thrift.Thrift import TApplicationException, TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from headrace.errors import InterfaceError
from headrace.pipes.iotdb.messages import Message

COMPACT: Final = 0x82
"""The first byte of a call in the compact protocol."""
SUCCESS_FIELD: Final = 0
NAME_AT_LEAST: Final = 3
"""In the compact protocol the name follows two bytes and the number of the call, which has one byte or more."""
VARINT_CONTINUES: Final = 0x80
MAX_NAME_BYTES: Final = 64
BINARY_CALL: Final = b"\x80\x01\x00\x01"
"""What a call in the binary protocol starts with."""
NAME_START: Final = 8
FIRST_STRUCT: Final = bytes([TType.STRUCT, 0, 1])
"""The start of a first argument that is a message."""
STOP: Final = bytes([TType.STOP])


class MalformedCallError(InterfaceError):
    """A frame is no call of the service."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call.

    Attributes:
        method: The name of the method.
        number: The client's number of the call.
        arguments: The arguments in their order: a message, numbers or texts.
        is_compact: Whether the client speaks the compact protocol.
    """

    method: str
    number: int
    arguments: tuple[Any, ...]
    is_compact: bool


Parameter = type[Message] | int
"""What an argument is: a message, or Thrift's code of a simple type. Lists are of texts."""


def protocol(content: bytes | None, *, is_compact: bool) -> Any:
    """Return a protocol that reads content, or one that writes."""
    transport = TMemoryBuffer(content)
    limit = None if content is None else len(content)
    kind = TCompactProtocolAccelerated if is_compact else TBinaryProtocolAccelerated
    return kind(transport, string_length_limit=limit, container_length_limit=limit)


def method_of(frame: bytes) -> str:
    """Return the name of the method that a frame calls; any text if it is no call."""
    if frame[:1] == bytes([COMPACT]):
        at = NAME_AT_LEAST
        while at < len(frame) and frame[at - 1] >= VARINT_CONTINUES:
            at += 1
        size, start = frame[at] if at < len(frame) else 0, at + 1
    else:
        size, start = int.from_bytes(frame[4:8], "big"), 8
    return frame[start : start + min(size, MAX_NAME_BYTES)].decode(errors="replace")


def read_call(frame: bytes, parameters: dict[str, tuple[Parameter, ...]]) -> Call:
    """Return the call that a frame has. A method that is not in `parameters` has no arguments.

    Raises:
        MalformedCallError: It is not a call.
    """
    is_compact = frame[:1] == bytes([COMPACT])
    reader = protocol(frame, is_compact=is_compact)
    try:
        if (call := read_single(frame, reader, parameters)) is not None:
            return call
        reader = protocol(frame, is_compact=is_compact)
        method, kind, number = reader.readMessageBegin()
        if kind not in (TMessageType.CALL, TMessageType.ONEWAY):
            raise MalformedCallError(f"a message of type {kind} is not a call", hint="use a client of IoTDB")
        expected = parameters.get(method)
        arguments = () if expected is None else read_arguments(reader, expected)
    except MalformedCallError:
        raise
    except Exception as error:  # Thrift raises errors of any type on bytes that are no message
        raise MalformedCallError(f"a frame of {len(frame)} bytes is not a call: {error}", hint="use a client of IoTDB") from error
    return Call(method, number, arguments, is_compact)


def read_single(frame: bytes, reader: Any, parameters: dict[str, tuple[Parameter, ...]]) -> Call | None:
    """Return a call in the binary protocol whose only argument is a message; None if it is another.

    Thrift's code in C reads the message. Its code in Python reads what is around it, and takes twice as long.
    """
    if frame[:4] != BINARY_CALL:
        return None
    end = NAME_START + int.from_bytes(frame[4:NAME_START], "big")
    method = frame[NAME_START:end].decode()
    expected = parameters.get(method, ())
    if len(expected) != 1 or isinstance(expected[0], int) or frame[end + 4 : end + 7] != FIRST_STRUCT:
        return None
    reader.trans.cstringio_buf.seek(end + 7)
    message = expected[0]()
    message.read(reader)
    number = int.from_bytes(frame[end : end + 4], "big", signed=True)
    return Call(method, number, (message,), False) if reader.trans.read(1) == STOP else None


def read_arguments(reader: Any, parameters: tuple[Parameter, ...]) -> tuple[Any, ...]:
    """Read the arguments of a call; those that are missing are None."""
    values: list[Any] = [None] * len(parameters)
    reader.readStructBegin()
    while True:
        _, kind, identifier = reader.readFieldBegin()
        if kind == TType.STOP:
            return tuple(values)
        # The declaration of some methods lacks the number of its only argument, which is -1 then.
        position = 0 if identifier == -1 else identifier - 1
        if 0 <= position < len(parameters) and kind == type_of(parameters[position]):
            values[position] = read_argument(reader, parameters[position])
        else:
            reader.skip(kind)
        reader.readFieldEnd()


def type_of(parameter: Parameter) -> int:
    return parameter if isinstance(parameter, int) else int(TType.STRUCT)


def read_argument(reader: Any, parameter: Parameter) -> Any:
    match parameter:
        case TType.I64:
            return reader.readI64()
        case TType.STRING:
            return reader.readString()
        case TType.LIST:
            return read_texts(reader)
        case int():
            raise MalformedCallError(f"an argument of type {parameter} is not expected")
    message = parameter()
    message.read(reader)
    return message


def read_texts(reader: Any) -> list[str]:
    _, size = reader.readListBegin()
    values = [reader.readString() for _ in range(size)]
    reader.readListEnd()
    return values


def write_answer(call: Call, answer: Message | int) -> bytes:
    """Return the frame of the answer to a call, with its length."""
    writer = protocol(None, is_compact=call.is_compact)
    writer.writeMessageBegin(call.method, TMessageType.REPLY, call.number)
    writer.writeStructBegin(call.method)
    if isinstance(answer, Message):
        writer.writeFieldBegin("success", TType.STRUCT, SUCCESS_FIELD)
        answer.write(writer)
    else:
        writer.writeFieldBegin("success", TType.I64, SUCCESS_FIELD)
        writer.writeI64(answer)
    writer.writeFieldEnd()
    writer.writeFieldStop()
    writer.writeStructEnd()
    writer.writeMessageEnd()
    return framed(writer)


def write_unknown(call: Call) -> bytes:
    """Return the frame that a method is not known."""
    writer = protocol(None, is_compact=call.is_compact)
    writer.writeMessageBegin(call.method, TMessageType.EXCEPTION, call.number)
    TApplicationException(TApplicationException.UNKNOWN_METHOD, f"Invalid method name: '{call.method}'").write(writer)
    writer.writeMessageEnd()
    return framed(writer)


def framed(writer: Any) -> bytes:
    content: bytes = writer.trans.getvalue()
    return len(content).to_bytes(4, "big") + content
