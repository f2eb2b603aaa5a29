"""What the meaning of an expression depends on besides its operands."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.compute import calendar
from headrace.compute.nodes import Node, bigint, call, string
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
        return self.from_micros(call("parse_instant", sql, string(self.timezone)))

    def format_instant(self, sql: Node, pattern: str, zone: str | None = None) -> Node:
        """Format an instant by a pattern of Java's DateTimeFormatter, whatever the time zone of the Spark session."""
        return call("format_wall", call("timestamp_micros", self.micros(self.local(sql, zone))), string(pattern))

    def from_micros(self, micros: Node) -> Node:
        """Convert microseconds to ticks."""
        match self.precision:
            case Precision.MILLISECOND:
                return call("thousandths", micros).cast("bigint")
            case Precision.MICROSECOND:
                return micros
            case _:
                return micros * bigint(1000)

    def micros(self, sql: Node) -> Node:
        """Convert ticks to microseconds."""
        match self.precision:
            case Precision.MILLISECOND:
                return sql * bigint(1000)
            case Precision.MICROSECOND:
                return sql
            case _:
                return call("thousandths", sql).cast("bigint")
