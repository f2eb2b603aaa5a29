"""Events for plugins of users."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headrace.model.time import Precision
from headrace.model.types import DataType, TypeKind
from headrace.pipes.events import DeviceRows, Event, InsertEvent, Measurement
from headrace.pipes.hosted.events import to_plugin
from tests.code.test_pipe_plugins import points

DOUBLE = DataType(TypeKind.DOUBLE)


def rows(values: dict[int, float | None], device: str = "root.a.d1") -> DeviceRows:
    """Return values of `s` by time, of one device."""
    table = pa.table(
        {
            "time": pa.array(list(values), pa.int64()),
            "device": pa.array([device] * len(values)).dictionary_encode(),
            "s": pa.array(list(values.values()), pa.float64()),
        }
    )
    return DeviceRows(table, {"s": Measurement("s", DOUBLE)}, Precision.MILLISECOND, "root.a", frozenset({"root.a.d2"}))


def insert(values: dict[int, float | None], device: str = "root.a.d1") -> InsertEvent:
    return InsertEvent(rows(values, device))


def shown(events: Any) -> list[tuple[str, int, dict[str, Any]]]:
    """Return device, time and values of all rows."""
    typed: list[Event] = list(events)
    return points(to_plugin(typed))
