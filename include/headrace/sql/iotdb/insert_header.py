"""The part of IoTDB's INSERT before its rows."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.model.paths import PathPattern
from headrace.sql.iotdb.show import ShowParser


@dataclass(frozen=True, slots=True)
class InsertHeader:
    """`INSERT INTO device(columns) [ALIGNED]`; `time_at` is the index of the time column, None if there is none."""

    device: PathPattern
    measurements: tuple[str, ...]
    time_at: int | None
    aligned: bool


class InsertHeaderParser(ShowParser):
    """Parses an INSERT up to its rows."""

    def insert_header(self) -> InsertHeader:
        """Parse up to VALUES, the last token."""
        self._accept("EXPLAIN")
        self._expect("INSERT", "INTO")
        device = self._parse_path()
        columns = self._parse_parenthesized(lambda: self._parse_list(self._parse_insert_column))
        times = [at for at, column in enumerate(columns) if column is None]
        measurements = tuple(column for column in columns if column is not None)
        if len(times) > 1:
            self._semantic("One row should only have one time value", device.span, hint="name the time column once")
        if not measurements:
            text = "InsertStatement should contain at least one measurement"
            self._semantic(text, device.span, hint="name what was measured after the time: (time, temperature)")
        aligned = self._accept("ALIGNED")
        self._expect("VALUES")
        return InsertHeader(device, measurements, times[0] if times else None, aligned)

    def expect_rows(self) -> None:
        """Raise `SqlSyntaxError` if no rows follow the header."""
        if self._token.word != "(":
            self._fail("(")

    def _parse_insert_column(self) -> str | None:
        """Parse a column: a measurement, or None for the time."""
        if self._token.word in ("TIME", "TIMESTAMP"):
            self._advance()
            return None
        return self._parse_plain_node()
