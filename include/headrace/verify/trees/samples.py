"""Functions that select or aggregate points of a whole series: `top_k`, `m4` and samples of buckets of equal size.

Points have `_device`, `_ts`, the value `x` and their position `n` from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from headrace.model.types import DOUBLE, DataType
from headrace.verify.trees.scalars import FLOATS, NUMBERS
from headrace.verify.values import duck_type, unsupported

if TYPE_CHECKING:
    import duckdb

Attributes = Mapping[str, str]
Sample = Callable[["duckdb.DuckDBPyConnection", str, DataType, Attributes], tuple[str, DataType]]
"""From the relation of the points and the type of their values to a query with `_device`, `_ts` and `v`, and the type of `v`."""


def refuse_where(connection: duckdb.DuckDBPyConnection, query: str, feature: str) -> None:
    """Raise `NotSupportedError` if a query returns a row."""
    if connection.execute(f"{query} LIMIT 1").fetchone() is not None:
        raise unsupported(feature)


def refuse_nan(connection: duckdb.DuckDBPyConnection, points: str, type_: DataType, function: str) -> None:
    """Raise `NotSupportedError` if a value is NaN, which has no place in the order of values."""
    if type_.kind in FLOATS:
        refuse_where(connection, f"SELECT 1 FROM {points} WHERE isnan(x)", f"{function} of NaN")


def need_numbers(type_: DataType, function: str) -> None:
    """Raise `NotSupportedError` unless values are numbers."""
    if type_.kind not in NUMBERS:
        raise unsupported(f"{function} of {type_}")


def greatest_points(function: str, order: str) -> Sample:
    """Return the rule of the `k` greatest or least points. Which of several equal values are among them is not defined."""

    def sample(connection: duckdb.DuckDBPyConnection, points: str, type_: DataType, attributes: Attributes) -> tuple[str, DataType]:
        refuse_nan(connection, points, type_, function)
        count = int(attributes["k"])
        window = f"WINDOW w AS (PARTITION BY _device ORDER BY x {order})"
        ranked = f"SELECT *, rank() OVER w AS lowest, row_number() OVER w AS place FROM {points} {window}"
        tied = f"SELECT 1 FROM ({ranked}) WHERE place > {count} AND lowest <= {count}"
        refuse_where(connection, tied, f"{function} if the last of its points are equal")
        return f"SELECT _device, _ts, x AS v FROM ({ranked}) WHERE place <= {count}", type_

    return sample


FIRST_EXTREMES: Final = "list(n ORDER BY x, n)[1] AS low, list(n ORDER BY x DESC, n)[1] AS high"
"""Positions of the first least and the first greatest value."""


def m4(connection: duckdb.DuckDBPyConnection, points: str, type_: DataType, attributes: Attributes) -> tuple[str, DataType]:
    """Return the first, least, greatest and last point of each window; of the two between, only values other than the last."""
    need_numbers(type_, "m4")
    refuse_nan(connection, points, type_, "m4")
    members = m4_members(points, attributes)
    ends = "min(n) AS first, max(n) AS last, arg_max(x, n) AS final"
    windows = f"SELECT _device, w, {ends}, {FIRST_EXTREMES} FROM ({members}) GROUP BY _device, w"
    earlier, later = "least(low, high)", "greatest(low, high)"
    chosen = f"p.n IN (first, last) OR (p.n = {earlier} AND p.x <> final) OR (p.n = {later} AND p.x <> final)"
    joined = f"FROM {points} p JOIN ({windows}) m ON p._device = m._device AND p.n BETWEEN first AND last WHERE {chosen}"
    return f"SELECT DISTINCT p._device, p._ts, p.x AS v {joined}", type_


def m4_members(points: str, attributes: Attributes) -> str:
    """Return the points with the number `w` of each window that they belong to."""
    by_size = "windowSize" in attributes
    length = int(attributes["windowSize" if by_size else "timeInterval"])
    step = int(attributes.get("slidingStep", length))
    origin = "0" if by_size else f"(SELECT min(q._ts) FROM {points} q WHERE q._device = p._device)"
    if "displayWindowBegin" in attributes and not by_size:
        origin = str(int(attributes["displayWindowBegin"]))
    place = "n" if by_size else "_ts"
    # Window `w` begins at `w * step` after the origin.
    oldest = f"greatest(CAST(floor(({place} - origin - {length}) / {step}) AS BIGINT) + 1, 0)"
    newest = f"CAST(floor(({place} - origin) / {step}) AS BIGINT)"
    placed = f"SELECT *, CAST({origin} AS BIGINT) AS origin FROM {points} p"
    members = f"SELECT *, unnest(range({oldest}, {newest} + 1)) AS w FROM ({placed})"
    if by_size or "displayWindowEnd" not in attributes:
        return members
    end = int(attributes["displayWindowEnd"])
    return f"SELECT * FROM ({members}) WHERE _ts < {end} AND origin + w * {step} < {end}"


def bucket_size(attributes: Attributes) -> int:
    """Return the number of points in a bucket."""
    return int(1 / float(attributes.get("proportion", "0.1")))


def m4_sample(connection: duckdb.DuckDBPyConnection, points: str, type_: DataType, attributes: Attributes) -> tuple[str, DataType]:
    """Return the first and the last point of each bucket, and the least and greatest between them; all of four points or fewer."""
    need_numbers(type_, "a sample")
    refuse_nan(connection, points, type_, "a sample")
    numbered = f"SELECT *, n // {4 * bucket_size(attributes)} AS w FROM {points}"
    edges = f"SELECT *, min(n) OVER b AS first, max(n) OVER b AS last FROM ({numbered}) WINDOW b AS (PARTITION BY _device, w)"
    inner = f"SELECT _device, w, {FIRST_EXTREMES} FROM ({edges}) WHERE n > first AND n < last GROUP BY _device, w"
    # Of equal values, the first and the last are taken.
    chosen = "n IN (first, last) OR last - first < 4 OR n = low OR n = CASE WHEN low = high THEN last - 1 ELSE high END"
    return f"SELECT _device, _ts, x AS v FROM ({edges}) LEFT JOIN ({inner}) USING (_device, w) WHERE {chosen}", type_


def aggregate_sample(
    connection: duckdb.DuckDBPyConnection, points: str, type_: DataType, attributes: Attributes
) -> tuple[str, DataType]:
    """Return one value of each bucket at the instant of its first point."""
    need_numbers(type_, "a sample")
    refuse_nan(connection, points, type_, "a sample")
    name = attributes.get("type", "avg").lower()
    if name == "sum" and type_.kind in FLOATS:
        raise unsupported("a sample of sums of FLOAT or DOUBLE, which depend on their order")
    # A value is taken if it is farther from 0 than the one before it is above 0.
    farthest = "list_reduce(list_prepend(0, list(x ORDER BY n)), lambda a, b: CASE WHEN a < abs(b) THEN b ELSE a END)"
    values = {
        "avg": "avg(CAST(x AS DOUBLE))",
        "min": "min(x)",
        "max": "max(x)",
        "sum": f"CAST(sum(x) AS {duck_type(type_)})",
        "extreme": farthest,
        "variance": "var_pop(CAST(x AS DOUBLE))",
    }
    if name not in values:
        raise unsupported(f"a sample by {name}")
    numbered = f"SELECT *, n // {bucket_size(attributes)} AS w FROM {points}"
    sql = f"SELECT _device, min(_ts) AS _ts, {values[name]} AS v FROM ({numbered}) GROUP BY _device, w"
    return sql, DOUBLE if name in ("avg", "variance") else type_


SAMPLES: Final[dict[str, Sample]] = {
    "top_k": greatest_points("top_k", "DESC"),
    "bottom_k": greatest_points("bottom_k", "ASC"),
    "m4": m4,
    "equal_size_bucket_m4_sample": m4_sample,
    "equal_size_bucket_agg_sample": aggregate_sample,
}
