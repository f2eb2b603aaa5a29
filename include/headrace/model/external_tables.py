"""Tables of other writers that are read where they are: what their columns and series are, and what a change of them means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headrace.model.time import Precision

TIME_UNITS: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
"""Units of whole numbers that are times, in nanoseconds."""
SERIES_SEPARATOR: Final = "_"
"""What is between the values that name a series in the TDengine language."""
NODE_SEPARATOR: Final = "."
"""The same in the IoTDB language, where they are nodes of the path of a device."""


CALENDAR_S: Final = (-62_135_424_000, 253_402_128_000)
"""The seconds of the years 1 to 9999, which Spark and Delta Lake hold, less two days for zones."""
NANOSECONDS_S: Final = (-9_223_199_236, 9_223_199_236)
"""The same of nanoseconds in 64 bits."""


def time_limits(unit_ns: int, precision: Precision) -> tuple[int, int]:
    """Return the least and greatest time of a unit that tables of a precision hold, in 64 bits."""
    first, last = NANOSECONDS_S if precision is Precision.NANOSECOND else CALENDAR_S
    return max(first * 1_000_000_000 // unit_ns, -(2**63)), min(last * 1_000_000_000 // unit_ns, 2**63 - 1)


class OnChange(StrEnum):
    """What a commit that removes or replaces rows means to the streams and pipes that read the table."""

    RECALCULATE = "RECALCULATE"
    IGNORE = "IGNORE"
    STOP = "STOP"


class ExternalFormat(StrEnum):
    """What is at the location of an external table."""

    DELTA = "DELTA"
    PARQUET = "PARQUET"
    ICEBERG = "ICEBERG"
    CSV = "CSV"
    NDJSON = "NDJSON"

    @property
    def is_mirrored(self) -> bool:
        """Whether it has no Delta log, so that one of ours names its files."""
        return self is not ExternalFormat.DELTA

    @property
    def is_text(self) -> bool:
        """Whether it is files of lines, of which each is converted when it has landed."""
        return self in (ExternalFormat.CSV, ExternalFormat.NDJSON)

    @property
    def keeps_removed_files(self) -> bool:
        """Whether files whose rows were removed are there until readers had time to read them once more."""
        return self is not ExternalFormat.PARQUET


@dataclass(frozen=True, slots=True)
class External:
    """Where and how an external table is read.

    Attributes:
        location: The folder or URI of the table, or of the files.
        table_id: The id in the Delta log: a table that was made again has another.
        precision: That of the database; times are cut to it.
        sources: The column that each column and tag is read from, in their order; of a nested one its path.
        series: The tags whose values name the series of a row; empty if there is one series.
        timezone: Of times without a zone, and of dates.
        unit: Of times that are whole numbers, of `TIME_UNITS`.
        on_change: What a commit that removes or replaces rows means.
        format: What is at the location.
        catalog: The catalog of PyIceberg that has the table, and its name there, namespaces first; empty if the folder says it all.
    """

    location: str
    table_id: str
    precision: Precision
    sources: tuple[tuple[str, ...], ...]
    series: tuple[str, ...] = ()
    timezone: str = "UTC"
    unit: str | None = None
    on_change: OnChange = OnChange.RECALCULATE
    format: ExternalFormat = ExternalFormat.DELTA
    catalog: tuple[str, ...] = ()
