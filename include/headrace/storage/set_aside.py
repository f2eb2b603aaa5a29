"""The keys of the rows that a stream has set aside, which no read of its source returns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.quarantine import RowKey
from headrace.model.tables import Table
from headrace.model.time import Precision
from headrace.storage.row_matching import anti_join
from headrace.storage.spark.functions import F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Keys:
    """Some keys of rows, and the same as a table with the columns of a source's primary key."""

    def __init__(self, keys: Collection[RowKey] = ()) -> None:
        self.keys = frozenset(keys)

    def __bool__(self) -> bool:
        return bool(self.keys)

    @cached_property
    def times(self) -> list[int]:
        """The distinct timestamps, in ticks."""
        return sorted({key.time for key in self.keys})

    def table(self, source: Table, types: pa.Schema, precision: Precision) -> pa.Table:
        """Return the keys as rows, in the types of a source's columns."""
        ordered = sorted(self.keys, key=lambda key: (key.series, key.time, str(key.key)))
        unit = 1000 if precision is Precision.MILLISECOND else 1
        time_type = types.field(source.timestamp.name).type
        columns = {
            source.series_key: pa.array([key.series for key in ordered], pa.string()),
            source.timestamp.name: pa.array([key.time * unit for key in ordered], pa.int64()).cast(time_type),
        }
        if source.key is not None:
            columns[source.key.name] = pa.array([key.key for key in ordered], types.field(source.key.name).type)
        return pa.table(columns)


class SetAside:
    """What a stream's reads of its source leave out. Belongs to one runner, whose micro-batches change it one by one.

    `others` are further rows left out for the time being, with the columns of the primary key.
    """

    def __init__(self) -> None:
        self.rows = Keys()
        self.others: pa.Table | None = None

    def set(self, rows: Iterable[RowKey]) -> None:
        """Leave out these rows from now on."""
        self.rows = Keys(frozenset(rows))

    @contextmanager
    def changed(self, rows: Iterable[RowKey], others: pa.Table | None = None) -> Iterator[None]:
        """Leave out these rows instead while the block runs."""
        before = self.rows, self.others
        self.rows, self.others = Keys(frozenset(rows)), others
        try:
            yield
        finally:
            self.rows, self.others = before

    def exclude(self, rows: pa.Table, source: Table, precision: Precision) -> pa.Table:
        """Return stored rows without those that are set aside."""
        if rows.num_rows == 0 or not (self.rows or self.others is not None):
            return rows
        key = list(source.primary_key)
        if self.others is not None:
            others = self.others.cast(pa.schema([rows.schema.field(name) for name in self.others.column_names]))
            rows = anti_join(rows, others, key)
        if not self.rows:
            return rows
        keys = self.rows.table(source, rows.schema, precision)
        times = source.timestamp.name
        if not pc.any(pc.is_in(rows[times], keys[times].combine_chunks())).as_py():
            return rows
        return anti_join(rows, keys, key)

    def exclude_frame(self, frame: DataFrame, source: Table, precision: Precision, spark: SparkSession) -> DataFrame:
        """Return a DataFrame of stored rows without those that are set aside."""
        if not self.rows:
            return frame
        schema = frame.limit(0).toArrow().schema
        keys = spark.createDataFrame(self.rows.table(source, schema, precision))
        return frame.join(F.broadcast(keys), list(source.primary_key), "left_anti").select(frame.columns)
