"""Commits that are merged piece by piece: what a piece must not change."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.compute.plan import STATE, WEND, WSTART
from headrace.model.tables import TableKind
from headrace.storage.delta import changes
from headrace.storage.delta.handles import open_table, rows_uri
from headrace.storage.delta.staged_files import stage_rows
from headrace.storage.delta.staging import add_files
from headrace.streams.windows.evaluation import KernelEvaluation
from headrace.streams.windows.large_commits import LargeCommits
from tests.streams.environment import StreamEnvironment, open_environment


def windows(kernels: KernelEvaluation, *runs: tuple[str, int, int]) -> pa.Table:
    """Return runs of a state, from its first to its last instant, as segments of one group."""
    rows: list[dict[str, Any]] = [
        {"p0": "d0", WSTART: first, WEND: last, STATE: state, "x0": 1, "_added": 1, "_used": 1, "_recalculated": False}
        for state, first, last in runs
    ]
    return pa.Table.from_pylist(rows, schema=kernels.windows.schema)


def test_runs_stay_separate_although_the_runs_between_them_are_not_in_state(offline_env: StreamEnvironment) -> None:
    plan = offline_env.define(
        "create stream s into t as select _wstart, count(*) from readings partition by tbname state_window(b)"
    )
    kernels = KernelEvaluation.compile(plan)
    added = kernels.add(windows(kernels, ("x", 0, 10), ("x", 30, 40)), windows(kernels, ("x", 50, 60), ("y", 70, 70)))
    found = [(row[STATE], row[WSTART], row[WEND], row["x0"]) for row in added.to_pylist()]
    assert found == [("x", 0, 10, 1), ("x", 30, 60, 2), ("y", 70, 70, 1)]


@pytest.mark.parametrize("clause", ["interval(10s)", "session(ts, 2s)", "state_window(b)", "count_window(3)"])
def test_a_large_commit_is_merged_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clause: str) -> None:
    monkeypatch.setattr(changes, "PIECE_ROWS", 10)
    monkeypatch.setattr(LargeCommits, "merge", counted := CountedMerge(LargeCommits.merge))
    with open_environment(tmp_path / "home", no_spark, driver_rows=20) as env:
        plan = env.create(
            "create stream s trigger at_once ignore expired 1 watermark 1d into t as "
            f"select _wstart, count(*) n from readings partition by tbname {clause}"
        )
        env.insert([("d0", 500 * number, 1, "x") for number in range(60)])
        env.settle()
        assert env.record(plan).reason is None
        assert counted.merged == 1
        assert sum(env.tables.scan(plan.target, columns=["n"])["n"].to_pylist()) == 60


def test_the_files_of_a_large_commit_are_merged_in_the_order_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "PIECE_ROWS", 10)
    monkeypatch.setattr(LargeCommits, "merge", counted := CountedMerge(LargeCommits.merge))
    with open_environment(tmp_path / "home", no_spark, driver_rows=20) as env:
        plan = env.create(
            "create stream s trigger at_once watermark 1d into t as "
            "select _wstart, count(*) n from readings partition by tbname count_window(3)"
        )
        uri = rows_uri(env.tables.uri, env.table)
        files = [env.stored([("d0", first + 500 * number, 1, "x") for number in range(15)]) for first in (90_000, 0, 30_000)]
        add_files(open_table(uri), [stage_rows(rows, env.table, uri) for rows in files], None)
        env.settle()
        assert counted.merged == 1
        assert [row[:2] for row in env.results(plan)] == sorted(
            ((first + 500 * number, 3) for first in (0, 30_000, 90_000) for number in range(0, 15, 3)), key=repr
        )


@pytest.mark.parametrize("source", ["d0", "single"])
def test_event_windows_of_one_series_are_merged_piece_by_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setattr(changes, "PIECE_ROWS", 10)
    monkeypatch.setattr(LargeCommits, "merge", counted := CountedMerge(LargeCommits.merge))
    with open_environment(tmp_path / "home", no_spark, driver_rows=20) as env:
        if source == "single":
            env = replace(env, table=replace(env.table, name=source, kind=TableKind.PLAIN, tags=()))
            env.catalog.tables.create(env.table)
            env.tables.create(env.table, env.database)
        plan = env.create(
            "create stream s trigger at_once watermark 1d into t as "
            f"select _wstart, count(*) n from {source} event_window start with a = 1 end with a = 3"
        )
        env.insert([(source, 500 * number, number % 5, "x") for number in range(60)])
        env.settle()
        assert counted.merged == 1
        assert sorted(row[:2] for row in env.results(plan)) == [(500 * number, 3) for number in range(1, 60, 5)]


def no_spark() -> Any:
    raise AssertionError("nothing here needs Spark")


class CountedMerge:
    """Counts the large commits that were merged piece by piece."""

    def __init__(self, merge: Any) -> None:
        self.merge = merge
        self.merged = 0

    def __get__(self, instance: LargeCommits, _: type) -> Any:
        def call(*arguments: Any) -> Any:
            result = self.merge(instance, *arguments)
            self.merged += result is not None
            return result

        return call
