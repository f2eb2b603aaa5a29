"""What the meaning of an expression depends on besides its operands."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.compute import calendar
from headrace.compute.terms import NOW, Term, string_sql
from headrace.model.time import Precision
from headrace.model.types import TIMESTAMP


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """The tick of the source, and the time zone for calendar functions and for timestamps written without a zone."""

    precision: Precision
    timezone: str

    @property
    def day(self) -> int:
        """Ticks in 24 hours."""
        return self.precision.ticks_per_second * 86_400

    def today(self) -> Term:
        """Return midnight of the current day in the statement's zone."""
        local = self.local(NOW)
        return Term(calendar.to_utc(f"({local} - pmod({local}, {self.day}L))", self.timezone, self.precision), TIMESTAMP)

    def local(self, sql: str, zone: str | None = None) -> str:
        """Return the wall clock at an instant, as ticks."""
        return calendar.to_local(sql, zone or self.timezone, self.precision)

    def date(self, sql: str) -> str:
        """Return the calendar date at an instant."""
        return calendar.date_of(self.local(sql), self.precision)

    def text_to_ticks(self, sql: str) -> str:
        """Parse text to ticks, in the statement's zone unless the text has one. NULL if it is not a timestamp."""
        zoned = f"unix_micros(try_cast({sql} AS TIMESTAMP))"
        wall = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01', try_cast({sql} AS TIMESTAMP_NTZ))"
        local = f"unix_micros(to_utc_timestamp(timestamp_micros({wall}), {string_sql(self.timezone)}))"
        return self.from_micros(f"if({sql} RLIKE '(Z|z|[+-][0-9]{{2}}:?[0-9]{{2}})$', {zoned}, {local})")

    def format_instant(self, sql: str, pattern: str, zone: str | None = None) -> str:
        """Format an instant by a pattern of Java's DateTimeFormatter.

        The result does not depend on the time zone of the Spark session.
        """
        wall = f"timestamp_micros({self.micros(self.local(sql, zone))})"
        return f"date_format(to_utc_timestamp({wall}, current_timezone()), {string_sql(pattern)})"

    def from_micros(self, micros: str) -> str:
        """Convert microseconds to ticks."""
        match self.precision:
            case Precision.MILLISECOND:
                return f"CAST(floor({micros} / 1000) AS BIGINT)"
            case Precision.MICROSECOND:
                return micros
            case _:
                return f"({micros} * 1000L)"

    def micros(self, sql: str) -> str:
        """Convert ticks to microseconds."""
        match self.precision:
            case Precision.MILLISECOND:
                return f"({sql} * 1000L)"
            case Precision.MICROSECOND:
                return sql
            case _:
                return f"CAST(floor({sql} / 1000) AS BIGINT)"
