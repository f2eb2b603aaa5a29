"""Functions over the series of a task, whose rows come in batches."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headrace.code.function_classes import LibrarySeries
from headrace.code.series_calls import SeriesCall
from headrace.code.series_runs import SeriesRun
from headrace.compute.evaluation import series_arrow
from headrace.compute.evaluation.series_arrow import INSTANT
from headrace.compute.functions.arrow import SeriesArrowRule
from headrace.compute.functions.series_streams import whole_series
from headrace.compute.nodes import Column
from headrace.compute.plan_clauses import SeriesArrowCall
from headrace.model.types import BIGINT
from headrace.udf import UDTF, Parameters, PointCollector, Row, Type, UDTFConfigurations

ROWS = 12
SERIES = ["a"] * 5 + ["b"] + ["c"] * 6
TIMES = [*range(5), 3, *range(10, 16)]
VALUES = [1, 2, 3, None, 5, 7, 1, 1, 2, 3, 5, 8]


class Running(UDTF):
    """The sum so far, and a point at the end."""

    def before_start(self, parameters: Parameters, configurations: UDTFConfigurations) -> None:
        """Begin with 0. The type does not depend on `parameters`."""
        del parameters
        self.sum = 0
        configurations.set_output_data_type(Type.INT64)

    def transform(self, row: Row, collector: PointCollector) -> None:
        """Add a value."""
        self.sum += row.get_long(0)
        collector.put_long(row.get_time(), self.sum)

    def terminate(self, collector: PointCollector) -> None:
        """Add a point at an instant that no row has, and one that a row may have, which does not count then."""
        collector.put_long(99, self.sum)
        collector.put_long(3, -1)


def running() -> LibrarySeries:
    return LibrarySeries(SeriesRun(lambda: SeriesCall(Running(), Parameters([Type.INT64]))))


def highest(rows: pa.Table) -> pa.Table:
    """Return the point with the greatest value."""
    return rows.select(["time", "x0"]).rename_columns(["time", "value"]).take(pc.sort_indices(rows["x0"])[-1:])


def call(number: int, rule: SeriesArrowRule) -> SeriesArrowCall:
    return SeriesArrowCall(f"__s{number}", "f", BIGINT, (Column("v"),), rule)


CALLS = {
    "running": [call(0, SeriesArrowRule(BIGINT, running))],
    "highest": [call(0, SeriesArrowRule(BIGINT, whole_series(highest)))],
    "both": [call(0, SeriesArrowRule(BIGINT, running)), call(1, SeriesArrowRule(BIGINT, whole_series(highest)))],
}


def evaluated(calls: list[SeriesArrowCall], batch_rows: int) -> list[tuple[object, ...]]:
    """Return device, time, and the values of all calls where they have one, in order."""
    inputs = {f"{call.column}_x0": pa.array(VALUES, pa.int64()) for call in calls}
    rows = pa.record_batch({"device": pa.array(SERIES), INSTANT: pa.array(TIMES, pa.int64()), **inputs})
    fields = [("device", pa.string()), (INSTANT, pa.int64()), *((call.column, pa.int64()) for call in calls)]
    batches = (rows.slice(first, batch_rows) for first in range(0, ROWS, batch_rows))
    results = pa.Table.from_batches(series_arrow.evaluator(calls, ["device"], pa.schema(fields))(batches))
    return sorted(zip(*results.to_pydict().values(), strict=True), key=repr)


@pytest.mark.parametrize("name", CALLS)
def test_batches_of_any_size_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = evaluated(CALLS[name], ROWS)
    monkeypatch.setattr(series_arrow, "PART_ROWS", 1)
    for batch_rows in range(1, ROWS):
        assert evaluated(CALLS[name], batch_rows) == whole, batch_rows


def test_points_are_those_of_each_series() -> None:
    expected = [("a", 0, 1), ("a", 1, 3), ("a", 2, 6), ("a", 3, -1), ("a", 4, 11), ("a", 99, 11)]
    expected += [("b", 3, 7), ("b", 99, 7)]
    expected += [
        ("c", 3, -1),
        *(("c", time, value) for time, value in zip(range(10, 16), (1, 2, 4, 7, 12, 20), strict=True)),
        ("c", 99, 20),
    ]
    assert evaluated(CALLS["running"], 4) == sorted(expected, key=repr)


def test_a_task_without_rows_opens_calls_alone() -> None:
    assert list(series_arrow.evaluator(CALLS["both"], ["device"], pa.schema([]))(iter([]))) == []
