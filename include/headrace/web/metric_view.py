"""JSON values of the charts that the page draws of a stream's or pipe's measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace.catalog.stream_metrics import BATCH_PARTS, MAXIMA, MEANS
from headrace.web.view import FRESH_SAMPLES

if TYPE_CHECKING:
    from headrace.catalog import Catalog

Json = dict[str, Any]
Point = Mapping[str, Any]
MAX_POINTS: Final = 240
"""Points of a chart. Each shows the samples of its part of the range."""
HOUR_MS: Final = 3_600_000


class ChartRange(StrEnum):
    """How far back charts go."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"

    @property
    def length_ms(self) -> int:
        return {"hour": 1, "day": 24, "week": 7 * 24}[self.value] * HOUR_MS


def metric_charts(catalog: Catalog, job_ids: Sequence[str], over: ChartRange, now: int, keep_ms: int, interval_ms: int) -> Json:
    """Return what is drawn of a job, or of the parts of a stream, up to `now`, oldest first; None where nothing was measured.

    The ranges to choose from end with the first that reaches back as far as samples are kept. Samples are missing between two that
    are further apart than `max_gap_ms`.
    """
    width_ms = over.length_ms // MAX_POINTS
    since = now - over.length_ms
    points = catalog.stream_metrics.points(job_ids, since=since, width_ms=width_ms)
    return {
        "over": over.value,
        "ranges": [one.value for one in ChartRange if one is ChartRange.HOUR or one.length_ms / 2 < keep_ms],
        "keep_ms": keep_ms,
        "max_gap_ms": max(width_ms, FRESH_SAMPLES * interval_ms),
        "times": [since + number * width_ms for number in range(MAX_POINTS + 1)],
        "series": {name: [read(points.get(number)) for number in range(MAX_POINTS + 1)] for name, read in SERIES.items()},
    }


def value_of(name: str, point: Point | None) -> float | None:
    value = None if point is None else point[name]
    return None if value is None else round(value, 2)


def mean_of(name: str, point: Point | None) -> float | None:
    """Return how long a part of a micro-batch took on average."""
    total = None if point is None else point[name]
    return round(total / point["batches"], 2) if point is not None and total is not None and point["batches"] else None


SERIES: Final[Mapping[str, Callable[[Point | None], float | None]]] = {
    **{name: partial(value_of, name) for name in (*MEANS, *MAXIMA, "batches")},
    **{name: partial(mean_of, name) for name in BATCH_PARTS},
}
