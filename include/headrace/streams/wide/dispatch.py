"""Which way a large commit is computed: piece by piece, by executors, or divided by series; else from all changes at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from headrace.compute.columnar import UnsupportedError
from headrace.context import Context
from headrace.streams.batches import BatchResult, StagedWindows, idle_result
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sources.spill import Spill
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.wide.commits import WideCommits, can_be_wide
from headrace.streams.wide.division import divide_state, whole_result
from headrace.streams.wide.staging import can_stage, create_staging_folder, stage_result
from headrace.streams.windows.accounting import later_of
from headrace.streams.windows.change_batch import Changes, LargeCommit, change_batch
from headrace.streams.windows.evaluation import WindowEvaluation
from headrace.streams.windows.large_commits import LargeCommits, TooManyWindowsError
from headrace.streams.windows.merged_commits import MergedCommits
from headrace.streams.windows.results import result_of
from headrace.streams.windows.retention import subtable_key

ProcessRows = Callable[[StreamState, Changes], BatchResult]
"""Computes changes from all of them at once."""


class LargeCommitProcessor:
    """Computes the large commits of one stream, in the first of these ways that can.

    New rows that are on time are merged in pieces, if kernels know the plan, or by executors. `merged` also takes late, updated and
    deleted rows, unless windows depend on the order of rows; if they do, changes are divided by series. Executors and this division
    need windows that have rows of one series only.
    """

    def __init__(
        self, context: Context, plan: StreamPlan, evaluation: WindowEvaluation, merged: MergedCommits | None, process: ProcessRows
    ) -> None:
        kernels = evaluation.kernels
        self._context = context
        self._plan = plan
        self._evaluation = evaluation
        self._wide = WideCommits(context, LargeCommits(plan, kernels)) if kernels is not None and can_be_wide(plan) else None
        is_limited = self._wide is not None or (merged is not None and merged.is_divisible)
        self._pieces = None if kernels is None else LargeCommits(plan, kernels, is_limited)
        self._merged = merged
        self._process_rows = process

    def process(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult | None:
        """Return the result of a commit; None if it has to be computed from all changes at once."""
        result = self._process_inserted(state, changes, commit)
        if result is None and self._merged is not None:
            return self._merged.process(state, changes, commit)
        return self._process_divided(state, changes, commit) if result is None and subtable_key(self._plan) is not None else result

    def _process_inserted(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult | None:
        """Return the result of new rows that are on time; None if there are others."""
        if commit.inserted is None or self._pieces is None:
            return None
        if self._wide is None or commit.count <= self._context.settings.wide_commit_rows:
            with suppress(TooManyWindowsError):
                try:
                    merged = self._pieces.merge(state, changes, commit)
                except UnsupportedError:
                    return None
                return None if merged is None else result_of(self._plan, state, merged)
        return None if self._wide is None else self._wide.process(state, changes, commit)

    def _process_divided(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult:
        """Return the result of changes that are divided by series on the driver's disk.

        A part has all changes of its series, so that it is computed like a small micro-batch, with the state of these series alone.
        This also serves windows that Spark SQL computes.
        """
        with Spill.open([commit.series_key], commit.count) as spill:
            latest = state.max_event_time
            for piece in commit.plain_pieces():
                spill.add(piece)
                latest = later_of(latest, self._max_event_time(replace(changes, source=piece)))
            if not spill.parts():
                return idle_result(state)
            staged = create_staging_folder(self._context, self._plan.id) if can_stage(self._plan) else None
            state_of, results = divide_state(self._plan, state, spill.number_of), list[BatchResult]()
            for number in spill.parts():
                part = replace(changes, source=spill.read(number), max_event_time=latest)
                results.append(self._process_part(state_of(number), part, staged))
        return whole_result(self._plan, state, results)

    def _process_part(self, state: StreamState, changes: Changes, staged: StagedWindows | None) -> BatchResult:
        return stage_result(self._plan, self._process_rows(state, changes), changes.now, staged)

    def _max_event_time(self, changes: Changes) -> int | None:
        plan = self._plan
        batch = change_batch(plan, changes, ignore_update=plan.ignores_updates)
        selected = batch.is_written
        if selected.any() and (plan.query.filter is not None or plan.query.ignores_null):
            selected = selected & self._evaluation.passing(batch.rows)
        times = batch.ts[selected]
        return int(times.max()) if len(times) else None
