"""What an snode measures, in Prometheus' text format."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.model.streams import StreamRecord, StreamState

if TYPE_CHECKING:
    from headrace.streams.poller import JobActivity

# Seconds. A batch of a thousand rows takes about 0.3 s; one that catches up may take minutes.
BUCKETS: Final = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)

Labels = dict[str, str]
Sample = tuple[str, Labels, float]


class Histogram:
    """Counts of durations by bucket."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        with self._lock:
            self._counts[bisect_left(BUCKETS, seconds)] += 1
            self._sum += seconds

    def samples(self, labels: Labels) -> list[Sample]:
        """Cumulative buckets, sum and count."""
        with self._lock:
            counts, total = list(self._counts), self._sum
        samples: list[Sample] = []
        below = 0
        for bound, count in zip([*map(str, BUCKETS), "+Inf"], counts, strict=True):
            below += count
            samples.append(("_bucket", labels | {"le": bound}, below))
        return [*samples, ("_sum", labels, total), ("_count", labels, below)]


@dataclass(frozen=True, slots=True)
class Reading:
    """An snode at one moment, for `render`."""

    snode: str
    epoch: int
    records: Sequence[StreamRecord]
    batches: Histogram
    memory_bytes: int
    loop_age_s: float
    now: int
    activity: Mapping[str, JobActivity] = field(default_factory=dict)


def render(reading: Reading) -> str:
    """The page that Prometheus reads."""
    snode = {"snode": reading.snode}
    states = Counter(record.state for record in reading.records)
    families = [
        family("streams", "gauge", "Streams by state.", [("", snode | {"state": s.value}, states[s]) for s in StreamState]),
        family("lease_epoch", "gauge", "Epoch of the lease held.", [("", snode, reading.epoch)]),
        family("memory_bytes", "gauge", "Resident memory of the driver.", [("", snode, reading.memory_bytes)]),
        family("loop_age_seconds", "gauge", "Since the sources were last polled.", [("", snode, reading.loop_age_s)]),
        family("batch_seconds", "histogram", "What batches took.", reading.batches.samples(snode)),
        *stream_families(reading),
    ]
    return "".join(families)


def stream_families(reading: Reading) -> list[str]:
    """What is counted of each stream."""

    def per_stream(values: Iterable[float | None]) -> list[Sample]:
        return [
            ("", labels_of(reading.snode, record), value)
            for record, value in zip(reading.records, values, strict=True)
            if value is not None
        ]

    counters = [record.progress.counters for record in reading.records]
    lags = [lag_ms(reading, record) for record in reading.records]
    lag = [None if age is None else age / 1000 for age in lags]
    versions = [record.source_version for record in reading.records]
    return [
        family("stream_lag_seconds", "gauge", "Age of the oldest write not yet handled.", per_stream(lag)),
        family("stream_source_version", "gauge", "Source version handled.", per_stream(versions)),
        family("stream_rows_in_total", "counter", "Rows read.", per_stream(c.rows_in for c in counters)),
        family("stream_rows_used_total", "counter", "Rows that went into windows.", per_stream(c.rows_used for c in counters)),
        family("stream_rows_filtered_total", "counter", "Rows WHERE left out.", per_stream(c.rows_filtered for c in counters)),
        family("stream_rows_expired_total", "counter", "Rows that came too late.", per_stream(c.rows_expired for c in counters)),
        family("stream_rows_out_total", "counter", "Rows written to the target.", per_stream(c.rows_out for c in counters)),
    ]


def lag_ms(reading: Reading, record: StreamRecord) -> int | None:
    """Return a stream's lag now: as its poller sees the source, else as of its last micro-batch."""
    activity = reading.activity.get(record.definition.id)
    return record.progress.lag_ms(reading.now) if activity is None else activity.lag_ms(reading.now)


def labels_of(snode: str, record: StreamRecord) -> Labels:
    return {"snode": snode, "database": record.definition.database, "stream": record.definition.name}


def family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> str:
    """One metric with all its samples."""
    full = f"headrace_{name}"
    lines = [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
    lines += [f"{full}{suffix}{{{label_text(labels)}}} {number(value)}" for suffix, labels, value in samples]
    return "\n".join(lines) + "\n"


def label_text(labels: Labels) -> str:
    return ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
