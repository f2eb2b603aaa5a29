"""Tablets: rows of one device, column by column, as clients and pipes send them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.doors.iotdb.reading import finished, read_column, type_of_code, with_nulls
from headrace.errors import DataError, Error, ProgrammingError
from headrace.model.paths import ROOT, join_path, parse_path
from headrace.model.remembering import remembered
from headrace.model.tree_status import TreeStatus
from headrace.model.types import DataType
from headrace.pipes.iotdb.content import Content, Mask
from headrace.pipes.iotdb.messages import InsertTablet, InsertTablets
from headrace.sql.iotdb.status import SEMANTIC_ERROR

MAX_ROWS = 10_000_000


@dataclass(frozen=True, slots=True)
class TabletColumn:
    """The values of a measurement, in Arrow's type for its type; instants are ticks as integers."""

    type: DataType
    values: pa.Array


@dataclass(frozen=True, slots=True)
class Tablet:
    """Rows of one device.

    Attributes:
        device: The canonical nodes of its path.
        aligned: Whether the device is to be aligned if it is new.
        times: The instants in ticks.
        columns: By measurement, in canonical spelling.
    """

    device: tuple[str, ...]
    aligned: bool
    times: npt.NDArray[np.int64]
    columns: dict[str, TabletColumn]

    @property
    def path(self) -> str:
        """The path of the device."""
        return join_path(self.device)

    def since(self, first: int) -> Tablet:
        """Return the rows from an instant on."""
        kept = self.times >= first
        columns = {name: replace(column, values=column.values.filter(pa.array(kept))) for name, column in self.columns.items()}
        return replace(self, times=self.times[kept], columns=columns)


@dataclass(frozen=True, slots=True)
class EncodedTablet:
    """A tablet as it was received."""

    request: InsertTablet

    def decode(self) -> Tablet:
        """Return the tablet.

        Raises:
            Error: It cannot be read, or has names that are wrong.
        """
        return decode_tablet(self.request)


AnyTablet = Tablet | EncodedTablet


@remembered(65_536)
def device_nodes(path: str) -> tuple[str, ...]:
    """Return the canonical nodes of a device's path.

    Raises:
        ProgrammingError: It is no path of a device.
    """
    nodes = parse_path(path) if path else None
    if nodes is None or len(nodes) < 2:
        raise illegal_path(path)
    return nodes


def first_prefix(device: tuple[str, ...], names: Container[str]) -> str | None:
    """Return the shortest path above a device, or the device's own, that is one of some names, as those of databases."""
    prefixes = (".".join(device[:length]) for length in range(2, len(device) + 1))
    return next((prefix for prefix in prefixes if prefix in names), None)


@remembered(65_536)
def measurement_name(name: str) -> str:
    """Return the canonical spelling of a measurement.

    Raises:
        ProgrammingError: It is no node of a path.
    """
    nodes = parse_path(f"{ROOT}.{name}") if name else None
    if nodes is None or len(nodes) != 2:
        raise illegal_path(name)
    return nodes[1]


def illegal_path(path: str) -> Error:
    error = ProgrammingError(f"{path} is not a legal path", hint="put nodes with special characters in back-quotes")
    return error.with_status(TreeStatus.ILLEGAL_PATH)


def named_columns(names: Sequence[str], columns: Sequence[TabletColumn]) -> dict[str, TabletColumn]:
    """Return columns by measurement.

    Raises:
        DataError: There are not as many columns as names.
        ProgrammingError: A measurement occurs twice.
    """
    if len(names) != len(columns):
        raise DataError(f"{len(names)} measurements have {len(columns)} columns", hint="send a column for each measurement")
    named = {measurement_name(name): column for name, column in zip(names, columns, strict=True)}
    if len(named) < len(names):
        duplicate = next(name for at, name in enumerate(names) if name in names[:at])
        error = ProgrammingError(f"Insertion contains duplicated measurement: {duplicate}", hint="name it once")
        raise error.with_status(SEMANTIC_ERROR)
    return named


def decode_tablet(request: InsertTablet) -> Tablet:
    """Return the tablet of a request."""
    names, types = request.measurements, [type_of_code(code) for code in request.types]
    times = decode_times(request.timestamps, request.size)
    columns = decode_columns(request.values, types, request.size)
    return Tablet(device_nodes(request.prefixPath), bool(request.isAligned), times, named_columns(names, columns))


def split_tablets(request: InsertTablets) -> list[EncodedTablet]:
    """Return the tablets of a request.

    Raises:
        DataError: Its lists differ in length.
    """
    lists = (
        request.prefixPaths,
        request.measurementsList,
        request.valuesList,
        request.timestampsList,
        request.typesList,
        request.sizeList,
    )
    if len({len(each) for each in lists}) > 1:
        raise DataError("the lists of the request differ in length", hint="use a client library of IoTDB")
    fields = ("prefixPath", "measurements", "values", "timestamps", "types", "size")
    return [
        EncodedTablet(InsertTablet(**dict(zip(fields, parts, strict=True)), isAligned=request.isAligned))
        for parts in zip(*lists, strict=True)
    ]


def decode_times(content: bytes, rows: int) -> npt.NDArray[np.int64]:
    """Return the instants of rows."""
    if not 0 <= rows <= MAX_ROWS or len(content) != 8 * rows:
        raise DataError(f"{len(content)} bytes are not {rows} instants", hint="send 8 bytes for each row")
    return np.frombuffer(content, ">i8").astype(np.int64)


def decode_columns(values: bytes, types: Sequence[DataType], rows: int) -> list[TabletColumn]:
    """Return the columns of a tablet; after their values come bits of those that are NULL, if some are."""
    content = Content(values)
    columns = [read_column(content, type_, rows) for type_ in types]
    nulls = [None] * len(types) if content.is_read else [content.bits(rows) if content.flag() else None for _ in types]
    return [finished_column(column, type_, mask) for column, type_, mask in zip(columns, types, nulls, strict=True)]


def finished_column(values: pa.Array, type_: DataType, nulls: Mask | None) -> TabletColumn:
    """Return a column with its NULLs."""
    return TabletColumn(type_, finished(with_nulls(values, nulls), type_))
