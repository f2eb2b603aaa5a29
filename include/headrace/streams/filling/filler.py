"""What a commit of windows to a target with FILL adds and removes besides them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.compute.plan import WSTART
from headrace.compute.windows import key_columns
from headrace.compute.windows.fill import IS_FILLED
from headrace.context import Context
from headrace.errors import LimitError, OperationalError
from headrace.model.failpoints import failpoint
from headrace.model.positions import Position
from headrace.storage import Bounds, Commit, StaleReadError
from headrace.storage.row_matching import anti_join, row_ids
from headrace.streams.batches import BatchResult
from headrace.streams.definition.define import StreamPlan
from headrace.streams.filling.emitted import EmittedWindows
from headrace.streams.filling.gaps import NO_ROW, Gaps, MissingWindows, Neighborhood, WindowKeys
from headrace.streams.filling.marks import MARK, mark_values
from headrace.streams.filling.values import FROM_AFTER, FROM_BEFORE, FilledValues
from headrace.streams.sinks.sink import DeltaSink, superseded_keys
from headrace.streams.sinks.target import TargetTable
from headrace.streams.windows.change_batch import Bools, Int64s, to_numpy
from headrace.streams.windows.grids import window_grid

logger = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 20
"""Each attempt but the last meets another commit to the target, such as a compaction."""
MAX_FILLED_ROWS: Final = 5_000_000
"""Rows that FILL may add in one micro-batch, which have to fit the driver. More are a row with a wrong timestamp."""
GROUP: Final = "_group"


@dataclass(frozen=True)
class ChangedWindows:
    """The windows of a commit, with the subtables and the key columns `p*` of their groups.

    `rows` are the rows to write, with the mark; `upserts` and `retractions` have the groups and starts of what is written and
    removed.
    """

    names: list[str]
    keys: pa.Table
    rows: pa.Table
    upserts: WindowKeys
    retractions: WindowKeys


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
        self.emitted = EmittedWindows(context, plan)
        self.grid = window_grid(plan.query)
        self.values = FilledValues(context, plan, target)

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
        group_of = {name: index for index, name in enumerate(self.target.groups.assign(groups).to_pylist())}
        names, starts = self.emitted.windows_within(bounds)
        index = np.array([group_of.get(name, NO_ROW) for name in names], np.int64)
        group = pa.array(index[index != NO_ROW])
        present = pa.table({name: groups[name].take(group) for name in columns} | {WSTART: starts[index != NO_ROW]})
        return anti_join(present, windows, [*columns, WSTART])

    def fill(self, upserts: pa.Table, retractions: pa.Table, deletes: pa.Table | None = None) -> FilledCommit | None:
        """Return what to commit for windows to write and to retract, and other keys to delete; None if there are none.

        Raises:
            LimitError: FILL would add too many rows.
        """
        changed = self.changed_windows(upserts, retractions)
        if not changed.names and not deletes:
            return None
        version = self.emitted.refresh()
        group = np.concatenate((changed.upserts.group, changed.retractions.group))
        old = self.emitted.around(changed.names, group, np.concatenate((changed.upserts.start, changed.retractions.start)))
        written = replace(changed.upserts, row=old.rows.num_rows + np.arange(changed.rows.num_rows))
        rows = pa.concat_tables([old.rows, changed.rows])
        near = Neighborhood.of(old.keys, written, changed.retractions)
        filled = self.filled_rows(near, rows, changed.keys)
        keys = self.deleted_keys(near, changed.names)
        if deletes:
            keys = pa.concat_tables([keys, deletes.cast(keys.schema)])
        return FilledCommit(pa.concat_tables([changed.rows, filled]), keys, version, changed.names, near, rows)

    def changed_windows(self, upserts: pa.Table, retractions: pa.Table) -> ChangedWindows:
        """Return the windows of a commit by group. Groups without a subtable are left out."""
        columns = [*key_columns(self.plan.query), WSTART]
        parts, names = [], []
        for windows in (upserts, retractions):
            if windows.num_rows:
                series = self.target.groups.assign(windows)
                parts.append(windows.filter(pc.is_valid(series)))
                names.append(series.drop_null())
            else:
                parts.append(windows)
        if not any(part.num_rows for part in parts):
            nothing = WindowKeys(*(np.empty(0, np.int64),) * 3)
            return ChangedWindows([], pa.table({}), self.emitted.schema.empty_table(), nothing, nothing)
        keys = pa.concat_tables([part.select(columns) for part in parts if part.num_rows], promote_options="permissive")
        encoded = (
            pa.chunked_array([chunk for one in names for chunk in one.chunks], pa.string()).combine_chunks().dictionary_encode()
        )
        group, start = to_numpy(encoded.indices).astype(np.int64), to_numpy(keys[WSTART]).astype(np.int64)
        count = parts[0].num_rows
        representative = keys.take(pa.array(np.unique(group, return_index=True)[1])).drop_columns(WSTART)
        return ChangedWindows(
            encoded.dictionary.to_pylist(),
            representative,
            self.target.to_rows(parts[0]) if count else self.emitted.schema.empty_table(),
            WindowKeys(group[:count], start[:count], np.arange(count)),
            WindowKeys(group[count:], start[count:], np.full(len(start) - count, NO_ROW)),
        )

    def filled_rows(self, near: Neighborhood, rows: pa.Table, keys: pa.Table) -> pa.Table:
        mode, schema = self.values.mode, self.emitted.schema
        gaps = near.gaps_to_fill(self.differing(near, rows), before=mode in FROM_BEFORE, after=mode in FROM_AFTER)
        missing = self.missing_windows(gaps)
        if len(missing.start) == 0:
            return schema.empty_table()
        filled = self.values.rows(gaps, missing, rows, keys, schema)
        is_filled = pa.table({IS_FILLED: pa.repeat(True, filled.num_rows)})
        return filled.set_column(schema.get_field_index(MARK.name), schema.field(MARK.name), mark_values(self.plan, is_filled))

    def missing_windows(self, gaps: Gaps) -> MissingWindows:
        """Return the windows in gaps. Raises `LimitError` if FILL would add too many rows at once."""
        count = self.grid.max_between(gaps.start, gaps.end)
        if count > MAX_FILLED_ROWS:
            raise LimitError(
                f"FILL of stream {self.plan.name} would add {count} rows in one micro-batch, more than {MAX_FILLED_ROWS}",
                hint="skip the row that is far from the others with RESUME STREAM … IGNORE UNTREATED, or use a longer INTERVAL",
            )
        gap, windows = self.grid.between(gaps.start, gaps.end)
        return MissingWindows(gap, windows.start, windows.last)

    def differing(self, near: Neighborhood, rows: pa.Table) -> Bools:
        columns = self.values.filled_columns
        changed = np.flatnonzero(near.is_old & (near.new_row != NO_ROW))
        differs = np.zeros(len(near.start), np.bool_)
        if len(changed) and columns:
            parts = [rows.select(columns).take(pa.array(index[changed])) for index in (near.old_row, near.new_row)]
            old_id, new_id = row_ids(parts, columns)
            differs[changed] = old_id != new_id
        return differs

    def deleted_keys(self, near: Neighborhood, names: list[str]) -> pa.Table:
        """Return the keys of rows to delete: windows that are not replaced by a filled one, and filled ones at the ends."""
        windows = near.is_retracted & ~near.is_inside()
        gaps = near.gaps_to_clear()
        missing = self.missing_windows(gaps)
        group = np.concatenate((near.group[windows], gaps.group[missing.gap]))
        return self.key_rows(names, group, np.concatenate((near.start[windows], missing.start)))

    def key_rows(self, names: list[str], group: Int64s, start: Int64s) -> pa.Table:
        series = pa.DictionaryArray.from_arrays(pa.array(group, pa.int32()), pa.array(names, pa.string())).cast(pa.string())
        return pa.table(
            {
                self.plan.target.series_key: series,
                self.plan.target.timestamp.name: self.target.to_timestamps(pa.chunked_array([start])),
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
