"""The page that Prometheus reads."""

from __future__ import annotations

from headrace.model.positions import Position
from headrace.model.streams import DesiredState, StreamCounters, StreamDefinition, StreamProgress, StreamRecord, StreamState
from headrace.runtime.metrics import Histogram, Reading, escaped, render


def reading() -> Reading:
    definition = StreamDefinition("id", "db", 'odd "name"', "create stream", "tdengine", "db", "src", "db", "dst", 0)
    counters = StreamCounters(rows_in=10, rows_used=7, rows_out=3)
    progress = StreamProgress(Position(2, {"db.src": 5}), pending_since=8_500, counters=counters)
    record = StreamRecord(definition, DesiredState.RUNNING, StreamState.RUNNING, progress)
    histogram = Histogram()
    for seconds in (0.05, 0.25, 400.0):
        histogram.observe(seconds)
    return Reading("default", 4, [record], histogram, 1024, 0.25, now=10_000)


def test_every_sample_has_its_labels_and_value() -> None:
    lines = render(reading()).splitlines()
    assert 'headrace_streams{snode="default",state="RUNNING"} 1' in lines
    assert 'headrace_streams{snode="default",state="STOPPED"} 0' in lines
    assert 'headrace_lease_epoch{snode="default"} 4' in lines
    assert 'headrace_stream_lag_seconds{snode="default",database="db",stream="odd \\"name\\""} 1.5' in lines
    assert 'headrace_stream_rows_in_total{snode="default",database="db",stream="odd \\"name\\""} 10' in lines


def test_buckets_count_what_lies_below_them() -> None:
    lines = render(reading()).splitlines()
    assert 'headrace_batch_seconds_bucket{snode="default",le="0.05"} 1' in lines
    assert 'headrace_batch_seconds_bucket{snode="default",le="0.2"} 1' in lines
    assert 'headrace_batch_seconds_bucket{snode="default",le="0.3"} 2' in lines
    assert 'headrace_batch_seconds_bucket{snode="default",le="300.0"} 2' in lines
    assert 'headrace_batch_seconds_bucket{snode="default",le="+Inf"} 3' in lines
    assert 'headrace_batch_seconds_count{snode="default"} 3' in lines


def test_each_family_is_explained_once() -> None:
    lines = render(reading()).splitlines()
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert all(f"# HELP {name} " in "\n".join(lines) for name in names)


def test_labels_are_escaped() -> None:
    assert escaped('a\\b"c\nd') == 'a\\\\b\\"c\\nd'
