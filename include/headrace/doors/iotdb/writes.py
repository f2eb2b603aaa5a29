"""Calls that write and delete points."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace.doors.iotdb.records import collect
from headrace.doors.iotdb.statements import FIRST_TICK, LAST_TICK, legal_nodes
from headrace.doors.iotdb.statuses import success
from headrace.doors.iotdb.tablets import AnyTablet, EncodedTablet, device_nodes, measurement_name, split_tablets
from headrace.errors import DataError
from headrace.model.access import Privilege
from headrace.model.expressions import Scalar
from headrace.model.paths import PathPattern, join_path
from headrace.model.tree_statements import TreeInsert
from headrace.model.types import TypeKind
from headrace.pipes.iotdb import messages
from headrace.service.dispatch import plan
from headrace.service.rights import on_paths
from headrace.storage.values.tree_columns import FILE_CONVERTERS
from headrace.trees.databases import database_of

if TYPE_CHECKING:
    from headrace.doors.iotdb.client import Client
    from headrace.service.session import Session
    from headrace.service.stage import Stage

NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
INTEGER: Final = re.compile(r"[+-]?\d+")
TEXT_KINDS: Final = frozenset({TypeKind.VARCHAR, TypeKind.NCHAR})


@dataclass(frozen=True, slots=True)
class Tablets:
    """What a call writes, all or none; `described` is what the list of connections shows."""

    described: str
    tablets: Sequence[AnyTablet]


Read = Callable[[Any], Tablets]


def write(read: Read) -> Callable[[Client, messages.Message], messages.Message]:
    """Return the method that writes what a function reads from a request."""

    def run(client: Client, request: messages.Message) -> messages.Message:
        client.connection.check()
        own = read(request)
        client.write(own.described, own.tablets)
        return success()

    return run


def read_tablet(request: messages.InsertTablet) -> Tablets:
    """Read rows of one device."""
    return Tablets(f"insertTablet {request.prefixPath}", [EncodedTablet(request)])


def read_tablets(request: messages.InsertTablets) -> Tablets:
    """Read rows of several devices. Later tablets of a device take precedence."""
    encoded = split_tablets(request)
    is_distinct = len(set(request.prefixPaths)) == len(encoded)
    tablets = encoded if is_distinct else [one.decode() for one in encoded]
    return Tablets(f"insertTablets of {len(request.prefixPaths)} devices", tablets)


def read_record(request: messages.InsertRecord) -> Tablets:
    """Read a row of a device."""
    row = [request.prefixPath], [request.timestamp], [request.measurements], [request.values]
    return Tablets(f"insertRecord {request.prefixPath}", collect(*row, aligned=bool(request.isAligned)))


def read_records(request: messages.InsertRecords) -> Tablets:
    """Read rows of devices."""
    rows = request.prefixPaths, request.timestamps, request.measurementsList, request.valuesList
    return Tablets(f"insertRecords of {len(request.timestamps)} rows", collect(*rows, aligned=bool(request.isAligned)))


def read_device_records(request: messages.InsertDeviceRecords) -> Tablets:
    """Read rows of one device."""
    devices = [request.prefixPath] * len(request.timestamps)
    tablets = collect(devices, request.timestamps, request.measurementsList, request.valuesList, aligned=bool(request.isAligned))
    return Tablets(f"insertRecordsOfOneDevice {request.prefixPath}", tablets)


READERS: Final[Mapping[str, Read]] = {
    "insertRecord": read_record,
    "insertRecords": read_records,
    "insertRecordsOfOneDevice": read_device_records,
    "insertTablet": read_tablet,
    "insertTablets": read_tablets,
}
"""The methods that write tablets, with what reads these from their request."""


def insert_string_record(client: Client, request: messages.InsertStringRecord) -> messages.Message:
    """Write a row whose values are texts."""
    return write_texts(
        client,
        [request.prefixPath],
        [request.timestamp],
        [request.measurements],
        [request.values],
        aligned=bool(request.isAligned),
    )


def insert_string_records(client: Client, request: messages.InsertStringRecords) -> messages.Message:
    """Write rows whose values are texts."""
    return write_texts(
        client,
        request.prefixPaths,
        request.timestamps,
        request.measurementsList,
        request.valuesList,
        aligned=bool(request.isAligned),
    )


def insert_string_device_records(client: Client, request: messages.InsertStringDeviceRecords) -> messages.Message:
    """Write rows of one device whose values are texts."""
    devices = [request.prefixPath] * len(request.timestamps)
    return write_texts(
        client, devices, request.timestamps, request.measurementsList, request.valuesList, aligned=bool(request.isAligned)
    )


def write_texts(
    client: Client,
    devices: Sequence[str],
    times: Sequence[int],
    names: Sequence[Sequence[str]],
    values: Sequence[Sequence[str]],
    *,
    aligned: bool,
) -> messages.Message:
    """Write rows whose values are texts, which become values of the types of their series, as in INSERT."""
    if not len(devices) == len(times) == len(names) == len(values):
        raise DataError("the lists of the request differ in length", hint="use a client library of IoTDB")
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[int, Sequence[str]]]] = defaultdict(list)
    for device, time, own, row in zip(devices, times, names, values, strict=True):
        if len(own) != len(row):
            raise DataError(f"{len(own)} measurements have {len(row)} values", hint="send a value for each measurement")
        groups[device, tuple(map(measurement_name, own))].append((time, row))

    def stages(session: Session) -> list[Stage]:
        inserts = [text_insert(session, device, own, rows, aligned=aligned) for (device, own), rows in groups.items()]
        return [stage for insert in inserts for stage in plan(insert, session)]

    paths = dict.fromkeys(join_path((*device_nodes(device), name)) for device, own in groups for name in own)
    client.run(f"insertStringRecords of {len(times)} rows", on_paths(Privilege.WRITE_DATA, paths), stages)
    return success()


def text_insert(
    session: Session, device: str, names: Sequence[str], rows: Sequence[tuple[int, Sequence[str]]], *, aligned: bool
) -> TreeInsert:
    """Return the INSERT of rows whose values are texts."""
    nodes = device_nodes(device)
    path, context = join_path(nodes), session.context
    database = database_of(path, context)
    present = None if database is None else context.catalog.trees.find(database, [path]).get(path)
    found = [None if present is None else present.find(name) for name in names]
    kinds = [None if series is None else series.type.kind for series in found]
    values = tuple(tuple(constant(text, kind) for text, kind in zip(row, kinds, strict=True)) for _, row in rows)
    return TreeInsert(PathPattern(nodes), tuple(names), tuple(time for time, _ in rows), values, aligned)


def constant(text: str | None, kind: TypeKind | None) -> Any:
    """Return the constant that a text is in INSERT, unless its series has texts."""
    if text is None or kind in TEXT_KINDS:
        return text
    if kind is TypeKind.VARBINARY:
        with suppress(ValueError):
            return FILE_CONVERTERS[kind](text)
        return text
    lower = text.lower()
    value: Scalar = text
    if lower in ("true", "false"):
        value = lower == "true"
    elif INTEGER.fullmatch(text):
        value = int(text)
    elif NUMBER.fullmatch(text) or lower == "nan":
        value = math.nan if lower == "nan" else float(text)
    return value


def delete_data(client: Client, request: messages.DeleteData) -> messages.Message:
    """Delete points of series."""
    patterns = ", ".join(".".join(legal_nodes(path)) for path in request.paths)
    bounds = [f"time >= {request.startTime}"] if request.startTime >= FIRST_TICK else []
    bounds += [f"time <= {request.endTime}"] if request.endTime <= LAST_TICK else []
    where = f" where {' and '.join(bounds)}" if bounds else ""
    client.execute(f"delete from {patterns}{where}")
    return success()


def drop_rows(client: Client, _: messages.Message) -> messages.Message:
    """Receive rows and drop them, which measures the network."""
    client.connection.check()
    return success()
