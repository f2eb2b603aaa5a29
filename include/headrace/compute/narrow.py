"""Subtables by number: a name is hashed, shuffled and compared for every row, and a number is a third of it.

The number is a hash of the name. That no two names share one is checked before it is used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.compute.plan import Key, Plan
from headrace.compute.terms import quote
from headrace.compute.windows import with_following
from headrace.model.tables import TBNAME
from headrace.model.types import BIGINT
from headrace.storage.functions import F

if TYPE_CHECKING:
    import pyarrow as pa
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
    """The subtables of a table (`tbname`) with their numbers; None where two have the same."""
    found = spark.createDataFrame(names.select([TBNAME])).selectExpr(f"{quote(TBNAME)} AS {NAME}", f"{HASH} AS {NUMBER}")
    return found if found.select(NUMBER).distinct().count() == names.num_rows else None


def widened(plan: Plan, key: Key, found: DataFrame, known: DataFrame) -> DataFrame:
    """Windows of the narrowed plan with the names and what follows from them."""
    named = found.join(F.broadcast(known), F.col(key.column) == F.col(NUMBER)).drop(key.column, NUMBER)
    return with_following(plan, named.withColumnRenamed(NAME, key.column))
