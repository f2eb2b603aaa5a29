"""What a stream carries from one batch to the next, immutable and named by the source version it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from headrace.model.streams import StreamCounters


@dataclass(frozen=True)
class State:
    """The state of a stream after the source version `version`.

    Attributes:
        windows: Held windows: group columns `p*`, `_wstart`, `_wend` (ticks, inclusive), the plan's partial aggregates, and
            `_emitted`: whether the target has a row of it.
        seen: `tbname`, `_seen`: the largest event time of each subtable, of rows that the query's WHERE keeps.
        newest: The largest of them all; None before the first row. The frontier is `newest - watermark`.
        floor: Windows that start at or before it and are not held may have stored rows; later ones that are not held have none.
        counters: Totals since the stream began, without pending rows.
    """

    version: int
    windows: pa.Table
    seen: pa.Table
    newest: int | None = None
    floor: int | None = None
    counters: StreamCounters = field(default_factory=StreamCounters)
