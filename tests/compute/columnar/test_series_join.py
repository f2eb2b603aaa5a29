"""Points of functions, joined to the rows of series that come in parts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.compute.columnar.series_join import SeriesJoin
from headrace.compute.columnar.series_points import Points, Rows

Point = tuple[int, int, int]
"""Series, time and value."""
Result = dict[tuple[int, int], tuple[int | None, int | None]]
"""Row value and point value by series and time."""


def rows_of(points: list[Point]) -> tuple[Rows, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    devices = np.array([series for series, _, _ in points], np.int64)
    ticks = np.array([time for _, time, _ in points], np.int64)
    return Rows(devices, {"x": pa.array([value for _, _, value in points], pa.int64())}), ticks


def points_of(points: list[Point]) -> Points:
    rows, ticks = rows_of(points)
    return Points(rows.devices, ticks, rows.columns["x"])


def expected(rows: list[Point], points: list[Point]) -> Result:
    """Join everything at once; of several points at one time the first counts."""
    values: dict[tuple[int, int], int] = {}
    for series, time, value in points:
        values.setdefault((series, time), value)
    inputs = {(series, time): value for series, time, value in rows}
    return {place: (inputs.get(place), values.get(place)) for place in inputs | values}


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[list[Point]], list[list[Point]]]:
    """Rows in parts, and the points that each part adds, which are of its series, or late ones of the series before."""
    rows = sorted(draw(st.sets(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1)))
    numbered = [(*place, number) for number, place in enumerate(rows)]
    cuts = sorted(draw(st.sets(st.integers(1, len(rows)))) | {0, len(rows)})
    parts = [numbered[start:end] for start, end in pairwise(cuts)]
    open_series = [part[-1][0] for part in parts]
    added = []
    for number, part in enumerate(parts):
        points = [(series, time, 100 + value) for series, time, value in part]
        if draw(st.booleans()):
            names = sorted({series for series, _, _ in part} | ({open_series[number - 1]} if number else set()))
            extra = draw(st.lists(st.tuples(st.sampled_from(names), st.integers(-1, 7), st.integers(200, 299)), max_size=5))
            points = sorted(draw(st.permutations([*points, *extra]))[: draw(st.integers(0, 9))], key=lambda point: point[0])
        added.append(points)
    return parts, added


def joined(parts: list[list[Point]], added: list[list[Point]]) -> Iterator[tuple[tuple[int, int], tuple[int | None, int | None]]]:
    join = SeriesJoin(["f"])
    for number, (part, points) in enumerate(zip(parts, added, strict=True)):
        for rows, ticks in join.add(*rows_of(part), {"f": points_of(points)}, more=number + 1 < len(parts)):
            columns = [values.to_pylist() for values in (rows.columns["x"], rows.columns["f"])]
            places = zip(rows.devices.tolist(), ticks.tolist(), strict=True)
            yield from zip(places, zip(*columns, strict=True), strict=True)


@given(runs())
def test_parts_give_what_all_rows_at_once_give(run: tuple[list[list[Point]], list[list[Point]]]) -> None:
    parts, added = run
    results = sorted(joined(parts, added), key=lambda result: result[0])
    assert [len(list(group)) for _, group in groupby(results, lambda result: result[0])].count(1) == len(results)
    assert dict(results) == expected([row for part in parts for row in part], [point for points in added for point in points])


def test_a_part_with_a_point_for_each_row_is_returned_at_once() -> None:
    join, part = SeriesJoin(["f"]), [(0, 1, 7), (0, 2, 8)]
    ((rows, ticks),) = join.add(*rows_of(part), {"f": points_of(part)}, more=True)
    assert (rows.columns["f"].to_pylist(), ticks.tolist()) == ([7, 8], [1, 2])
