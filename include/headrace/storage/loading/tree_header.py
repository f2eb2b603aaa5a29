"""Column names of files for trees: a time, perhaps a device, and measurements or whole paths, each perhaps with a type."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from headrace.errors import ProgrammingError
from headrace.model.paths import ROOT, join_path, parse_path
from headrace.model.tables import DEVICE
from headrace.model.tree_types import TREE_TYPES
from headrace.model.trees import TIME_COLUMN
from headrace.model.types import DataType
from headrace.storage.loading.splits import FileSplit

_TYPED: Final = re.compile(r"(.*)\((\w+)\)", re.DOTALL)
EXPORTED_TIME: Final = "Time"
EXPORTED_DEVICE: Final = "Device"
ESCAPE: Final = "\\"


@dataclass(frozen=True, slots=True)
class SeriesColumn:
    """A column of a file with values of series.

    The `name` is as the file has it, the `measurement` the canonical node. There is a `device` if the name is a whole path, and a
    `type` if the name has it, such as `s1(INT32)`.
    """

    name: str
    measurement: str
    device: str | None
    type: DataType | None


@dataclass(frozen=True, slots=True)
class TreeHeader:
    """The columns of a file: time, device (None if no column has it), and series."""

    time: str
    device: str | None
    series: tuple[SeriesColumn, ...]


def is_in_tree(path: str, database: str) -> bool:
    return path == database or path.startswith(database + ".")


def read_header(names: Iterable[str], owner: str, database: str, device: str | None) -> TreeHeader:
    """Return what the columns of a file for the tree `database` mean; messages name the file `owner`.

    `device` is that of all rows, if the load names it.

    Raises:
        ProgrammingError: There is no time or device, or a name is not that of a series of the tree.
    """
    special: dict[str, str] = {}
    series: list[SeriesColumn] = []
    for name in names:
        lower = name.strip().lower()
        if lower in (TIME_COLUMN, DEVICE):
            if lower in special:
                raise twice_error(owner, name, special[lower])
            special[lower] = name
        else:
            series.append(series_column(name, owner, database))
    header = TreeHeader(special.get(TIME_COLUMN, ""), special.get(DEVICE), tuple(series))
    check_header(header, owner, device)
    return header


def series_column(name: str, owner: str, database: str) -> SeriesColumn:
    """Return what a column name means, other than those of time and device."""
    written, type_ = name.strip(), None
    if typed := _TYPED.fullmatch(written):
        written, type_ = typed[1].rstrip(), TREE_TYPES.get(typed[2].upper())
        if type_ is None:
            raise ProgrammingError(f"{owner}: {typed[2]} is not a type", hint=f"use one of {', '.join(TREE_TYPES)}")
    is_path = written.split(".")[0].lower() == ROOT and "." in written
    nodes = parse_path(written if is_path else f"{ROOT}.{written}")
    if nodes is None or not (is_path or len(nodes) == 2):
        raise ProgrammingError(
            f"{owner}: {written} is not the name of a measurement", hint="write it in back-quotes, `s-1`, or as a path from root"
        )
    device = join_path(nodes[:-1]) if is_path else None
    if device is not None and not is_in_tree(device, database):
        raise ProgrammingError(f"{owner}: {written} is not below {database}", hint="load it into its own database")
    return SeriesColumn(name, nodes[-1], device, type_)


def check_header(header: TreeHeader, owner: str, device: str | None) -> None:
    """Raise unless every row has a time and one device, and every series one column."""
    if not header.time:
        raise ProgrammingError(f"{owner} has no column {TIME_COLUMN}", hint="the first line must name the columns")
    paths = [column for column in header.series if column.device is not None]
    sources = [f"the column {header.device}"] if header.device else []
    sources += [paths[0].name] if paths else []
    sources += [f"--device {device}"] if device else []
    if len(sources) > 1:
        raise ProgrammingError(f"{owner} names devices both in {sources[0]} and in {sources[1]}", hint="name them in one place")
    if len(paths) < len(header.series) and not (header.device or device):
        raise ProgrammingError(f"{owner} names no device", hint="add a column device, or name the device of all rows: --device")
    columns: dict[tuple[str | None, str], SeriesColumn] = {}
    for column in header.series:
        key = column.device, column.measurement
        if key in columns:
            raise twice_error(owner, column.name, columns[key].name)
        columns[key] = column


def twice_error(owner: str, name: str, first: str) -> ProgrammingError:
    return ProgrammingError(f"{owner}: {name!r} and {first!r} are one column", hint="name each column once")


def with_escape(file_split: FileSplit) -> FileSplit:
    """Return a split of a file that IoTDB exported with the escape that IoTDB uses; others unchanged."""
    return replace(file_split, escape=ESCAPE) if is_export(file_split.names) else file_split


def is_export(names: Collection[str]) -> bool:
    """Return whether the column names are those of IoTDB's export: `Time,Device,…`, or `Time` and paths."""
    first, *rest = names or ("",)
    return first == EXPORTED_TIME and bool(rest) and (rest[0] == EXPORTED_DEVICE or all(name.startswith("root.") for name in rest))
