"""The rows that FILL adds to a target, computed from the rows of the two windows at the ends of their gap."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, InvalidOperation
from decimal import Context as DecimalContext
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar import OutputKernel, UnsupportedError
from headrace.compute.nodes import Node, columns_of
from headrace.compute.plan import WEND, WSTART
from headrace.compute.plan_clauses import Output
from headrace.compute.shares import KernelUse
from headrace.compute.sql_text import at_present, to_stored_type
from headrace.context import Context
from headrace.model.queries import FillMode
from headrace.model.types import DataType, TypeKind
from headrace.streams.definition.define import StreamPlan
from headrace.streams.filling.gaps import Gaps, MissingWindows
from headrace.streams.sinks.target import TargetTable
from headrace.streams.windows.change_batch import to_numpy
from headrace.streams.windows.window_sql import small_session

BOUNDS: Final = (WSTART, WEND)
FROM_BEFORE: Final = (FillMode.PREV, FillMode.LINEAR)
FROM_AFTER: Final = (FillMode.NEXT, FillMode.LINEAR)
CONSTANTS: Final = (FillMode.VALUE, FillMode.VALUE_F)

Doubles = npt.NDArray[np.float64]


class FilledValues:
    """Computes rows for the windows in gaps of one stream's target."""

    def __init__(self, context: Context, plan: StreamPlan, target: TargetTable) -> None:
        fill = plan.query.fill
        assert fill is not None
        self.context = context
        self.plan = plan
        self.target = target
        self.mode = fill.mode
        self.by_bounds = [
            output
            for output in plan.query.outputs
            if not output.is_filled and any(name in BOUNDS for name in columns_of(output.node))
        ]
        self._constants: pa.Table | None = None

    @property
    def filled_columns(self) -> list[str]:
        return [name for name, output in zip(self.plan.columns, self.plan.query.outputs, strict=True) if output.is_filled]

    def rows(self, gaps: Gaps, missing: MissingWindows, windows: pa.Table, keys: pa.Table, schema: pa.Schema) -> pa.Table:
        """Return rows of the target for missing windows in gaps, whose ends are rows of `windows`.

        `keys` has the key columns `p*` of each group. Columns of the schema that the stream does not write are NULL.
        """
        outputs = dict(zip(self.plan.columns, self.plan.query.outputs, strict=True))
        by_bounds = self.values_by_bounds(missing, keys.take(pa.array(gaps.group[missing.gap])))
        columns = [self.column(field, outputs.get(field.name), gaps, missing, windows, by_bounds) for field in schema]
        return pa.Table.from_arrays(columns, schema=schema)

    def column(
        self,
        field: pa.Field,
        output: Output | None,
        gaps: Gaps,
        missing: MissingWindows,
        windows: pa.Table,
        by_bounds: Mapping[str, pa.ChunkedArray],
    ) -> pa.Array | pa.ChunkedArray:
        before, after = pa.array(gaps.before[missing.gap]), pa.array(gaps.after[missing.gap])
        if output is None:
            return (
                windows[field.name].take(before)
                if field.name == self.plan.target.series_key
                else pa.nulls(len(missing.start), field.type)
            )
        if output.column in by_bounds:
            return self.target.to_stored(by_bounds[output.column], field)
        if not output.is_filled or self.mode is FillMode.PREV:
            return windows[field.name].take(before)
        if self.mode is FillMode.NEXT:
            return windows[field.name].take(after)
        if self.mode in CONSTANTS:
            return self.constant(output, field, len(missing.start))
        if self.mode is FillMode.LINEAR and output.type.is_number:
            return interpolate(windows[field.name], gaps, missing, output.type, field.type)
        return pa.nulls(len(missing.start), field.type)

    def values_by_bounds(self, missing: MissingWindows, keys: pa.Table) -> dict[str, pa.ChunkedArray]:
        """Return the output columns that depend on the ends of a window, in stored types of the source's precision."""
        rows = pa.table({name: keys[name] for name in keys.column_names} | {WSTART: missing.start, WEND: missing.end})
        return self.evaluate({output.column: self.stored(output, output.node) for output in self.by_bounds}, rows)

    def constant(self, output: Output, field: pa.Field, count: int) -> pa.ChunkedArray:
        if self._constants is None:
            fill = self.plan.query.fill
            assert fill is not None
            filled = [own for own in self.plan.query.outputs if own.is_filled]
            expressions = {own.column: self.stored(own, value) for own, value in zip(filled, fill.values, strict=True)}
            self._constants = pa.table(self.evaluate(expressions, pa.table({WSTART: [0]})))
        value = self.target.to_stored(self._constants[output.column], field)
        return pa.chunked_array([pa.repeat(value[0], count)], field.type)

    def stored(self, output: Output, node: Node) -> Node:
        """Return an expression for an output in the type in which it is stored."""
        return to_stored_type(at_present(self.plan.query, node), output.type, self.plan.query.precision)

    def evaluate(self, expressions: dict[str, Node], rows: pa.Table) -> dict[str, pa.ChunkedArray]:
        """Return the values of expressions over rows, by kernels if they can, else by Spark SQL."""
        if KernelUse(self.context.settings.kernels) is not KernelUse.NEVER:
            with suppress(UnsupportedError):
                values = OutputKernel.compile(expressions, rows.schema).append_to(rows)
                return {name: values[name] for name in expressions}
        frame = small_session(self.context.spark()).createDataFrame(rows).coalesce(1)
        values = frame.selectExpr(*(f"{node} AS {name}" for name, node in expressions.items())).toArrow()
        return {name: values[name] for name in expressions}


def interpolate(column: pa.ChunkedArray, gaps: Gaps, missing: MissingWindows, type_: DataType, stored: pa.DataType) -> pa.Array:
    """Return the values on the line between the windows at the ends of a gap; NULL if either is. As `filled_value` does."""
    first, last = (column.take(pa.array(rows)) for rows in (gaps.before, gaps.after))
    is_null = np.asarray(to_numpy(pc.or_(pc.is_null(first), pc.is_null(last))), np.bool_)[missing.gap]
    low, high = (to_numpy(pc.fill_null(ends.cast(pa.float64()), 0.0)).astype(np.float64) for ends in (first, last))
    length, offset = gaps.end - gaps.start, missing.start - gaps.start[missing.gap]
    with np.errstate(all="ignore"):
        line = low[missing.gap] + (high - low)[missing.gap] * offset / length[missing.gap]
    return from_doubles(line, is_null, type_, stored)


def from_doubles(values: Doubles, is_null: npt.NDArray[np.bool_], type_: DataType, stored: pa.DataType) -> pa.Array:
    """Convert doubles to a number type: integers without the fraction, NULL if out of range."""
    if pa.types.is_floating(stored):
        with np.errstate(all="ignore"):
            return pa.array(values.astype(stored.to_pandas_dtype()), stored, mask=is_null)
    if pa.types.is_decimal(stored):
        pairs = zip(values.tolist(), is_null.tolist(), strict=True)
        return pa.array([None if missing else to_decimal(value, type_, stored) for value, missing in pairs], stored)
    limits = np.iinfo(stored.to_pandas_dtype())
    with np.errstate(all="ignore"):
        whole = np.trunc(values)
        is_out = ~((whole >= float(limits.min)) & (whole <= float(limits.max)))
    clipped = np.where(is_out | is_null | (whole >= float(limits.max)), 0.0, whole).astype(np.int64)
    clipped[~is_out & (whole >= float(limits.max))] = limits.max
    return pa.array(clipped.astype(stored.to_pandas_dtype()), stored, mask=is_out | is_null)


def to_decimal(value: float, type_: DataType, stored: pa.DataType) -> Decimal | None:
    """Convert a double to a DECIMAL, or to the integers that are stored as one; None if it has too many digits."""
    try:
        rounding = ROUND_DOWN if type_.kind is TypeKind.UBIGINT else ROUND_HALF_UP
        rounded = Decimal(repr(value)).quantize(
            Decimal(1).scaleb(-stored.scale), rounding, context=DecimalContext(prec=stored.precision + 1)
        )
    except InvalidOperation:
        return None
    return rounded if len(rounded.as_tuple().digits) <= stored.precision else None
