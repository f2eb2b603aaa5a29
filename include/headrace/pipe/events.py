"""What flows through a pipe, as plugins see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from headrace.pipe.rows import Row, RowCollector
from headrace.pipe.types import type_of
from headrace.trigger.tablet import Tablet
from headrace.udf.types import Type

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.pipe.batches import TabletBatch


class TabletEvent(Tablet):
    """Rows of one device that were written.

    `batch` has them as an Arrow record batch: `time`, an INT64 of ticks, then a column for each of `measurements`. A TIMESTAMP is
    an INT64 of ticks, too. A value that is NULL is absent: the row says nothing about it. Iterating gives the rows as `Row`.
    """

    def __init__(
        self,
        device_id: str,
        batch: pa.RecordBatch,
        data_types: Sequence[Type],
        timestamp_precision: str = "ms",
        *,
        database: str = "",
        is_aligned: bool = False,
    ) -> None:
        """Create an event; `data_types` has the type of each column of the batch but the first."""
        super().__init__(device_id, batch, data_types, timestamp_precision, database=database)
        self.is_aligned = is_aligned

    @classmethod
    def of(
        cls,
        device_id: str,
        times: Any,
        values: Mapping[str, Any],
        types: Mapping[str, Type] | None = None,
        timestamp_precision: str = "ms",
        *,
        is_aligned: bool = False,
    ) -> TabletEvent:
        """Create an event of Python lists, or NumPy or Arrow arrays.

        Args:
            device_id: The path of the device, such as `root.plant.line1`.
            times: The time of each row in ticks.
            values: The values of each measurement; None for a row that has none.
            types: Types of measurements. Without one, Booleans are BOOLEAN, integers INT64, numbers DOUBLE, and texts TEXT.
            timestamp_precision: The unit of ticks: ms, us or ns.
            is_aligned: Whether the device is to be created as an aligned one.
        """
        import pyarrow as pa

        wanted = {name: types[name].arrow if types and name in types else None for name in values}
        columns = [pa.array(column, wanted[name]) for name, column in values.items()]
        data_types = [types[name] if types and name in types else type_of(columns[at].type) for at, name in enumerate(values)]
        batch = pa.RecordBatch.from_arrays([pa.array(times, pa.int64()), *columns], ["time", *values])
        return cls(device_id, batch, data_types, timestamp_precision, is_aligned=is_aligned)

    def __iter__(self) -> Iterator[Row]:
        """Iterate over the rows, in the order of the write."""
        for time, values in zip(self.timestamps, zip(*self.values, strict=True), strict=True):
            yield Row(time, self.measurements, values, self.device_id, self.data_types)

    def process_row_by_row(self, consumer: Callable[[Row, RowCollector], Any]) -> list[TabletEvent]:
        """Call `consumer` with each row and a collector, and return the rows that it collects as tablets."""
        collector = RowCollector(self)
        for row in self:
            consumer(row, collector)
        return collector.tablets()

    def process_tablet(self, consumer: Callable[[TabletEvent, RowCollector], Any]) -> list[TabletEvent]:
        """Call `consumer` with this tablet and a collector, and return the rows that it collects as tablets."""
        collector = RowCollector(self)
        consumer(self, collector)
        return collector.tablets()


@dataclass(frozen=True, slots=True)
class DeleteEvent:
    """Points that were deleted: those of the values of `points` that are not NULL, which are the old ones."""

    points: TabletBatch


@dataclass(frozen=True, slots=True)
class SchemaEvent:
    """A statement that changes the schema or rights.

    Attributes:
        sql: The statement, in the IoTDB language.
        category: What it does, as an option of a source's `inclusion`, such as `schema.timeseries.ordinary.create`.
    """

    sql: str
    category: str


Event: TypeAlias = Union[TabletEvent, "TabletBatch", DeleteEvent, SchemaEvent]
"""What sources supply and processors collect. Processors and sinks get batches only if they have a method for these."""
