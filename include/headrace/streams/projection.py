"""Micro-batches of a query without a window: each row that passes WHERE is one result."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

from headrace.compute import project
from headrace.compute.columnar import ProjectionKernel, UnsupportedError
from headrace.compute.plan import TS, WSTART
from headrace.context import Context
from headrace.model.jobs import JobCounters
from headrace.storage.row_matching import row_ids
from headrace.streams.batches import BatchResult, idle_result
from headrace.streams.definition.define import StreamPlan
from headrace.streams.state.checkpoints import StreamState
from headrace.streams.wide.staging import can_stage, create_staging_folder, stage_result
from headrace.streams.windows.accounting import count_rows
from headrace.streams.windows.change_batch import UPSERT_KINDS, ChangeBatch, Changes, LargeCommit, RowKind, change_batch, to_numpy
from headrace.streams.windows.evaluation import kernel_for, numbered, numbered_query, source_schema, typed_rows
from headrace.streams.windows.moved_rows import ComputedWindows, MovedRows
from headrace.streams.windows.window_sql import ROW, small_frame


class ProjectionProcessor:
    """Computes results from the changes alone: there are no windows in state, and no stored rows are read.

    No window can close or count a row twice. So no row is late, and an update replaces what it changes, regardless of IGNORE
    EXPIRED and IGNORE UPDATE.
    """

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        self.context = context
        self.plan = plan
        self.query = numbered_query(plan.query)
        types = {field.name: field.type for field in source_schema(plan)} | {ROW: pa.int64()}
        self.kernel = kernel_for(context, plan, lambda: ProjectionKernel.compile(self.query, types))

    def process_batch(self, state: StreamState, changes: Changes) -> BatchResult:
        if changes.large is not None and can_stage(self.plan):
            return self.process_large(state, changes, changes.large)
        return self.process_rows(state, changes)

    def process_large(self, state: StreamState, changes: Changes, commit: LargeCommit) -> BatchResult:
        """Compute a large commit piece by piece, since each row is one result, and a row before and after an update another."""
        result = replace(idle_result(state), staged=create_staging_folder(self.context, self.plan.id))
        for piece in commit.parts(self.plan.source.primary_key) if commit.inserted is None else commit.plain_pieces():
            computed = self.process_rows(result.state, replace(changes, source=piece))
            result = stage_result(self.plan, computed, changes.now, result.staged)
        counters = replace(result.state.counters, batches=state.counters.batches + 1)
        return replace(result, state=replace(result.state, counters=counters))

    def process_rows(self, state: StreamState, changes: Changes) -> BatchResult:
        """Compute what changes make due from all of them at once."""
        batch = change_batch(self.plan, changes, ignore_update=False)
        if batch.rows.num_rows == 0:
            return idle_result(state)
        projected = self.project_rows(batch)
        if changes.computed:
            rows = MovedRows(changes.computed, ComputedWindows(self.context, self.plan, state).has)
            projected = rows.select(batch, batch.kind == RowKind.DELETE, projected)
        passing = np.zeros(len(batch.ts), np.bool_)
        passing[to_numpy(projected[ROW])] = True
        no_rows = np.zeros(len(passing), np.bool_)
        count = count_rows(self.plan, batch, state, batch.is_written & passing, no_rows)
        results = keep_last_by_key(projected, self.result_key(), batch)
        is_upsert = pa.array(np.isin(batch.kind[to_numpy(results[ROW])], UPSERT_KINDS))
        counters = JobCounters(batches=1) if changes.tags_version is not None else count.counters
        moved = replace(count, counters=replace(counters, rows_out=results.num_rows)).added_to(state)
        return BatchResult(results.filter(is_upsert), results.filter(pa.array(~np.asarray(is_upsert))), moved)

    def project_rows(self, batch: ChangeBatch) -> pa.Table:
        """Return the results of all rows that pass WHERE, with their row numbers. `_wstart` is the row's timestamp."""
        rows = numbered(batch.rows)
        if self.kernel is not None:
            with suppress(UnsupportedError):
                results = self.kernel.project(typed_rows(self.plan, rows))
                return results.rename_columns([WSTART if name == TS else name for name in results.column_names])
        frame = small_frame(self.context.spark(), rows)
        return project(self.query, frame).withColumnRenamed(TS, WSTART).toArrow().sort_by(ROW)

    def result_key(self) -> list[str]:
        """Return the columns that identify a result in the target: group, timestamp, and the source's key column if any."""
        key = ["o1"] if self.plan.source.key is not None else []
        return [*self.plan.groups.columns, WSTART, *key]


def keep_last_by_key(results: pa.Table, key: list[str], batch: ChangeBatch) -> pa.Table:
    """Deduplicate results by key, keeping that of the last write. An upsert wins over a retraction of the same write."""
    if results.num_rows == 0:
        return results
    row = to_numpy(results[ROW]).astype(np.int64)
    is_upsert = np.isin(batch.kind[row], UPSERT_KINDS)
    (key_ids,) = row_ids([results], key)
    order = np.lexsort((is_upsert, batch.version[row], key_ids))
    last = np.concatenate((key_ids[order][1:] != key_ids[order][:-1], [True]))
    return results.take(pa.array(order[last]))
