"""Fields of messages of IoTDB's RPC service, as Thrift describes them, beside those that pipes need."""

from __future__ import annotations

from typing import Any, Final

from thrift.Thrift import TType

from headrace.pipes.iotdb.messages import number

TEXTS: Final = (TType.STRING, "UTF8", False)
I32S: Final = (TType.I32, None, False)
LABELS: Final = (TType.STRING, "UTF8", TType.STRING, "UTF8", False)


def flag(identifier: int, name: str) -> tuple[int, int, str, Any, Any]:
    return number(identifier, name, TType.BOOL)


def int32(identifier: int, name: str) -> tuple[int, int, str, Any, Any]:
    return number(identifier, name, TType.I32)


def int32s(identifier: int, name: str) -> tuple[int, int, str, Any, Any]:
    return (identifier, TType.LIST, name, I32S, None)


def int64s(identifier: int, name: str) -> tuple[int, int, str, Any, Any]:
    return (identifier, TType.LIST, name, (TType.I64, None, False), None)


def lists_of_texts(identifier: int, name: str) -> tuple[int, int, str, Any, Any]:
    return (identifier, TType.LIST, name, (TType.LIST, TEXTS, False), None)


def lists_of_int32s(identifier: int, name: str) -> tuple[int, int, str, Any, Any]:
    return (identifier, TType.LIST, name, (TType.LIST, I32S, False), None)


def labels(identifier: int, name: str) -> tuple[int, int, str, Any, Any]:
    return (identifier, TType.MAP, name, LABELS, None)


def lists_of_labels(identifier: int, name: str) -> tuple[int, int, str, Any, Any]:
    return (identifier, TType.LIST, name, (TType.MAP, LABELS, False), None)
