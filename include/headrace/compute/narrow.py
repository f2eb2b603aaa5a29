"""Subtables by number: a name is hashed, shuffled and compared for every row, and a number is a third of it.

The number is a hash of the name. That no two names share one is checked before it is used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.compute.ordering import RANK, SHARE
from headrace.compute.plan import Key, Plan
from headrace.compute.terms import quote
from headrace.compute.windows import with_following
from headrace.model.tables import TBNAME
from headrace.model.types import BIGINT
from headrace.storage.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "_name"
NUMBER: Final = "_number"
HASH: Final = f"xxhash64({quote(TBNAME)})"


def subtable_key(plan: Plan) -> Key | None:
    """The key that is the source's subtable."""
    return next((key for key in plan.keys if key.sql == quote(TBNAME)), None)


def narrowed(plan: Plan, key: Key) -> Plan:
    """The plan with the subtable's number for its name, and without the keys that follow from the name."""
    number = replace(key, sql=HASH, type=BIGINT)
    return replace(plan, keys=tuple(number if each is key else each for each in plan.keys if not each.follows))


def numbers(spark: SparkSession, names: pa.Table) -> DataFrame | None:
    """The subtables of a table (`tbname`) with numbers, and the place of each name in order; None where two have one number."""
    ordered = names.select([TBNAME]).sort_by(TBNAME).append_column(RANK, pa.array(range(names.num_rows), pa.int64()))
    share = f"CAST({RANK} * {spark.sparkContext.defaultParallelism}L div {max(1, names.num_rows)}L AS INT) AS {SHARE}"
    made = spark.createDataFrame(ordered).selectExpr(f"{quote(TBNAME)} AS {NAME}", f"{HASH} AS {NUMBER}", RANK, share)
    return made if len(set(made.select(NUMBER).collect())) == names.num_rows else None


def widened(plan: Plan, key: Key, found: DataFrame, known: DataFrame) -> DataFrame:
    """Windows of the narrowed plan with the names, what follows from them, and the names' places.

    A subtable that was made after the names were read has none, and its rows do not count yet, as where tags are joined.
    """
    named = found.join(F.broadcast(known), F.col(key.column) == F.col(NUMBER)).drop(key.column, NUMBER)
    return with_following(plan, named.withColumnRenamed(NAME, key.column))
