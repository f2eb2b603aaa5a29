"""ASOF joins: to each row of one side the closest rows of the other in time.

The other side's rows are numbered in the order of time. How many of them precede a row of the driving side says which numbers it is
joined with, so no pair of rows is compared that does not belong together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.compute.plan import AsofMatch
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AT: Final = "_at"
NUMBER: Final = "_number"
BEFORE: Final = "_before"
TOTAL: Final = "_total"
ROW: Final = "_row"
IS_OTHER: Final = "_is_other"
UP_TO: Final = "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
LESS: Final = "RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"


def asof_join(match: AsofMatch, left: DataFrame, right: DataFrame) -> DataFrame:
    """Return each row of the driving side with at most `limit` rows of the other, or NULL if there is none."""
    driving, others = (left, right) if match.driving == 0 else (right, left)
    pairs = [*match.keys, *([match.times] if match.operator == "=" else [])]
    keys = [f"_k{number}" for number in range(len(pairs))]
    own = [f"{sql} AS {key}" for (sql, _), key in zip(pairs, keys, strict=True)]
    other = [f"{sql} AS {key}" for (_, sql), key in zip(pairs, keys, strict=True)]
    placed = others.selectExpr("*", *other, f"{match.times[1]} AS {AT}")
    # An unknown key equals no other.
    placed = placed.where(" AND ".join(f"{key} IS NOT NULL" for key in keys)) if keys else placed
    marks = driving.selectExpr(*own, f"{match.times[0]} AS {AT}", f"struct(*) AS {ROW}", f"0L AS {IS_OTHER}").union(
        placed.selectExpr(*keys, AT, f"NULL AS {ROW}", f"1L AS {IS_OTHER}")
    )
    group = f"PARTITION BY {', '.join(keys)}" if keys else ""
    frame = UP_TO if match.operator in (">=", "<") else LESS
    counted = marks.selectExpr(
        *keys,
        ROW,
        f"coalesce(sum({IS_OTHER}) OVER ({group} ORDER BY {AT} {frame}), 0L) AS {BEFORE}",
        f"sum({IS_OTHER}) OVER ({group}) AS {TOTAL}",
    ).where(f"{ROW} IS NOT NULL")
    wanted = counted.selectExpr(f"{ROW}.*", *keys, f"explode({numbers(match)}) AS {NUMBER}")
    numbered = placed.drop(AT).withColumn(NUMBER, F.expr(f"row_number() OVER ({group} ORDER BY {match.times[1]}, {match.order})"))
    renamed = numbered.withColumnsRenamed({name: f"_other{name}" for name in (*keys, NUMBER)})
    condition = " AND ".join(f"{name} = _other{name}" for name in (*keys, NUMBER))
    joined = wanted.join(renamed, F.expr(condition), "left")
    return joined.drop(*keys, NUMBER, *(f"_other{name}" for name in (*keys, NUMBER)))


def numbers(match: AsofMatch) -> str:
    """Return the numbers of the rows that a row is joined with, as an array; NULL is its element if there is none."""
    if match.operator in (">", ">="):
        return f"if({BEFORE} = 0L, array(NULL), sequence(greatest(1L, {BEFORE} - {match.limit - 1}L), {BEFORE}))"
    start = "0L" if match.operator == "=" else BEFORE
    return f"if({start} >= {TOTAL}, array(NULL), sequence({start} + 1L, least({start} + {match.limit}L, {TOTAL})))"
