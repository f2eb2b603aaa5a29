"""Calls of a UDTF over series, one after the other, in the process that runs its code."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headrace.code.requests import Progress
from headrace.code.runs import runs
from headrace.code.series_calls import SeriesCall
from headrace.udf import Type


@dataclass(slots=True)
class SeriesRun:
    """The calls of a function over series. `create` begins one; `progress` says which rows are being processed."""

    create: Callable[[], SeriesCall]
    progress: Progress = field(default_factory=Progress)
    _number: int = 0
    _call: SeriesCall | None = None
    _output_type: Type | None = None
    _numbers: list[int] = field(default_factory=list)
    _points: list[pa.RecordBatch] = field(default_factory=list)

    def process(self, rows: pa.RecordBatch, *, more: bool) -> pa.Table:
        """Return the points of the next rows: `series`, `time` and `value`.

        Args:
            rows: `series`, a number, then `time`, `x0`, …, in order of series and time.
            more: whether further rows follow, of which the last series may have some. If not, it ends.
        """
        columns = rows.select(rows.schema.names[1:])
        for number, first, after in runs(rows["series"]):
            self._process_series(number, columns.slice(first, after - first))
        if not more:
            self._finish()
        return self._drain()

    def close(self) -> None:
        """Free what the call of the last series holds, if it has not ended."""
        call, self._call = self._call, None
        if call is not None:
            with contextlib.suppress(Exception):
                call.close()

    def _process_series(self, number: int, rows: pa.RecordBatch) -> None:
        if self._call is not None and self._number != number:
            self._finish()
        self.progress.enter(number, rows)
        if self._call is None:
            self._number, self._call = number, self.create()
            self._output_type = self._call.output_type
        self.progress.position = self._call.position
        self._add(self._call.process(rows))

    def _finish(self) -> None:
        if self._call is not None:
            self._add(self._call.finish())
            call, self._call = self._call, None
            call.close()

    def _add(self, points: pa.RecordBatch) -> None:
        if points.num_rows:
            self._numbers.append(self._number)
            self._points.append(points)

    def _drain(self) -> pa.Table:
        """Return and forget the points that were added."""
        numbers = np.repeat(np.array(self._numbers, np.int64), [points.num_rows for points in self._points])
        table = pa.Table.from_batches(self._points, self._schema()).combine_chunks()
        self._numbers, self._points = [], []
        return table.add_column(0, "series", pa.array(numbers))

    def _schema(self) -> pa.Schema:
        if self._output_type is None:  # no rows have come yet, so no call has said what it returns
            call = self.create()
            call.close()
            self._output_type = call.output_type
        return pa.schema([("time", pa.int64()), ("value", self._output_type.arrow)])
