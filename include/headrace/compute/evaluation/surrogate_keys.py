"""Surrogate keys for subtables: 64-bit hashes that are hashed, shuffled and compared in place of long names.

That no two names have the same hash is checked before the keys are used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.compute.evaluation.ordering import RANGE_PARTITION, RANK
from headrace.compute.nodes import call
from headrace.compute.plan import Plan
from headrace.compute.plan_clauses import Key
from headrace.compute.windows.segments import add_derived_keys
from headrace.model.types import BIGINT
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "_name"
SURROGATE: Final = "_surrogate"
HASH: Final = "xxhash64"


def encode_subtables(plan: Plan, key: Key) -> Plan:
    surrogate = replace(key, node=call(HASH, key.node), type=BIGINT)
    return replace(plan, keys=tuple(surrogate if other is key else other for other in plan.keys if not other.is_derived))


def build_surrogate_keys(spark: SparkSession, names: pa.Table) -> DataFrame | None:
    """Return names (first), surrogates, ranks and partitions of subtables, or None if two names have the same surrogate."""
    ordered = names.select([0]).rename_columns([NAME]).sort_by(NAME)
    ordered = ordered.append_column(RANK, pa.array(range(names.num_rows), pa.int64()))
    partition = f"CAST({RANK} * {spark.sparkContext.defaultParallelism}L div {max(1, names.num_rows)}L AS INT) AS {RANGE_PARTITION}"
    surrogates = spark.createDataFrame(ordered).selectExpr(NAME, f"{HASH}({NAME}) AS {SURROGATE}", RANK, partition)
    return surrogates if len(set(surrogates.select(SURROGATE).collect())) == names.num_rows else None


def decode_subtables(plan: Plan, key: Key, groups: DataFrame, surrogates: DataFrame) -> DataFrame:
    """Replace surrogates by names and ranks, and add the keys derived from the names.

    `surrogates` holds every subtable that has rows (see `TableStatistics`), so the join drops none.
    """
    named = groups.join(F.broadcast(surrogates), F.col(key.column) == F.col(SURROGATE)).drop(key.column, SURROGATE)
    return add_derived_keys(plan, named.withColumnRenamed(NAME, key.column))
