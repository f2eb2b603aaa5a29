"""The rows in quarantine that a user has asked to be processed again, as the source has them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.context import Context
from headrace.model.positions import Offsets
from headrace.model.quarantine import QuarantineRequest, RowKey
from headrace.storage import Bounds
from headrace.storage.row_matching import row_ids
from headrace.storage.set_aside import Keys
from headrace.streams.definition.define import StreamPlan
from headrace.streams.sources.stored import scan_source
from headrace.streams.sources.tags import with_tags
from headrace.streams.windows.change_batch import CHANGE, VERSION, Changes


@dataclass(frozen=True)
class Replay:
    """Rows to process again, as if they had just been inserted, and their keys, of which the source may lack some."""

    changes: Changes
    keys: tuple[RowKey, ...]


def read_replay(context: Context, plan: StreamPlan, offsets: Offsets) -> Replay | None:
    """Return the rows to process again; None if there are none."""
    rows = context.catalog.quarantine.rows(plan.id)
    keys = tuple(row.key for row in rows if row.requested is QuarantineRequest.REPLAY and row.dropped is None)
    if not keys:
        return None
    stored = read_rows(context, plan, offsets, Keys(keys))
    version = pa.repeat(pa.scalar(max(offsets.values()), pa.int64()), stored.num_rows)
    inserted = stored.append_column(CHANGE, pa.repeat(pa.scalar("insert"), stored.num_rows)).append_column(VERSION, version)
    return Replay(Changes(offsets, inserted, is_one_write=True), keys)


def read_rows(context: Context, plan: StreamPlan, offsets: Offsets, keys: Keys) -> pa.Table:
    """Return the rows of the source that have some keys, with the tags that the query reads."""
    source, precision = plan.source, plan.query.precision
    rows = scan_source(
        replace(context, set_aside=None),
        plan,
        offsets,
        list(dict.fromkeys((*plan.stored_columns, *source.primary_key))),
        series=sorted({key.series for key in keys.keys}),
        bounds=Bounds.of_ticks(keys.times[0], keys.times[-1], precision),
    )
    wanted = keys.table(source, rows.schema, precision)
    name = source.timestamp.name
    rows = rows.filter(pc.is_in(rows[name], wanted[name].combine_chunks()))
    row_id, wanted_id = row_ids([rows, wanted], list(source.primary_key))
    rows = rows.filter(pa.array(np.isin(row_id, wanted_id)))
    return with_tags(context.tables, source, rows, plan.query.scans[0].tags)
