"""Tablets of many devices with the same measurements, which are decoded and stored together: no work for each but a look-up.

Devices in the field send few rows at a time. To build Arrow's arrays for each tablet takes longer than to write its rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.doors.iotdb.reading import LAYOUTS, TYPES
from headrace.doors.iotdb.storing import MissingSeriesError, check_times, is_compatible, stored_times
from headrace.doors.iotdb.tablets import EncodedTablet, device_nodes, first_prefix, measurement_name
from headrace.errors import ProgrammingError
from headrace.model.access import Privilege
from headrace.model.paths import join_path
from headrace.model.tables import Database
from headrace.model.trees import TIME_COLUMN, Device, DeviceSeries, NewSeries
from headrace.model.types import DataType, TypeKind
from headrace.pipes.iotdb.messages import InsertTablet
from headrace.service.rights import Right, on_paths
from headrace.service.stage import PlanningContext
from headrace.storage.types import arrow_type
from headrace.trees.points import DEVICE, StoredPoints

FIXED_SIZE: Final = frozenset({TypeKind.BOOL, TypeKind.INT, TypeKind.BIGINT, TypeKind.FLOAT, TypeKind.DOUBLE})
TIME_BYTES: Final = 8
Shape = tuple[str, tuple[str, ...], tuple[int, ...], bool]
"""The path of a device as it was sent, its measurements, the codes of their types, and whether it is to be aligned."""


@dataclass(frozen=True, slots=True)
class Target:
    """The series that exist for tablets of one shape.

    Attributes:
        columns: The stored column of each measurement.
        types: The type of each series.
        rights: Those that are needed to write to them.
    """

    device: Device
    series: DeviceSeries
    columns: tuple[str, ...]
    types: tuple[DataType, ...]
    rights: tuple[Right, ...]

    @property
    def database(self) -> Database:
        """The database of the device."""
        return self.series.database


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Rows of several devices, in stored columns; see `headrace.trees.points.Points`."""

    targets: Sequence[Target]
    rows: pa.Table

    @property
    def series(self) -> Sequence[DeviceSeries]:
        """The series that they are of."""
        return [target.series for target in self.targets]

    @property
    def rights(self) -> tuple[Right, ...]:
        """The rights that are needed to write them."""
        return tuple(right for target in self.targets for right in target.rights)

    def stored(self, devices: Mapping[str, Device]) -> Mapping[str, StoredPoints]:
        """Return the rows, unless a device has changed since they were built."""
        if any(devices.get(target.device.path) != target.device for target in self.targets):
            raise MissingSeriesError
        return {self.targets[0].database.name: StoredPoints([self.rows])}


def build_blocks(tablets: Sequence[EncodedTablet], session: PlanningContext) -> tuple[list[BlockRows], list[EncodedTablet]]:
    """Return the rows of tablets as blocks, and the tablets that are no part of one: their series are missing, or have NULLs."""
    shapes = [shape_of(tablet.request) for tablet in tablets]
    targets = find_targets(shapes, session)
    groups: dict[object, list[tuple[InsertTablet, Target]]] = defaultdict(list)
    rest = []
    for tablet, shape in zip(tablets, shapes, strict=True):
        target = targets.get(shape)
        if target is None or not is_complete(tablet.request, shape[2]):
            rest.append(tablet)
        elif tablet.request.size:
            groups[target.database, shape[2], target.columns, target.types].append((tablet.request, target))
    return [block_of([one for one, _ in own], [target for _, target in own]) for own in groups.values()], rest


def shape_of(request: InsertTablet) -> Shape:
    return request.prefixPath, tuple(request.measurements), tuple(request.types), bool(request.isAligned)


def find_targets(shapes: Collection[Shape], session: PlanningContext) -> dict[Shape, Target]:
    """Return the targets of shapes, all of whose series exist and can have the values."""
    catalog = session.context.catalog

    def read(missing: Collection[Shape]) -> dict[Shape, Target]:
        named = {shape: own for shape in missing if (own := canonical(shape)) is not None}
        trees = set(catalog.trees.databases())
        by_database: dict[str, list[str]] = defaultdict(list)
        for nodes, _ in named.values():
            if (name := first_prefix(nodes, trees)) is not None:
                by_database[name].append(join_path(nodes))
        devices = {path: device for name, paths in by_database.items() for path, device in catalog.trees.find(name, paths).items()}
        targets = {
            shape: target_of(device, catalog.databases.get(device.database), shape, names)
            for shape, (nodes, names) in named.items()
            if (device := devices.get(join_path(nodes))) is not None
        }
        return {shape: target for shape, target in targets.items() if target is not None}

    return catalog.pins.get_each("tablets", shapes, read)


def canonical(shape: Shape) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return the nodes of a device and its measurements; None if they are wrong, or have types whose values differ in size."""
    path, measurements, codes, _ = shape
    if len(measurements) != len(codes) or any(code not in TYPES or TYPES[code].kind not in FIXED_SIZE for code in codes):
        return None
    try:
        nodes, names = device_nodes(path), tuple(map(measurement_name, measurements))
    except ProgrammingError:
        return None
    return (nodes, names) if names and len(set(names)) == len(names) else None


def target_of(device: Device, database: Database, shape: Shape, names: Sequence[str]) -> Target | None:
    """Return the target of a device, if it has all series, and they can have values of the types that are sent."""
    series = [device.find(name) for name in names]
    own = [one for one in series if one is not None]
    if len(own) < len(names) or device.aligned != shape[3]:
        return None
    if not all(is_compatible(TYPES[code], one.type) for code, one in zip(shape[2], own, strict=True)):
        return None
    wanted = tuple(NewSeries(name, one.type) for name, one in zip(names, own, strict=True))
    return Target(
        device,
        DeviceSeries(database, device.path, wanted, device.aligned),
        tuple(one.column for one in own),
        tuple(one.type for one in own),
        on_paths(Privilege.WRITE_DATA, [join_path((device.path, name)) for name in names]),
    )


def is_complete(request: InsertTablet, codes: Sequence[int]) -> bool:
    """Return whether a tablet has all of its values, none of which is NULL."""
    size = value_bytes(codes) * request.size
    values: bytes = request.values
    if request.size < 0 or len(request.timestamps) != TIME_BYTES * request.size or len(values) < size:
        return False
    # After the values come bits of those that are NULL, if some are: a byte for each column says whether it has bits.
    return len(values) == size or values[size:] == bytes(len(codes))


def value_bytes(codes: Sequence[int]) -> int:
    """Return the size of the values of a row."""
    return sum(layout(code).itemsize for code in codes)


def layout(code: int) -> np.dtype[np.generic]:
    """Return how values of a type of a fixed size are serialized."""
    return np.dtype(LAYOUTS[TYPES[code].kind][0])


def block_of(requests: Sequence[InsertTablet], targets: Sequence[Target]) -> BlockRows:
    """Return the rows of complete tablets that are stored in the same columns.

    Raises:
        DataError: An instant cannot be stored.
    """
    precision = targets[0].database.precision
    times = np.frombuffer(b"".join([request.timestamps for request in requests]), ">i8").astype(np.int64)
    check_times(times, precision)
    columns = {TIME_COLUMN: stored_times(pa.array(times), precision), DEVICE: device_column(requests, targets)}
    sizes = [request.size for request in requests]
    values = [request.values for request in requests]
    start = 0
    for code, column, type_ in zip(requests[0].types, targets[0].columns, targets[0].types, strict=True):
        width = layout(code).itemsize
        parts = [own[start * size : (start + width) * size] for own, size in zip(values, sizes, strict=True)]
        array = pa.array(decoded(b"".join(parts), code))
        wanted = arrow_type(type_, precision)
        columns[column] = array if array.type == wanted else array.cast(wanted, safe=False)
        start += width
    return BlockRows(targets, pa.table(columns))


def decoded(content: bytes, code: int) -> npt.NDArray[np.generic]:
    """Return values in NumPy's type for them."""
    return np.frombuffer(content, layout(code)).astype(LAYOUTS[TYPES[code].kind][1])


def device_column(requests: Sequence[InsertTablet], targets: Sequence[Target]) -> pa.Array:
    """Return the path of the device of each row."""
    indices = np.repeat(np.arange(len(requests), dtype=np.int32), [request.size for request in requests])
    return pa.array([target.device.path for target in targets], pa.string()).take(pa.array(indices))
