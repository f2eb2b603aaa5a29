"""Functions over whole series: the points that they return are joined to the rows on time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.columnar.series_join import Joined, SeriesJoin
from headrace.compute.columnar.series_points import Array, Rows, process_part, to_integers
from headrace.compute.frames import SparkRows
from headrace.compute.functions.series_streams import SeriesStream
from headrace.compute.nodes import Column, columns_of
from headrace.compute.plan import Plan
from headrace.compute.plan_clauses import SeriesArrowCall
from headrace.compute.plan_sources import SeriesRows
from headrace.compute.sql_text import named_sql
from headrace.compute.types import from_ticks, spark_type
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

INSTANT: Final = "__call_time"
PART_ROWS: Final = 1 << 17
"""Rows that are passed to functions at once: enough that calling a code host costs little."""


def add_series_functions(plan: Plan, rows: SparkRows) -> SparkRows:
    """Return the rows of `SeriesRows` with a column for each call; instants that only a call has are further rows.

    A series passes through one task in order of time, in parts, once for all calls.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    assert plan.identity.time is not None
    keys = [plan.identity.series_column] if plan.identity.series_column else []
    (time,) = columns_of(plan.identity.time)
    calls = plan.series.arrow_calls
    inputs = {input_name(call, number): node for call in calls for number, node in enumerate(call.inputs)}
    kept = [name for name in rows.columns if name != time]
    timed = rows.frame.selectExpr(*kept, f"{plan.identity.time} AS {INSTANT}")
    prepared = rows.frame.selectExpr(*kept, f"{plan.identity.time} AS {INSTANT}", *named_sql(plan, inputs))
    values = (f"CAST(NULL AS {spark_type(call.type)}) AS {call.column}" for call in calls)
    schema = nullable(timed.selectExpr("*", *values).schema)
    series = prepared.repartition(*keys) if keys else prepared.coalesce(1)
    evaluate = evaluator(calls, keys, to_arrow_schema(schema, timezone="UTC"))
    joined = series.sortWithinPartitions(*keys, INSTANT).mapInArrow(evaluate, schema)
    # A sub-query returns its time in ticks.
    instant = Column(INSTANT)
    restored = from_ticks(instant, plan.precision) if isinstance(plan.source, SeriesRows) else instant
    return SparkRows(plan, joined.withColumn(time, F.expr(str(restored))).drop(INSTANT))


def nullable(schema: StructType) -> StructType:
    """Return a schema whose columns may be NULL: rows at instants that only a call has lack the others, also counts."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, field.dataType) for field in schema.fields])


def input_name(call: SeriesArrowCall, number: int) -> str:
    return f"{call.column}_x{number}"


def evaluator(
    calls: Sequence[SeriesArrowCall], keys: Sequence[str], schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function from rows in order of series and time to rows with the values of calls."""

    def evaluate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with ExitStack() as cleanup:
            streams = [cleanup.enter_context(closing(call.rule.open())) for call in calls]
            evaluation = SeriesEvaluation(calls, streams, keys, schema)
            for part, more in parts_of(batches):
                yield from evaluation.process(part, more=more)

    return evaluate


def parts_of(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.Table, bool]]:
    """Yield the rows of batches in parts of about `PART_ROWS`, and whether another one follows."""
    part: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if size >= PART_ROWS:
            yield pa.Table.from_batches(part), True
            part, size = [], 0
        if batch.num_rows:
            part.append(batch)
            size += batch.num_rows
    if part:
        yield pa.Table.from_batches(part), False


@dataclass(slots=True)
class SeriesEvaluation:
    """Calls functions over the series of a task. `schema` is that of its results."""

    calls: Sequence[SeriesArrowCall]
    streams: Sequence[SeriesStream]
    keys: Sequence[str]
    schema: pa.Schema
    _series: SeriesNumbers = field(init=False)
    _join: SeriesJoin = field(init=False)

    def __post_init__(self) -> None:
        """Begin without rows."""
        self._series, self._join = SeriesNumbers(self.keys), SeriesJoin([call.column for call in self.calls])

    def process(self, part: pa.Table, *, more: bool) -> Iterator[pa.RecordBatch]:
        """Yield complete rows; `more` says whether another part follows."""
        part = part.combine_chunks()
        devices, ticks = self._series.number(part), to_integers(part[INSTANT])
        columns = {name: part[name].chunk(0) for name in self.schema.names if name in part.column_names and name != INSTANT}
        points = {}
        for call, stream in zip(self.calls, self.streams, strict=True):
            inputs = [part[input_name(call, number)].chunk(0) for number in range(len(call.inputs))]
            points[call.column] = process_part(stream, devices, ticks, inputs, more=more)
        for joined in self._join.add(Rows(devices, columns), ticks, points, more=more):
            yield self._batch(joined)
        self._series.forget_before(int(devices[-1]))

    def _batch(self, joined: Joined) -> pa.RecordBatch:
        rows, instants = joined
        columns = {**rows.columns, INSTANT: pa.array(instants)}
        columns |= {key: values for key, values in self._series.keys_of(rows.devices).items() if columns[key].null_count}
        arrays = [columns[field.name].cast(field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(slots=True)
class SeriesNumbers:
    """Numbers the series of rows in order of their keys, from 0."""

    keys: Sequence[str]
    _numbers: Array = field(default_factory=lambda: np.empty(0, np.int64), init=False)
    _values: pa.Table | None = field(default=None, init=False)

    def number(self, rows: pa.Table) -> Array:
        """Return the number of each row's series. There is at least one row."""
        keys = rows.select(self.keys)
        starts = self._changes(keys)
        first = int(self._numbers[-1]) if len(self._numbers) else -1
        numbers: Array = first + np.cumsum(starts)
        new = keys.take(pa.array(np.flatnonzero(starts)))
        self._numbers = np.concatenate([self._numbers, numbers[starts]])
        self._values = new if self._values is None else pa.concat_tables([self._values, new])
        return numbers

    def _changes(self, keys: pa.Table) -> Array:
        """Return which rows begin a series."""
        previous = keys.slice(0, 1) if self._values is None else self._values.slice(self._values.num_rows - 1)
        changes = np.zeros(keys.num_rows, np.bool_)
        changes[0] = self._values is None
        for key in self.keys:
            before = pa.concat_arrays([previous[key].combine_chunks(), keys[key].combine_chunks().slice(0, keys.num_rows - 1)])
            changes |= pc.fill_null(pc.not_equal(keys[key].combine_chunks(), before), True).to_numpy(zero_copy_only=False)
        return changes

    def keys_of(self, numbers: Array) -> dict[str, pa.Array]:
        """Return the keys of the series of each row."""
        assert self._values is not None
        places = pa.array(np.searchsorted(self._numbers, numbers))
        return {key: self._values[key].combine_chunks().take(places) for key in self.keys}

    def forget_before(self, number: int) -> None:
        """Forget the keys of earlier series, whose rows have all been returned."""
        assert self._values is not None
        first = int(np.searchsorted(self._numbers, number))
        self._numbers, self._values = self._numbers[first:], self._values.slice(first)
