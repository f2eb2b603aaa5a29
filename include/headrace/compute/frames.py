"""Rows that steps of a query are written over once: as data frames of Spark, or as Arrow tables in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from headrace.compute.nodes import Node
from headrace.compute.plan import Plan
from headrace.compute.sql_text import named_sql, raise_error, to_sql
from headrace.compute.types import spark_type
from headrace.model.types import DataType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Repetition:
    """Copies of each row, one for each number from `first` to `last`, which is in column `number`; none if there is no number.

    Of more than `limit` copies, the query fails: `message` says so with their number in it.
    """

    number: str
    first: Node
    last: Node
    limit: int
    message: tuple[str, str]


class Frame(Protocol):
    """Rows with columns; expressions are those of a plan at its present."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""

    def select(self, columns: Mapping[str, Node]) -> Self:
        """Return these columns of all rows."""

    def extend(self, columns: Mapping[str, Node]) -> Self:
        """Return all rows with further columns."""

    def where(self, condition: Node) -> Self:
        """Return the rows for which a condition is true."""

    def repeat(self, repetition: Repetition) -> Self:
        """Return copies of the rows."""

    def or_row(self, columns: Mapping[str, Node], types: Mapping[str, DataType]) -> Self:
        """Return the rows, or if there are none, one with these columns, and NULL in those of `types`."""


@dataclass(frozen=True, slots=True)
class SparkRows:
    """Rows as a data frame."""

    plan: Plan
    frame: DataFrame

    @property
    def columns(self) -> list[str]:
        """See `Frame`."""
        return self.frame.columns

    def select(self, columns: Mapping[str, Node]) -> SparkRows:
        """See `Frame`."""
        return SparkRows(self.plan, self.frame.selectExpr(*named_sql(self.plan, columns)))

    def extend(self, columns: Mapping[str, Node]) -> SparkRows:
        """See `Frame`."""
        return SparkRows(self.plan, self.frame.selectExpr("*", *named_sql(self.plan, columns)))

    def where(self, condition: Node) -> SparkRows:
        """See `Frame`."""
        return SparkRows(self.plan, self.frame.where(to_sql(self.plan, condition)))

    def repeat(self, repetition: Repetition) -> SparkRows:
        """See `Frame`."""
        # Ends are columns, because the expressions of a calendar would be megabytes if nested.
        ends = self.extend({"_from": repetition.first, "_through": repetition.last}).frame
        before, after = (part.replace("'", "\\'") for part in repetition.message)
        message = f"concat('{before}', _through - _from, '{after}')"
        numbers = f"if(_through - _from > {repetition.limit}L, {raise_error(message)}, sequence(_from, _through))"
        exploded = f"explode(if(_through >= _from, {numbers}, array())) AS {repetition.number}"
        return SparkRows(self.plan, ends.selectExpr("*", exploded).drop("_from", "_through"))

    def or_row(self, columns: Mapping[str, Node], types: Mapping[str, DataType]) -> SparkRows:
        """See `Frame`."""
        nulls = [f"CAST(NULL AS {spark_type(type_)}) AS {name}" for name, type_ in types.items()]
        single = self.frame.sparkSession.range(1).selectExpr(*named_sql(self.plan, columns), *nulls, "true AS _added")
        both = self.frame.selectExpr("*", "false AS _added").unionByName(single)
        counted = both.selectExpr("*", "count_if(NOT _added) OVER () AS _existing")
        return SparkRows(self.plan, counted.where("NOT _added OR _existing = 0").drop("_added", "_existing"))
