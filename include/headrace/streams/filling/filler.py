"""What a commit of windows to a target with FILL adds and removes besides them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WSTART
from headrace.compute.windows import key_columns
from headrace.compute.windows.fill import AT, LAST, NEXT
from headrace.context import Context
from headrace.errors import LimitError, OperationalError
from headrace.model.failpoints import failpoint
from headrace.model.positions import Position
from headrace.storage import Bounds, Commit, StaleReadError
from headrace.storage.row_matching import anti_join
from headrace.streams.batches import BatchResult
from headrace.streams.definition.define import StreamPlan
from headrace.streams.filling.emitted import EmittedWindows
from headrace.streams.filling.gaps import GROUP, NO_ROW, Neighborhood, WindowKeys, changed_gaps
from headrace.streams.filling.values import FilledValues
from headrace.streams.sinks.sink import DeltaSink, superseded_keys
from headrace.streams.sinks.target import TargetTable
from headrace.streams.state.tables import concat
from headrace.streams.windows.change_batch import to_numpy

logger = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 20
"""Each attempt but the last meets another commit to the target, such as a compaction."""
MAX_FILLED_ROWS: Final = 5_000_000
"""Rows that FILL may add in one micro-batch, which have to fit the driver. More are a row with a wrong timestamp."""


@dataclass(frozen=True)
class ChangedWindows:
    """The windows of a commit, with the subtables and the key columns `p*` of their groups.

    `windows` are those to write, in the order of `rows`, which have the mark, and those to retract.
    """

    names: list[str]
    keys: pa.Table
    rows: pa.Table
    windows: WindowKeys


@dataclass(frozen=True)
class FilledCommit:
    """The rows to write and the keys to delete, the version that they follow from, and the windows of the target after it."""

    upserts: pa.Table
    deletes: pa.Table
    version: int
    names: list[str]
    near: Neighborhood
    rows: pa.Table


class Filler:
    """Adds the windows of FILL to what is written to one stream's target."""

    def __init__(self, context: Context, plan: StreamPlan, target: TargetTable) -> None:
        self.context = context
        self.plan = plan
        self.target = target
        assert plan.query.interval is not None
        self.grid = plan.query.interval.grid(plan.query)
        self.values = FilledValues(context, plan, target)

    @cached_property
    def emitted(self) -> EmittedWindows:
        """The windows that the target has."""
        return EmittedWindows(self.context, self.plan, self.target.table)

    def commit(self, upserts: pa.Table, retractions: pa.Table, commit: Commit, deletes: pa.Table | None = None) -> bool:
        """Commit windows to write and to retract, with what FILL adds and removes, and delete rows with the keys `deletes`.

        Computes that again if another writer commits in between. Returns False if there is nothing to commit.

        Raises:
            FencedError: The guard of `commit` does not hold.
            LimitError: FILL would add too many rows.
        """
        for _ in range(MAX_ATTEMPTS):
            filled = self.fill(upserts, retractions, deletes)
            if filled is None:
                return False
            failpoint("streams.filled")
            try:
                self._write(filled, replace(commit, read_version=filled.version))
                return True
            except StaleReadError:
                logger.debug("filling the gaps of %s again: its target has changed", self.plan.name)
        raise OperationalError(f"other writers keep changing {self.plan.target.name}", hint="the stream tries again")

    def _write(self, filled: FilledCommit, commit: Commit) -> None:
        deletes = filled.deletes
        if self.plan.target.key is not None:
            deletes = superseded_keys(self.context, self.plan, filled.upserts, deletes)
        tables, table = self.context.tables, self.emitted.table
        written = tables.writer.replace(table, self.plan.target_database, filled.upserts, deletes, commit)
        if written is None:
            self.emitted.forget()
        else:
            self.emitted.committed(written.version, filled.names, filled.near, filled.rows)

    def other_windows(self, windows: pa.Table, bounds: Bounds, groups: pa.Table) -> pa.Table:
        """Return the windows that the target has in a range, in stored units, besides these finished ones.

        Only groups with the key columns `p*` of `groups` are considered.
        """
        columns = key_columns(self.plan.query)
        present = self.emitted.windows_within(self.target.groups.assign(groups).to_pylist(), bounds)
        group = pa.array(present.group)
        rows = pa.table({name: groups[name].take(group) for name in columns} | {WSTART: present.start})
        return anti_join(rows, windows, [*columns, WSTART])

    def fill(self, upserts: pa.Table, retractions: pa.Table, deletes: pa.Table | None = None) -> FilledCommit | None:
        """Return what to commit for windows to write and to retract, and other keys to delete; None if there are none.

        Raises:
            LimitError: FILL would add too many rows.
        """
        if not upserts.num_rows and not retractions.num_rows and not deletes:
            return None
        changed = self.changed_windows(upserts, retractions)
        if not changed.names and not deletes:
            return None
        version = self.emitted.refresh()
        old = self.emitted.around(changed.names, changed.windows.group, changed.windows.start)
        rows = pa.concat_tables([changed.rows, old.rows])
        near = Neighborhood.of(replace(old.keys, row=old.keys.row + changed.rows.num_rows), changed.windows)
        before, after = (self.values.gaps(near, row, rows) for row in (near.old_row, near.row))
        missing, deleted = changed_gaps(near, before, after, self.values.sources, self.windows_in)
        filled = [self.values.rows(missing, changed.keys)] if missing.num_rows else []
        keys = self.key_rows(changed.names, deleted)
        if deletes:
            keys = pa.concat_tables([keys, deletes.cast(keys.schema)])
        return FilledCommit(pa.concat_tables([changed.rows, *filled]), keys, version, changed.names, near, rows)

    def changed_windows(self, upserts: pa.Table, retractions: pa.Table) -> ChangedWindows:
        """Return the windows of a commit by group. Groups without a subtable are left out."""
        columns = [*key_columns(self.plan.query), WSTART]
        parts = [part.select(columns) for part in (upserts, retractions) if part.num_rows] or [upserts.select(columns)]
        series = self.target.groups.assign(keys := concat(parts))
        keys, encoded = keys.filter(pc.is_valid(series)), series.drop_null().combine_chunks().dictionary_encode()
        rows = self.target.to_rows(upserts) if upserts.num_rows else self.target.schema.empty_table()
        group, start = to_numpy(encoded.indices).astype(np.int64), to_numpy(keys[WSTART]).astype(np.int64)
        row = np.where(np.arange(len(start)) < rows.num_rows, np.arange(len(start)), NO_ROW)
        representative = keys.take(pa.array(np.unique(group, return_index=True)[1])).drop_columns(WSTART)
        return ChangedWindows(encoded.dictionary.to_pylist(), representative, rows, WindowKeys(group, start, row))

    def windows_in(self, gaps: pa.Table) -> pa.Table:
        """Repeat gaps for each window in them, with its ends. Raises `LimitError` if FILL would add too many rows at once."""
        starts, ends = (to_numpy(gaps[name]).astype(np.int64) for name in (WSTART, NEXT.name))
        count = self.grid.max_between(starts, ends)
        if count > MAX_FILLED_ROWS:
            raise LimitError(
                f"FILL of stream {self.plan.name} would add {count} rows in one micro-batch, more than {MAX_FILLED_ROWS}",
                hint="skip the row that is far from the others with RESUME STREAM … IGNORE UNTREATED, or use a longer INTERVAL",
            )
        gap, windows = self.grid.between(starts, ends)
        repeated = gaps.take(pa.array(gap)).append_column(AT.name, pa.array(windows.start))
        return repeated.append_column(LAST.name, pa.array(windows.last))

    def key_rows(self, names: list[str], windows: pa.Table) -> pa.Table:
        return pa.table(
            {
                self.plan.target.series_key: pa.array(names, pa.string()).take(windows[GROUP]),
                self.plan.target.timestamp.name: self.target.to_timestamps(windows[AT.name]),
            }
        )


class FillingSink(DeltaSink):
    """A `DeltaSink` of a stream with FILL."""

    def __init__(self, context: Context, plan: StreamPlan) -> None:
        super().__init__(context, plan)
        self.filler = Filler(context, plan, self.target)

    def fence(self) -> None:
        super().fence()
        self.filler = Filler(self.context, self.plan, self.target)

    def _commit_result(self, result: BatchResult, position: Position, expected: int | None) -> bool:
        commit = Commit.of_stream(self.plan.id, position.batch, expected, self.context.epoch, position.offsets)
        return self.filler.commit(result.upserts, result.retractions, commit)


def table_sink_of(context: Context, plan: StreamPlan) -> DeltaSink:
    return FillingSink(context, plan) if plan.fills_gaps else DeltaSink(context, plan)
