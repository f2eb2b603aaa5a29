"""The metrics that Prometheus reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from headrace.catalog import Catalog
from headrace.jobs.hosts import JobActivity
from headrace.model.functions import Artifact
from headrace.model.jobs import DesiredState, JobCounters, JobDefinition, JobProgress, JobRecord, JobState
from headrace.model.positions import Position
from headrace.model.tables import TableId
from headrace.model.triggers import RegisteredTrigger, TriggerActivity, TriggerEvent, TriggerState, TriggerType
from headrace.runtime.metrics import Histogram, SnodeMetrics, render_metrics
from headrace.runtime.trigger_metrics import counted_triggers
from headrace.streams.kind import STREAM


def reading() -> SnodeMetrics:
    definition = JobDefinition(
        id="id",
        kind=STREAM,
        database="db",
        name='odd "name"',
        sql="create stream",
        dialect="tdengine",
        sources=(TableId("db", "src"),),
        target=TableId("db", "dst"),
        created=0,
    )
    counters = JobCounters(rows_in=10, rows_used=7, rows_out=3)
    progress = JobProgress(Position(2, {"db.src": 5}), pending_since=8_500, counters=counters)
    record = JobRecord(definition, DesiredState.RUNNING, JobState.RUNNING, progress)
    histogram = Histogram()
    for seconds in (0.05, 0.25, 400.0):
        histogram.observe(seconds)
    return SnodeMetrics("default", 4, [record], histogram, 1024, 0.25, now=10_000)


def test_every_sample_has_its_labels_and_value() -> None:
    lines = render_metrics(reading()).splitlines()
    assert 'headrace_streams{snode="default",state="RUNNING"} 1.0' in lines
    assert 'headrace_streams{snode="default",state="STOPPED"} 0.0' in lines
    assert 'headrace_lease_epoch{snode="default"} 4.0' in lines
    assert 'headrace_stream_lag_seconds{database="db",snode="default",stream="odd \\"name\\""} 1.5' in lines
    assert 'headrace_stream_rows_in_total{database="db",snode="default",stream="odd \\"name\\""} 10.0' in lines


def test_buckets_count_durations_up_to_their_bound() -> None:
    lines = render_metrics(reading()).splitlines()
    assert 'headrace_batch_seconds_bucket{le="0.05",snode="default"} 1.0' in lines
    assert 'headrace_batch_seconds_bucket{le="0.2",snode="default"} 1.0' in lines
    assert 'headrace_batch_seconds_bucket{le="0.3",snode="default"} 2.0' in lines
    assert 'headrace_batch_seconds_bucket{le="300.0",snode="default"} 2.0' in lines
    assert 'headrace_batch_seconds_bucket{le="+Inf",snode="default"} 3.0' in lines
    assert 'headrace_batch_seconds_count{snode="default"} 3.0' in lines


def test_each_family_is_explained_once() -> None:
    lines = render_metrics(reading()).splitlines()
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    assert all(f"# HELP {name} " in "\n".join(lines) for name in names)


def test_a_hanging_batch_is_reported_while_the_loop_runs() -> None:
    told = render_metrics(
        replace(reading(), activity={"id": JobActivity(121_000, 0, None), "other": JobActivity(119_000, 0, None)})
    ).splitlines()
    assert 'headrace_slow_batches{snode="default"} 1.0' in told
    assert 'headrace_stream_batch_age_seconds{database="db",snode="default",stream="odd \\"name\\""} 121.0' in told
    assert 'headrace_loop_age_seconds{snode="default"} 0.25' in told


def test_prometheus_own_parser_understands_the_page() -> None:
    families = {family.name: family for family in text_string_to_metric_families(render_metrics(reading()))}
    assert families["headrace_batch_seconds"].type == "histogram"
    (sample,) = families["headrace_stream_rows_in"].samples
    assert (sample.name, sample.labels["stream"], sample.value) == ("headrace_stream_rows_in_total", 'odd "name"', 10)


def test_triggers_are_measured_by_name(tmp_path: Path) -> None:
    catalog = Catalog.open(f"sqlite:///{tmp_path / 'catalog.db'}")
    trigger = RegisteredTrigger(
        "Alert",
        "1",
        TriggerEvent.AFTER_INSERT,
        TriggerType.STATELESS,
        "root.**",
        "alerts.Alert",
        Artifact("0" * 64, "alerts.py", 5),
        state=TriggerState.ACTIVE,
    )
    catalog.triggers.create(trigger)
    catalog.trigger_activities.count("1", TriggerActivity(2, 1, 1, 1_500_000, "it failed", 5))
    reading = SnodeMetrics("default", 1, [], Histogram(), 0, 0.0, triggers=counted_triggers(catalog))
    catalog.close()
    lines = render_metrics(reading).splitlines()
    assert 'headrace_trigger_active{trigger="Alert"} 1.0' in lines
    assert 'headrace_trigger_calls_total{trigger="Alert"} 2.0' in lines
    assert 'headrace_trigger_failures_total{trigger="Alert"} 1.0' in lines
    assert 'headrace_trigger_seconds_total{trigger="Alert"} 1.5' in lines
