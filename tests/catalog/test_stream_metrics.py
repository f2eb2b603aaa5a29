"""Samples of streams: how old ones are joined, so that their number stays small."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from headrace.catalog import Catalog
from headrace.catalog.stream_metrics import HOUR_MS, THINNING
from headrace.model.clock import ManualClock
from headrace.model.window_notes import WindowNote
from tests.catalog.samples import stream_sample, with_stream

MINUTE_MS = 60_000
START = 100 * HOUR_MS


def test_samples_of_a_minute_become_one_with_means_maxima_and_the_last_totals(catalog: Catalog, clock: ManualClock) -> None:
    stream = with_stream(catalog).id
    other = with_stream(catalog, "other").id
    for number in range(12):
        taken = [stream_sample(name, START + number * 10_000, batches=number) for name in (stream, other)]
        own = replace(taken[0], lag_ms=number, rows_in_s=float(number), compute_ms=float(number), rows_used=number * 10)
        catalog.stream_metrics.add([own, replace(taken[1], read_ms=None)], keep_ms=HOUR_MS)
    clock.set(START + 2 * HOUR_MS + MINUTE_MS)
    assert catalog.stream_metrics.thin(2 * HOUR_MS, MINUTE_MS) == START + MINUTE_MS
    joined, *others = catalog.stream_metrics.all(stream)
    assert (joined.time, joined.lag_ms, joined.rows_in_s, joined.batches, joined.rows_used) == (START + 50_000, 5, 2.5, 15, 50)
    assert joined.compute_ms == (1 + 4 + 9 + 16 + 25) / 15, "each micro-batch counts once"
    assert len(others) == 6, "the next minute is too young"
    assert len(catalog.stream_metrics.all(other)) == 7
    assert catalog.stream_metrics.at(stream, START + 50_001) == joined
    assert catalog.stream_metrics.at(stream, START) == joined, "there is no earlier one"


def test_a_week_of_a_stream_is_a_few_thousand_samples(catalog: Catalog, clock: ManualClock) -> None:
    stream, now = with_stream(catalog).id, START + 7 * 24 * HOUR_MS
    samples = [stream_sample(stream, START + offset) for offset in range(0, now - START, 10_000)]
    catalog.stream_metrics.add(samples, keep_ms=7 * 24 * HOUR_MS)
    clock.set(now)
    for tier in THINNING:
        assert catalog.stream_metrics.thin(*tier) == now - tier[0]
        assert catalog.stream_metrics.thin(*tier, since=now - tier[0]) == now - tier[0], "there is nothing left to do"
    times = [sample.time for sample in catalog.stream_metrics.all(stream)]
    assert len(times) == 720 + 22 * 60 + 6 * 24 * 6
    assert max(later - earlier for earlier, later in pairwise(times)) <= 600_000


def test_notes_of_windows_replace_earlier_ones_and_leave_with_their_stream(catalog: Catalog) -> None:
    stream = with_stream(catalog).id
    notes = [WindowNote("d1", 0, 9, 1, 0, 5), WindowNote("d2", 0, 9, 0, 3, 6)]
    catalog.window_notes.put(stream, notes[:1])
    catalog.window_notes.put(stream, notes)
    assert catalog.window_notes.all(stream) == notes
    catalog.window_notes.put("id-nothing", notes)
    assert catalog.window_notes.all("id-nothing") == []
