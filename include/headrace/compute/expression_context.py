"""What the meaning of an expression depends on besides its parts."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.compute import calendar
from headrace.compute.terms import NOW, Term, text
from headrace.model.time import Precision
from headrace.model.types import TIMESTAMP


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """The tick of the source's instants, and the zone of timestamps written without one and of calendar functions."""

    precision: Precision
    timezone: str

    @property
    def day(self) -> int:
        """Ticks of a day of 24 hours."""
        return self.precision.ticks_per_second * 86_400

    def today(self) -> Term:
        """Midnight of the present day in the statement's zone."""
        here = self.local(NOW)
        return Term(calendar.to_utc(f"({here} - pmod({here}, {self.day}L))", self.timezone, self.precision), TIMESTAMP)

    def local(self, sql: str, zone: str | None = None) -> str:
        """The wall clock at an instant, as ticks."""
        return calendar.to_local(sql, zone or self.timezone, self.precision)

    def date(self, sql: str) -> str:
        """The calendar date at an instant."""
        return calendar.date_of(self.local(sql), self.precision)

    def parsed(self, sql: str) -> str:
        """Text as ticks, in the statement's zone where it names none; NULL where it is no timestamp."""
        zoned = f"unix_micros(try_cast({sql} AS TIMESTAMP))"
        wall = f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01', try_cast({sql} AS TIMESTAMP_NTZ))"
        here = f"unix_micros(to_utc_timestamp(timestamp_micros({wall}), {text(self.timezone)}))"
        return self.from_micros(f"if({sql} RLIKE '(Z|z|[+-][0-9]{{2}}:?[0-9]{{2}})$', {zoned}, {here})")

    def shown(self, sql: str, pattern: str, zone: str | None = None) -> str:
        """An instant as text, by a pattern of Java's DateTimeFormatter; whatever the session's zone."""
        wall = f"timestamp_micros({self.micros(self.local(sql, zone))})"
        return f"date_format(to_utc_timestamp({wall}, current_timezone()), {text(pattern)})"

    def from_micros(self, micros: str) -> str:
        """Microseconds as ticks."""
        match self.precision:
            case Precision.MILLISECOND:
                return f"CAST(floor({micros} / 1000) AS BIGINT)"
            case Precision.MICROSECOND:
                return micros
            case _:
                return f"({micros} * 1000L)"

    def micros(self, sql: str) -> str:
        """Ticks as microseconds."""
        match self.precision:
            case Precision.MILLISECOND:
                return f"({sql} * 1000L)"
            case Precision.MICROSECOND:
                return sql
            case _:
                return f"CAST(floor({sql} / 1000) AS BIGINT)"
