"""The rows of a large commit that a stream sets aside: only these are in memory at once, all others are read in pieces."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.quarantine import QuarantineCode, RowKey
from headrace.storage import Bounds
from headrace.storage.delta.pruning import as_stored_integers
from headrace.storage.row_matching import row_ids
from headrace.storage.set_aside import Keys
from headrace.streams.definition.define import StreamPlan
from headrace.streams.quarantine.changed_rows import row_keys
from headrace.streams.quarantine.limits import later_rows, own_rows
from headrace.streams.windows.change_batch import CHANGE, Bools, Changes, LargeCommit, to_numpy, with_text_key
from headrace.streams.windows.retention import subtable_key

Reason = tuple[QuarantineCode, str]
KeyReasons = Mapping[RowKey, Reason]
"""For each key of a written row to set aside, why: a commit writes no key twice."""


def keys_ahead(plan: StreamPlan, commit: LargeCommit, latest: int, max_keys: int) -> list[RowKey]:
    """Return the keys of the rows that are written after an instant, in ticks, or of more than `max_keys` of them."""
    keys = list[RowKey]()
    for piece in commit.raw_pieces():
        is_later = later_rows(plan, piece, latest)
        if is_later.any():
            keys += row_keys(piece.filter(pa.array(is_later)), plan.source, plan.query.precision)
        if len(keys) > max_keys:
            break
    return keys


def divide_commit(plan: StreamPlan, commit: LargeCommit, keys: Collection[RowKey]) -> tuple[pa.Table, LargeCommit]:
    """Return the changes of a commit at some keys, and the commit without them."""
    key, wanted = plan.source.primary_key, Keys(keys)
    touched, ends = list[pa.Table](), list[int]()
    table = pa.table({})
    for piece in commit.raw_pieces():
        table = wanted.table(plan.source, piece.schema, plan.query.precision)
        has_key = has_keys(table, key, piece)
        if has_key.any() or not touched:
            touched.append(with_text_key(commit.add_tags(piece.filter(pa.array(has_key))), commit.series_key))
        if not has_key.all():
            others = pc.min_max(as_stored_integers(piece[plan.source.timestamp.name]).filter(pa.array(~has_key)))
            ends += [others["min"].as_py(), others["max"].as_py()]
    rows = pa.concat_tables(touched, promote_options="permissive")
    if rows.num_rows == 0:
        return rows, commit
    inserted = commit.inserted
    if inserted is not None:
        inserted = replace(inserted, times=Bounds(min(ends), max(ends))) if ends else None
    remaining = partial(without_keys, table, key)
    if commit.remaining is not None:
        remaining = partial(both, commit.remaining, remaining)
    return rows, replace(commit, count=commit.count - rows.num_rows, inserted=inserted, remaining=remaining)


def has_keys(keys: pa.Table, columns: Sequence[str], rows: pa.Table) -> Bools:
    """Return a mask of the rows with some keys. The second column is the timestamp."""
    mask, time = np.zeros(rows.num_rows, np.bool_), columns[1]
    candidates = np.flatnonzero(to_numpy(pc.is_in(rows[time], keys[time].combine_chunks())))
    if len(candidates):
        some = with_text_key(rows.select(list(columns)).take(pa.array(candidates)), columns[0])
        row_id, key_id = row_ids([some, keys], columns)
        mask[candidates[np.isin(row_id, key_id)]] = True
    return mask


def without_keys(keys: pa.Table, columns: Sequence[str], rows: pa.Table) -> pa.Table:
    mask = has_keys(keys, columns, rows)
    return rows.filter(pa.array(~mask)) if mask.any() else rows


def both(first: Callable[[pa.Table], pa.Table], second: Callable[[pa.Table], pa.Table], rows: pa.Table) -> pa.Table:
    """Return the rows that remain of those that remain."""
    return second(first(rows))


def reasons_of_rows(plan: StreamPlan, rows: pa.Table, reasons: KeyReasons) -> dict[int, Reason]:
    written = np.flatnonzero(own_rows(plan, rows))
    keys = row_keys(rows.take(pa.array(written)), plan.source, plan.query.precision)
    return {int(index): reasons[key] for index, key in zip(written, keys, strict=True) if key in reasons}


def is_divisible(plan: StreamPlan) -> bool:
    """Return whether rows of different series never are in one window, so that what fails can be searched series by series."""
    return plan.query.window is not None and subtable_key(plan) is not None


def parts_of(plan: StreamPlan, commit: LargeCommit, changes: Changes) -> Iterator[Changes]:
    """Yield the changes of a commit in parts: all of some series, or else any, as new rows alone."""
    if not is_divisible(plan):
        for piece in commit.plain_pieces():
            rows = piece.filter(pa.array(own_rows(plan, piece)))
            inserts = pa.repeat(pa.scalar("insert"), rows.num_rows)
            yield replace(changes, source=rows.set_column(rows.schema.get_field_index(CHANGE), CHANGE, inserts))
        return
    yield from (replace(changes, source=part) for part in commit.parts([commit.series_key]))
