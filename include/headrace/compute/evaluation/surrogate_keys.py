"""Subtables by number: a name is hashed, shuffled and compared for every row, and a number is a third of it.

The number is a hash of the name. That no two names share one is checked before it is used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.compute.evaluation.ordering import RANK, SHARE
from headrace.compute.plan import Key, Plan
from headrace.compute.windows.segments import with_following
from headrace.model.types import BIGINT
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "_name"
NUMBER: Final = "_number"
HASH: Final = "xxhash64({name})"


def encode_subtables(plan: Plan, key: Key) -> Plan:
    """The plan with the subtable's number for its name, and without the keys that follow from the name."""
    number = replace(key, sql=HASH.format(name=key.sql), type=BIGINT)
    return replace(plan, keys=tuple(number if each is key else each for each in plan.keys if not each.follows))


def surrogate_keys(spark: SparkSession, names: pa.Table) -> DataFrame | None:
    """The series of a table (its series key first) with numbers, and each name's place in order; None if two share a number."""
    ordered = names.select([0]).rename_columns([NAME]).sort_by(NAME)
    ordered = ordered.append_column(RANK, pa.array(range(names.num_rows), pa.int64()))
    share = f"CAST({RANK} * {spark.sparkContext.defaultParallelism}L div {max(1, names.num_rows)}L AS INT) AS {SHARE}"
    made = spark.createDataFrame(ordered).selectExpr(NAME, f"{HASH.format(name=NAME)} AS {NUMBER}", RANK, share)
    return made if len(set(made.select(NUMBER).collect())) == names.num_rows else None


def decode_subtables(plan: Plan, key: Key, found: DataFrame, known: DataFrame) -> DataFrame:
    """Windows of the encoded plan with the names, what follows from them, and the names' places.

    `known` holds every subtable that has rows (see `TableStatistics`), so that the join drops none.
    """
    named = found.join(F.broadcast(known), F.col(key.column) == F.col(NUMBER)).drop(key.column, NUMBER)
    return with_following(plan, named.withColumnRenamed(NAME, key.column))
