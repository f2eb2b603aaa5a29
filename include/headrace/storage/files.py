"""Data files written beside the log, to be added by a commit: Parquet with the statistics that the log wants."""

from __future__ import annotations

import json
import time
import uuid
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from headrace.model.instants import EPOCH
from headrace.model.tables import Table
from headrace.storage.handles import file_system
from headrace.storage.types import MICROSECONDS

ROW_GROUP_ROWS: Final = 131_072
# Every reader of the log reads the statistics: long texts stay out.
LONGEST_STATISTIC: Final = 256


def write_file(uri: str, rows: pa.Table, table: Table, *, data_change: bool = False) -> AddAction:
    """Writes rows as a data file of a table that no commit names yet; returns the action that would add it."""
    name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    system, root = file_system(uri)
    place = f"{root}/{name}"
    pq.write_table(rows, place, filesystem=system, compression="zstd", row_group_size=ROW_GROUP_ROWS)
    size = int(system.get_file_info(place).size)
    return AddAction(name, size, {}, now(), data_change, json.dumps(statistics(rows, table)))


def statistics(rows: pa.Table, table: Table) -> dict[str, Any]:
    """What the log says of a file: rows, and least and greatest of the key columns."""
    ends = {name: pc.min_max(rows[name]) for name in table.primary_key}
    told = {name: end for name, end in ends.items() if end["max"].is_valid and len(str(end["max"])) <= LONGEST_STATISTIC}
    return {
        "numRecords": rows.num_rows,
        "minValues": {name: _statistic(end["min"]) for name, end in told.items()},
        "maxValues": {name: _statistic(end["max"]) for name, end in told.items()},
        "nullCount": {name: rows[name].null_count for name in table.primary_key},
    }


def _statistic(value: pa.Scalar) -> object:
    """A value as statistics have it: timestamps in whole milliseconds, rounded down (readers allow for that); else as it is."""
    if value.type == MICROSECONDS:
        moment = EPOCH + timedelta(milliseconds=value.cast(pa.int64()).as_py() // 1_000)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1_000:03}Z"
    plain = value.as_py()
    return int(plain) if isinstance(plain, Decimal) else plain


def now() -> int:
    """Epoch milliseconds, as the log has them."""
    return time.time_ns() // 1_000_000
