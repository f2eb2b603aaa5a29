"""What the meaning of an expression depends on besides its operands."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.compute import calendar
from headrace.compute.nodes import Node, spark_sql, string_sql
from headrace.compute.terms import Term, instant_literal
from headrace.model.instants import PresentInstant
from headrace.model.time import Precision


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """The tick of the source, and the time zone for calendar functions and for timestamps written without a zone."""

    precision: Precision
    timezone: str

    def now(self) -> Term:
        """Return the present instant, which is known when the query runs."""
        return instant_literal(0, PresentInstant(self.timezone, self.precision))

    def today(self) -> Term:
        """Return midnight of the current day in the statement's zone."""
        return instant_literal(0, PresentInstant(self.timezone, self.precision, ((0, None),)))

    def local(self, sql: Node, zone: str | None = None) -> Node:
        """Return the wall clock at an instant, as ticks."""
        return calendar.to_local(sql, zone or self.timezone, self.precision)

    def date(self, sql: Node) -> Node:
        """Return the calendar date at an instant."""
        return calendar.date_of(self.local(sql), self.precision)

    def text_to_ticks(self, sql: Node) -> Node:
        """Parse text to ticks, in the statement's zone unless the text has one. NULL if it is not a timestamp."""
        zoned = spark_sql("unix_micros(try_cast({} AS TIMESTAMP))", sql)
        wall = spark_sql("timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01', try_cast({} AS TIMESTAMP_NTZ))", sql)
        local = spark_sql("unix_micros(to_utc_timestamp(timestamp_micros({}), {}))", wall, string_sql(self.timezone))
        return self.from_micros(spark_sql("if({} RLIKE '(Z|z|[+-][0-9]{{2}}:?[0-9]{{2}})$', {}, {})", sql, zoned, local))

    def format_instant(self, sql: Node, pattern: str, zone: str | None = None) -> Node:
        """Format an instant by a pattern of Java's DateTimeFormatter, whatever the time zone of the Spark session."""
        wall = spark_sql("timestamp_micros({})", self.micros(self.local(sql, zone)))
        return spark_sql("date_format(to_utc_timestamp({}, current_timezone()), {})", wall, string_sql(pattern))

    def from_micros(self, micros: Node) -> Node:
        """Convert microseconds to ticks."""
        match self.precision:
            case Precision.MILLISECOND:
                return spark_sql("CAST(floor({} / 1000) AS BIGINT)", micros)
            case Precision.MICROSECOND:
                return micros
            case _:
                return spark_sql("({} * 1000L)", micros)

    def micros(self, sql: Node) -> Node:
        """Convert ticks to microseconds."""
        match self.precision:
            case Precision.MILLISECOND:
                return spark_sql("({} * 1000L)", sql)
            case Precision.MICROSECOND:
                return sql
            case _:
                return spark_sql("CAST(floor({} / 1000) AS BIGINT)", sql)
