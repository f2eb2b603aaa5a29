"""Evaluation of SELECT LAST with Arrow in this process."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.compute.columnar.cell_partials import CellPartials, CellRules
from headrace.compute.columnar.cells import MAX_CELLS
from headrace.compute.columnar.rows import RowReader, SeriesReader, apply_filter, source_types
from headrace.compute.iotdb.last import HEADERS, LastPlan
from headrace.compute.nodes import NULL, TIME, Column, Node, UnsupportedError, call, if_
from headrace.compute.types import to_ticks
from headrace.model.tree_types import type_name
from headrace.model.types import TypeKind

SIGNIFICANT_DIGITS: Final = {np.dtype(np.float32): 6, np.dtype(np.float64): 15}
"""Digits up to which Java writes the shortest text of a number between `MIN_PLAIN` and `MAX_PLAIN`."""
MIN_PLAIN: Final = 1e-3
MAX_PLAIN: Final = 1e7
"""Java writes numbers outside of these bounds with an exponent."""


def last_points_locally(plan: LastPlan, rows: RowReader, max_rows: int) -> pa.Table | None:
    """Return what `last_points` does; None if Spark has to evaluate the plan."""
    try:
        return find_points(plan, rows, max_rows)
    except UnsupportedError:
        return None


def find_points(plan: LastPlan, rows: RowReader, max_rows: int) -> pa.Table:
    """Return the latest point of each series.

    Raises:
        UnsupportedError: A part is not supported, or too much has to be read or kept.
    """
    source = plan.rows
    writers = {column: TEXTS.get(ref.type.kind) for ref, column in plan.series}
    if not source.stored or None in writers.values() or len(source.devices) * len(writers) > MAX_CELLS:
        raise UnsupportedError("series")
    reader = SeriesReader(source, rows, None, None)
    if reader.count() > max_rows:
        raise UnsupportedError("too many rows")
    latest = latest_values(plan, reader)
    ranks = {path: rank for rank, path in enumerate(source.devices)}
    points = []
    for ref, column in plan.series:
        rank, write = ranks[ref.device.path], writers[column]
        instant, value = (latest[name][rank] for name in (instant_of(column), column))
        if write is not None and value is not None:
            points.append((instant, ref.device.series_path(ref.series.measurement), write(value), type_name(ref.type)))
    for header, descending in reversed(plan.orders):
        points.sort(key=itemgetter(HEADERS.index(header)), reverse=descending)
    first = plan.offset or 0
    points = points[first : None if plan.limit is None else first + plan.limit]
    times = pa.array([point[0] for point in points], pa.int64())
    unit = plan.precision.ticks_per_second
    stored = (
        times if unit > 1_000_000 else pa.array([point[0] * (1_000_000 // unit) for point in points], pa.timestamp("us", "UTC"))
    )
    texts = [pa.array([point[number] for point in points], pa.string()) for number in (1, 2, 3)]
    return pa.table(dict(zip(HEADERS, (stored, *texts), strict=True)))


def latest_values(plan: LastPlan, reader: SeriesReader) -> dict[str, list[Any]]:
    """Return the latest value of each column and device, and its instant."""
    types, ticks = source_types(plan.rows, plan.precision), to_ticks(Column(TIME), plan.precision)
    rows: dict[str, Node] = {}
    merges: dict[str, Node] = {}
    for column in dict.fromkeys(column for _, column in plan.series):
        value, instant = Column(column), Column(instant_of(column))
        rows |= {value.name: value, instant.name: if_(value.is_null(), NULL, ticks)}
        merges |= {value.name: call("max_by", value, instant), instant.name: call("max", instant)}
    latest = CellPartials(CellRules.compile(rows, merges, types))
    for batch in reader.named(types):
        filtered = apply_filter(batch, plan.filter)
        latest.add(filtered.devices.astype(np.int64), filtered.columns)
    return {name: values.to_pylist() for name, values in latest.result(len(plan.rows.devices)).items()}


def instant_of(column: str) -> str:
    """Return the name of the instant of a column's value."""
    return f"{column} at"


def real_text(value: Any) -> str:
    """Return a floating-point number as Java writes it.

    Raises:
        UnsupportedError: Java may write more digits than necessary, or an exponent.
    """
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text: str = np.format_float_positional(value, unique=True, trim="0")
    digits = text.lstrip("-").replace(".", "").strip("0")
    if value != 0 and not (MIN_PLAIN <= abs(value) < MAX_PLAIN and len(digits) <= SIGNIFICANT_DIGITS[value.dtype]):
        raise UnsupportedError(text)
    return text


TEXTS: Final[dict[TypeKind, Callable[[Any], str]]] = {
    TypeKind.BOOL: lambda value: "true" if value else "false",
    TypeKind.INT: str,
    TypeKind.BIGINT: str,
    TypeKind.FLOAT: lambda value: real_text(np.float32(value)),
    TypeKind.DOUBLE: lambda value: real_text(np.float64(value)),
    TypeKind.VARCHAR: str,
    TypeKind.NCHAR: str,
}
"""How values are written as the text that IoTDB prints. Spark writes those of other types."""
