"""`headrace top` shows jobs and snodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace
from headrace.catalog import Catalog
from headrace.cli.app import app
from headrace.cli.console import out
from headrace.cli.top import JobLine, amount, duration, job_table
from headrace.model.jobs import JobCounters, JobProgress, JobState, StopReason
from headrace.model.stream_metrics import StreamSample
from headrace.settings import load
from tests.catalog.samples import stream_sample, with_stream


def look(home: Path) -> list[list[str]]:
    """Return the words of each line of one look."""
    result = CliRunner().invoke(app, ["top", "--once", "--home", str(home)], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return [line.split() for line in result.output.splitlines()]


def sample(job_id: str, time: int, rows: float) -> StreamSample:
    return replace(stream_sample(job_id, time), rows_in_s=rows, rows_out_s=rows / 10)


def test_an_empty_home_has_no_jobs(tmp_path: Path) -> None:
    headrace.connect(tmp_path).close()
    assert look(tmp_path)[0] == ["no", "jobs"]


def test_jobs_that_are_stopped_come_first(tmp_path: Path) -> None:
    with Catalog.open(load(home=tmp_path).catalog) as catalog:
        quick, stopped = with_stream(catalog), with_stream(catalog, "stuck")
        now = catalog.now()
        for job in (quick, stopped):
            catalog.jobs.set_progress(job.id, JobProgress(counters=JobCounters(rows_out=12_345)))
            catalog.jobs.set_state(job.id, JobState.RUNNING)
        catalog.jobs.set_state(stopped.id, JobState.STOPPED, StopReason("DISK_FULL", "no space", "free some", now))
        catalog.stream_metrics.add([sample(quick.id, now - 1_000, 100.0), sample(quick.id, now, 200.0)], keep_ms=60_000)
        lease = catalog.leases.acquire("default", "driver", 60_000)
        assert lease is not None
        catalog.snodes.beat(lease, detail={"memory_bytes": 512 << 20, "cores": 0.5, "loop_age_ms": 20})
    lines = look(tmp_path)
    assert lines[0] == ["jobs:", "1", "RUNNING,", "1", "STOPPED"]
    assert lines[2][:3] == ["power.stuck", "stream", "STOPPED"]
    assert lines[2][-5:] == ["[DISK_FULL]", "no", "space", "(free", "some)"]
    assert lines[3] == ["power.avg_current", "stream", "RUNNING", "-", "150", "15", "12,345"]
    assert lines[-1][0] == "default"
    assert lines[-1][-6:] == ["0.50", "512", "MiB", "20", "ms", "ago"]


def test_a_narrow_terminal_shows_states_and_folds_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(out, "width", 80)
    name = "plant.average_temperature_by_machine"
    line = JobLine("stream", name, "STOPPED", 12_300, 1.0, 2.0, 12_345_678, "[DISK_FULL] no space is left on the device")
    with out.capture() as capture:
        out.print(job_table([line]))
    header, first, second = capture.get().splitlines()
    assert header.split() == ["JOB", "KIND", "STATE", "LAG", "IN/S", "OUT/S", "ROWS", "OUT", "MESSAGE"]
    assert first.split()[1:8] == ["stream", "STOPPED", "12.3", "s", "1", "2", "12,345,678"]
    assert first.split()[0] + second.strip() == name


@pytest.mark.parametrize(
    ("ms", "expected"), [(None, "-"), (0, "0 ms"), (1_500, "1.5 s"), (90_000, "1.5 min"), (172_800_000, "2.0 d")]
)
def test_durations(ms: int | None, expected: str) -> None:
    assert duration(ms) == expected


def test_amounts() -> None:
    assert [amount(value) for value in (None, 0.4, 1234.5)] == ["-", "0", "1,234"]
