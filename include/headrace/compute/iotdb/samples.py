"""IoTDB's sampling functions over a whole series, on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.compute.functions.arrow import TIME, SeriesArrowArguments, SeriesArrowFunction, SeriesArrowRule
from headrace.compute.functions.series_streams import VALUE, whole_series
from headrace.compute.iotdb.outliers import OUTLIERS, outlier_indexes, top_indexes
from headrace.compute.iotdb.types import EXECUTION_ERROR, NUMERIC, Attributes, check_inputs, type_error
from headrace.errors import LimitError
from headrace.model.types import DOUBLE, TypeKind
from headrace.model.windows import copies

Array = npt.NDArray[Any]
Places = npt.NDArray[np.int64]

SELECTABLE: Final = (*NUMERIC, TypeKind.VARCHAR, TypeKind.NCHAR, TypeKind.DATE, TypeKind.TIMESTAMP)
MAX_K: Final = 1000
MAX_WINDOW_ROWS: Final = 100_000_000
UNBOUNDED: Final = 2**63 - 1
AGGREGATIONS: Final = ("avg", "min", "max", "sum", "extreme", "variance")
REAL_AGGREGATIONS: Final = ("avg", "variance")


@dataclass(frozen=True, slots=True)
class WholeSeriesFunction(SeriesArrowFunction):
    """A function over a whole series; `accepts` holds the types of all of its inputs."""

    accepts: tuple[TypeKind, ...] = NUMERIC

    def make_rule(self, arguments: SeriesArrowArguments) -> SeriesArrowRule:
        """Return the rule for these arguments. Raise `TypeMismatchError` if they do not fit."""
        check_inputs(self.name, arguments.types, self.accepts, self.min_arguments, self.max_arguments)
        return self.rule(arguments)


def first_input(rows: pa.Table) -> Array:
    values: Array = rows["x0"].combine_chunks().to_numpy(zero_copy_only=False)
    return values


def select_points(rows: pa.Table, places: Places) -> pa.Table:
    return pa.table({TIME: rows[TIME].take(places), VALUE: rows["x0"].take(places)})


# The k greatest or least


def select_k_rule(arguments: SeriesArrowArguments, *, greatest: bool) -> SeriesArrowRule:
    count = Attributes(arguments.attributes).integer("k")
    if not 0 < count <= MAX_K:
        raise type_error("k has to be greater than 0 and less than or equal to 1000.", hint=f"use 'k'='1' to 'k'='{MAX_K}'")
    return SeriesArrowRule(arguments.types[0], whole_series(select_extremes, count=count, greatest=greatest))


def select_extremes(rows: pa.Table, count: int, greatest: bool) -> pa.Table:
    return select_points(rows, top_indexes(first_input(rows), count, greatest=greatest))


# M4


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows of `length` every `step` from `begin` to `end`, over row numbers or, if `by_time`, over ticks."""

    length: int
    step: int
    by_time: bool
    begin: int | None = 0
    end: int = UNBOUNDED


def m4_rule(arguments: SeriesArrowArguments) -> SeriesArrowRule:
    return SeriesArrowRule(arguments.types[0], whole_series(m4, sliding=sliding_windows(Attributes(arguments.attributes))))


def sliding_windows(attributes: Attributes) -> SlidingWindows:
    by_size, by_time = attributes.has("windowSize"), attributes.has("timeInterval")
    if not by_size and not by_time:
        raise type_error('attribute "windowSize"/"timeInterval" is required but was not provided.', hint="write 'windowSize'='10'")
    if by_size and by_time:
        raise type_error('use attribute "windowSize" or "timeInterval" only one at a time.', hint="remove one of them")
    name = "windowSize" if by_size else "timeInterval"
    length = positive(name, attributes.integer(name))
    step = positive("slidingStep", attributes.integer("slidingStep", length))
    if by_size:
        return SlidingWindows(length, step, by_time=False)
    begin = attributes.integer("displayWindowBegin") if attributes.has("displayWindowBegin") else None
    end = attributes.integer("displayWindowEnd", UNBOUNDED)
    if begin is not None and end < begin:
        raise type_error(f"displayWindowEnd({end}) < displayWindowBegin({begin})", hint="exchange them", status=EXECUTION_ERROR)
    return SlidingWindows(length, step, by_time=True, begin=begin, end=end)


def positive(name: str, value: int) -> int:
    """Return an attribute's value. Raise `TypeMismatchError` unless it is above 0."""
    if value <= 0:
        raise type_error(f"Parameter {name}({value}) should be positive.", hint="use 1 or more", status=EXECUTION_ERROR)
    return value


def m4(rows: pa.Table, sliding: SlidingWindows) -> pa.Table:
    """Return the first, least, greatest and last point of each window, omitting values that the last repeats."""
    times = rows[TIME].to_numpy()
    places, starts = window_rows(times, sliding)
    if not len(places):
        return select_points(rows, places)
    values = first_input(rows)[places]
    first, last = starts, np.append(starts[1:], len(places)) - 1
    low, high = first_extremes(values, starts)
    smaller, larger = np.minimum(low, high), np.maximum(low, high)
    final = values[last]
    selected = [
        first,
        smaller[(smaller > first) & (values[smaller] != final)],
        larger[(larger > smaller) & (values[larger] != final)],
        last[last > first],
    ]
    return select_points(rows, places[np.sort(np.concatenate(selected))])


def window_rows(times: Array, sliding: SlidingWindows) -> tuple[Places, Places]:
    """Return the row indexes of all non-empty windows, window by window, and the offset of each window in them."""
    if not len(times):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    at = times if sliding.by_time else np.arange(len(times))
    begin = int(at[0]) if sliding.begin is None else sliding.begin
    offset = (at - begin).astype(np.int64)
    newest = offset // sliding.step
    oldest = np.maximum(-((sliding.length - 1 - offset) // sliding.step), 0)
    if sliding.end < UNBOUNDED:
        newest = np.where(at < sliding.end, np.minimum(newest, -((begin - sliding.end) // sliding.step) - 1), -1)
    counts = np.maximum(newest - oldest + 1, 0)
    if (total := counts.sum(dtype=np.float64)) > MAX_WINDOW_ROWS:
        message = f"m4 reads {total:.0f} rows, since its windows overlap; at most {MAX_WINDOW_ROWS} are possible"
        raise LimitError(message, hint="make 'slidingStep' longer").with_status(EXECUTION_ERROR)
    places, within = copies(counts)
    windows = oldest[places] + within
    order = np.lexsort((places, windows))
    starts = np.flatnonzero(np.diff(windows[order], prepend=-1))
    return places[order], starts


def first_extremes(values: Array, starts: Places) -> tuple[Places, Places]:
    """Return the indexes of the first least and first greatest value of each segment. NaN wins only if it is the first value."""
    lengths = np.diff(np.append(starts, len(values)))
    places = np.arange(len(values))

    def first(extremes: Array) -> Places:
        matches = np.where(values == np.repeat(extremes, lengths), places, len(values))
        results: Places = np.minimum.reduceat(matches, starts)
        return np.where(values[starts] != values[starts], starts, results)

    return first(np.fmin.reduceat(values, starts)), first(np.fmax.reduceat(values, starts))


# Buckets of equal size


def bucket_size(arguments: SeriesArrowArguments) -> int:
    proportion = Attributes(arguments.attributes).real("proportion", 0.1)
    if not 0 < proportion <= 1:
        raise type_error("Illegal sample proportion. proportion > 0 and proportion <= 1", hint="use 0.1 to keep one point of ten")
    return int(1 / proportion)


def random_rule(arguments: SeriesArrowArguments) -> SeriesArrowRule:
    return SeriesArrowRule(arguments.types[0], whole_series(random_points, size=bucket_size(arguments)))


def random_points(rows: pa.Table, size: int) -> pa.Table:
    starts = np.arange(0, rows.num_rows, size)
    lengths = np.diff(np.append(starts, rows.num_rows))
    return select_points(rows, starts + np.random.default_rng(size).integers(0, np.maximum(lengths, 1)))


def m4_sample_rule(arguments: SeriesArrowArguments) -> SeriesArrowRule:
    """Return the rule of `EQUAL_SIZE_BUCKET_M4_SAMPLE`; its buckets hold four times the points."""
    return SeriesArrowRule(arguments.types[0], whole_series(m4_sample, size=4 * bucket_size(arguments)))


def m4_sample(rows: pa.Table, size: int) -> pa.Table:
    """Return the first and the last point of each bucket, and the least and the greatest between them."""
    count = rows.num_rows
    starts = np.arange(0, count, size)
    ends = np.minimum(starts + size, count)
    small = ends - starts <= 4
    complete = np.concatenate(
        [np.empty(0, np.int64), *(np.arange(*edges) for edges in zip(starts[small], ends[small], strict=True))]
    )
    starts, ends = starts[~small], ends[~small]
    inner = np.concatenate([np.empty(0, np.int64), *(np.arange(a + 1, b - 1) for a, b in zip(starts, ends, strict=True))])
    if not len(inner):
        return select_points(rows, complete)
    lengths = ends - starts - 2
    low, high = (inner[places] for places in first_extremes(first_input(rows)[inner], np.cumsum(lengths) - lengths))
    high = np.where(low == high, ends - 2, high)
    return select_points(rows, np.sort(np.concatenate([complete, starts, low, high, ends - 1])))


def aggregate_rule(arguments: SeriesArrowArguments) -> SeriesArrowRule:
    name = Attributes(arguments.attributes).text("type", "avg").lower()
    if name not in AGGREGATIONS:
        message = "Illegal aggregation method. Aggregation type should be avg, min, max, sum, extreme, variance."
        raise type_error(message, hint=f"'type'='{name}' is none of them")
    type_ = DOUBLE if name in REAL_AGGREGATIONS else arguments.types[0]
    return SeriesArrowRule(type_, whole_series(aggregate_buckets, size=bucket_size(arguments), name=name))


def aggregate_buckets(rows: pa.Table, size: int, name: str) -> pa.Table:
    """Aggregate each bucket to one value, at the instant of its first point."""
    values, starts = first_input(rows), np.arange(0, rows.num_rows, size)
    empty = values.astype(float) if name in REAL_AGGREGATIONS else values
    results = AGGREGATES[name](values, starts, size) if len(values) else empty
    return pa.table({TIME: rows[TIME].take(starts), VALUE: pa.array(results)})


def segment_lengths(values: Array, starts: Places) -> Places:
    return np.diff(np.append(starts, len(values)))


def means(values: Array, starts: Places, _: int) -> Array:
    """Return the mean of each segment."""
    return np.asarray(np.add.reduceat(values.astype(float), starts) / segment_lengths(values, starts))


def variances(values: Array, starts: Places, size: int) -> Array:
    deviations = values - np.repeat(means(values, starts, size), segment_lengths(values, starts))
    return means(deviations * deviations, starts, size)


def farthest(values: Array, starts: Places, size: int) -> Array:
    """Return the server's `extreme` of each segment.

    A value replaces the previous result if its absolute value exceeds that result, sign included.
    """
    results = np.zeros(len(starts), values.dtype)
    for offset in range(size):
        places = starts + offset
        value = values[np.minimum(places, len(values) - 1)]
        results = np.where((places < len(values)) & (results < np.abs(value)), value, results)
    return results


def reduce_segments(function: np.ufunc) -> Callable[[Array, Places, int], Array]:
    return lambda values, starts, _: function.reduceat(values, starts)


def sums(values: Array, starts: Places, _: int) -> Array:
    """Return the sum of each segment in the input's type; integers wrap around."""
    return np.asarray(np.add.reduceat(values, starts, dtype=values.dtype))


AGGREGATES: Final[dict[str, Callable[[Array, Places, int], Array]]] = {
    "avg": means,
    "min": reduce_segments(np.fmin),
    "max": reduce_segments(np.fmax),
    "sum": sums,
    "extreme": farthest,
    "variance": variances,
}


def outlier_rule(arguments: SeriesArrowArguments) -> SeriesArrowRule:
    """Return the rule of `EQUAL_SIZE_BUCKET_OUTLIER_SAMPLE`; its buckets hold `number` times the points."""
    attributes = Attributes(arguments.attributes)
    name, number = attributes.text("type", "avg").lower(), attributes.integer("number", 3)
    if name not in OUTLIERS:
        text = "Illegal outlier method. Outlier type should be avg, stendis, cos or prenextdis."
        raise type_error(text, hint=f"'type'='{name}' is none of them")
    if number <= 0:
        raise type_error("Illegal number. Number should be greater than 0.", hint="use 'number'='3'")
    size = bucket_size(arguments) * number
    return SeriesArrowRule(arguments.types[0], whole_series(select_outliers, size=size, name=name, number=number))


def select_outliers(rows: pa.Table, size: int, name: str, number: int) -> pa.Table:
    """Return the `number` points of each bucket that stand out most."""
    return select_points(rows, outlier_indexes(rows[TIME].to_numpy(), first_input(rows), size, name, number))


WHOLE_SERIES_TABLE: Final = (
    WholeSeriesFunction("top_k", partial(select_k_rule, greatest=True), "the `k` greatest points (1 to 1000)", accepts=SELECTABLE),
    WholeSeriesFunction("bottom_k", partial(select_k_rule, greatest=False), "the `k` least points (1 to 1000)", accepts=SELECTABLE),
    WholeSeriesFunction(
        "m4",
        m4_rule,
        "first, least, greatest and last point of each window of `windowSize` points or `timeInterval` ticks, every `slidingStep`",
    ),
    WholeSeriesFunction(
        "equal_size_bucket_random_sample", random_rule, "a point at random of each bucket; of all points `proportion`"
    ),
    WholeSeriesFunction(
        "equal_size_bucket_agg_sample", aggregate_rule, f"one value of each bucket, by `type`: {', '.join(AGGREGATIONS)}"
    ),
    WholeSeriesFunction("equal_size_bucket_m4_sample", m4_sample_rule, "first, least, greatest and last point of each bucket"),
    WholeSeriesFunction(
        "equal_size_bucket_outlier_sample",
        outlier_rule,
        f"`number` points of each bucket that stand out most, by `type`: {', '.join(OUTLIERS)}",
    ),
)
