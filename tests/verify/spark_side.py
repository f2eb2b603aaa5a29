"""Run queries over a world on Spark, as Headrace does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.compute import Relation, Scan, Scope, SeriesNames, TableStatistics, bind, evaluate, language
from headrace.errors import NotFoundError
from headrace.model.queries import Query, Union
from headrace.model.tables import TBNAME, Name
from headrace.storage.spark.python_calls import define_in
from tests.verify.tables import stored_tags
from tests.verify.worlds import KEYED, MIXED, TAGS, World

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkSide:
    """Runs queries over the world that was entered last."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = spark.newSession()
        self.session.conf.set("spark.sql.adaptive.enabled", "false")
        self.session.conf.set("spark.sql.shuffle.partitions", "1")
        # For so few rows generating code takes longer than it saves.
        self.session.conf.set("spark.sql.codegen.wholeStage", "false")
        self.session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        define_in(self.session)
        self.frames: dict[str, DataFrame] = {}

    def enter(self, world: World) -> None:
        """Load the rows of a world into Spark, tags joined."""
        for frame in self.frames.values():
            frame.unpersist()
        self.world = world
        tags = self.session.createDataFrame(stored_tags(MIXED, world.database, TAGS))
        mixed = self.session.createDataFrame(world.rows["mixed"]).join(tags, TBNAME).coalesce(1)
        keyed = self.session.createDataFrame(world.rows["keyed"]).coalesce(1)
        self.frames = {"mixed": mixed.cache(), "keyed": keyed.cache()}

    def answer(self, query: Query | Union) -> pa.Table:
        plan = bind(query, Scope(self.resolve, language("tdengine"), self.world.database.timezone, 0))
        return evaluate(plan, self.read, statistics=self).toArrow()

    def size(self, scan: Scan) -> TableStatistics:
        """Return statistics as of large tables, which are evaluated in other ways."""
        names = list(TAGS) if scan.table is MIXED else [scan.table.name]
        return TableStatistics(max(1, (self.world.last - self.world.first) // 200), pa.table({TBNAME: names}))

    def subtables(self, scan: Scan) -> pa.Table:
        if scan.table is not MIXED:
            return pa.table({TBNAME: [scan.table.name]})
        return stored_tags(MIXED, self.world.database, TAGS)

    def read(self, scan: Scan) -> DataFrame:
        return self.frames[scan.table.name]

    def resolve(self, name: Name) -> tuple[Relation, ...]:
        if name.name in TAGS:
            return (Relation(MIXED, self.world.database, SeriesNames((name.name,))),)
        table = {table.name: table for table in (MIXED, KEYED)}.get(name.name)
        if table is None:
            raise NotFoundError(f"table {name} does not exist", span=name.span)
        return (Relation(table, self.world.database),)
