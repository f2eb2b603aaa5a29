"""A catalog with jobs of every kind and state, for tests that look at all views of the page."""

from __future__ import annotations

import math
from dataclasses import replace

from headrace.catalog import Catalog
from headrace.model.jobs import DesiredState, JobProgress, JobState, StopReason
from headrace.model.ledger import Chunk
from headrace.model.stream_metrics import StreamSample
from tests.airflow.conftest import NOW
from tests.airflow.query_samples import DISCARD, EVERY, FIRST, add_query, done, failed
from tests.airflow.samples import LIVE, SOURCE, add_stream
from tests.airflow.trigger_samples import add_trigger, count_calls
from tests.airflow.web_page import beat
from tests.catalog.samples import stream_sample
from tests.support.pipes import add_pipe

SAMPLE_MS = 20_000
DAY_MS = 86_400_000
FAILED = StopReason("TYPE", "column v is gone", "fix the cause, then RESUME STREAM", NOW - 5_000)
AWAY = StopReason("OPERATIONAL", "db.example refuses connections", "it is tried again", NOW - 5_000, transient=True)


def fill_catalog(catalog: Catalog) -> None:
    """Record streams, a continuous query, pipes and triggers, with measurements of a day and what has gone wrong."""
    stream = add_stream(catalog, progress=replace(LIVE, counters=replace(LIVE.counters, rows_in=102, rows_quarantined=2)))
    add_samples(catalog, stream)
    alter(catalog, stream)
    catalog.events.record("job", stream, "ASKED", "RESUME STREAM power.avg_v by vera")
    beat(catalog, stream, lag_ms=900, in_flight_ms=180_000)
    add_stream(catalog, "stopped", JobState.STOPPED, FAILED)
    add_stream(catalog, "new", JobState.CREATED, progress=JobProgress())
    catalog.jobs.set_desired(add_stream(catalog, "paused", JobState.PAUSED), DesiredState.PAUSED)
    add_filling_stream(catalog)
    query = add_query(catalog, schedule=DISCARD)
    done(catalog, query, *range(FIRST, FIRST + 10 * EVERY, EVERY), NOW - 2 * EVERY)
    failed(catalog, query, NOW - EVERY, "no space left")
    add_samples(catalog, add_pipe(catalog, progress=LIVE))
    add_pipe(catalog, "away", JobState.STOPPED, AWAY)
    add_trigger(catalog, "hot")
    count_calls(catalog, "hot", failures=1)
    add_trigger(catalog, "webhook", reason="it failed 3 times in a row")


def alter(catalog: Catalog, stream: str) -> None:
    """Change an option of a stream, which leaves its first statement as an earlier version."""
    definition = catalog.jobs.by_id(stream).definition
    changed = definition.sql.replace(" INTO ", " IGNORE EXPIRED 0 INTO ")
    catalog.jobs.redefine(replace(definition, sql=changed), user="paul")


def add_filling_stream(catalog: Catalog) -> None:
    """Record a stream whose history is being computed."""
    filling = add_stream(catalog, "filling", JobState.FILLING, progress=JobProgress(boundary={SOURCE: 1}))
    catalog.ledger.plan(filling, "history", [Chunk(filling, "history", n, n * 60_000, (n + 1) * 60_000, 500) for n in range(4)])
    catalog.ledger.claim(filling, "history", 0)
    catalog.ledger.finish(filling, "history", 0, 500)
    catalog.ledger.claim(filling, "history", 1)


def add_samples(catalog: Catalog, job: str, *, until: int = NOW) -> None:
    """Record the measurements of a job on a day, whose load has peaks."""
    samples = [sample(job, until, age) for age in range(0, DAY_MS, SAMPLE_MS)]
    catalog.stream_metrics.add(samples, keep_ms=2 * DAY_MS)


def sample(job: str, until: int, age: int) -> StreamSample:
    load = 1.0 + math.sin(age / 5_000_000) ** 2
    taken = stream_sample(job, until - age)
    return replace(taken, rows_in_s=20 * load, rows_out_s=2 * load, lag_ms=int(200 * load), state_bytes=int(4_000_000 * load))
