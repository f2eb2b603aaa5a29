"""Texts of all protocols as records: the series, the time, and lists of the names and the values of fields.

Many requests are read at once, by kernels. A record knows its request by `id`.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.doors.tdengine.schemaless.lines import HEAD, NO_FIELD, TIME, content_of, plain_records
from headrace.pipes.formats.line_protocol import line_records as split_records
from headrace.pipes.formats.message_queries import MessageQueries
from headrace.pipes.formats.records import ID, MEASUREMENTS, VALUES, Problems
from headrace.pipes.formats.scalars import as_array, cast_or_none

FACTOR: Final = "factor"
NAME: Final = "_value"
"""The column of OpenTSDB's values."""
UNITS: Final = {
    "ns": 1,
    "n": 1,
    "us": 1_000,
    "u": 1_000,
    "µ": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
"""Nanoseconds of the units of line protocol's times."""
MAX_NS: Final = 2**63 - 1
TELNET: Final = r"^(?:put\s+)?(?P<metric>\S+)\s+(?P<time>\S+)\s+(?P<value>\S+)(?P<tags>(?:\s+[^\s=]+=[^\s=]+)*)$"
VALID: Final = "SELECT id FROM messages WHERE json_valid(value) AND json_type(value) IN ('ARRAY', 'OBJECT')"
POINTS: Final = """
SELECT id, json_array(json_extract(point, '$.metric'), json_extract(point, '$.tags'))::VARCHAR AS head,
    coalesce(json_extract(point, '$.timestamp.value'), json_extract(point, '$.timestamp'))::VARCHAR AS time,
    json_extract(point, '$.timestamp.type') ->> '$' AS unit,
    coalesce(json_extract(point, '$.value.value'), json_extract(point, '$.value'))::VARCHAR AS value
FROM (
    SELECT id, unnest(CASE json_type(value) WHEN 'ARRAY' THEN json_extract(value, '$[*]') ELSE [value::JSON] END) AS point
    FROM messages
)
"""


def line_records(messages: pa.Table, unit: int, problems: Problems) -> pa.Table:
    """Return the records of line protocol: `id`, `head`, `time` in ns, `measurements`, `values`. `unit` is that of times, in ns.

    Messages without quotes and escapes are split at their separators, others by expressions.
    """
    if has_quotes(messages["value"]):
        is_quoted = pc.match_substring_regex(messages["value"], r'["\\]')
        parts = [
            plain_records(messages.filter(pc.invert(is_quoted)), problems),
            quoted_records(messages.filter(is_quoted), problems),
        ]
        records = pa.concat_tables(parts).combine_chunks()
    else:
        records = plain_records(messages, problems)
    return with_times(records.append_column(FACTOR, pa.repeat(pa.scalar(unit, pa.int64()), records.num_rows)), problems)


def has_quotes(texts: pa.ChunkedArray) -> bool:
    """Return whether there may be a text with quotes or escapes."""
    return any(quote in content_of(chunk) for chunk in texts.chunks for quote in (b'"', b"\\"))


def lines_of(lists: pa.Array, ids: pa.Array) -> pa.Table:
    """Return lines with the ids of their requests, without empty ones and comments."""
    lines = pa.table({ID: ids.take(pc.list_parent_indices(lists)), "value": pc.utf8_trim_whitespace(lists.flatten())})
    is_none = pc.or_(pc.equal(lines["value"], ""), pc.starts_with(lines["value"], "#"))
    return lines.filter(pc.invert(is_none)).combine_chunks()


def quoted_records(messages: pa.Table, problems: Problems) -> pa.Table:
    table = messages.select([ID, "value"]).append_column("key", pa.nulls(messages.num_rows, pa.string()))
    records = split_records(MessageQueries(), table, problems)
    is_no_pair = [any(not name for name in names) for names in records[MEASUREMENTS].to_pylist()]
    records = problems.add(records, pa.array(is_no_pair, pa.bool_()), NO_FIELD)
    lists = {name: records[name].cast(pa.list_(pa.string())) for name in (MEASUREMENTS, VALUES)}
    return pa.table({ID: records[ID], HEAD: records[HEAD], TIME: records[TIME], **lists})


def with_times(records: pa.Table, problems: Problems) -> pa.Table:
    """Return records with times in nanoseconds, the present for those that have none. `factor` has the units of their texts."""
    if cast_or_none(as_array(records[TIME]), pa.int64()) is None:
        is_number = pc.fill_null(pc.match_substring_regex(records[TIME], r"^-?\d{1,18}$"), True)
        is_long = pc.fill_null(pc.match_substring_regex(records[TIME], r"^\d{19}$"), False)
        is_number = pc.or_(is_number, pc.and_(is_long, pc.less_equal(records[TIME], str(MAX_NS))))
        records = problems.add(records, pc.invert(is_number), "its time is no whole number of 64 bits")
    times = pc.cast(records[TIME], pa.int64())
    is_far = pc.greater(pc.abs(times), pc.divide(pa.scalar(MAX_NS, pa.int64()), records[FACTOR]))
    position = records.column_names.index(TIME)
    records = problems.add(records.set_column(position, TIME, times), pc.fill_null(is_far, False), "its time is out of range")
    present = pc.fill_null(pc.multiply(records[TIME], records[FACTOR]), time.time_ns())
    return records.set_column(position, TIME, present).drop_columns([FACTOR])


def telnet_records(messages: pa.Table, problems: Problems) -> pa.Table:
    """Return the records of OpenTSDB's lines, `[put] metric time value tag=value …`, like `line_records`."""
    lines = lines_of(pc.split_pattern(as_array(messages["value"]), "\n"), as_array(messages[ID]))
    parts = pc.extract_regex(lines["value"], TELNET)
    lines = problems.add(lines.append_column("parts", parts), pc.is_null(parts), "it is not a line of OpenTSDB")
    parts = as_array(lines["parts"])
    tags = pc.replace_substring_regex(parts.field("tags"), r"\s+", ",")
    heads = pc.binary_join_element_wise(parts.field("metric"), tags, "")
    return point_records(lines[ID], heads, parts.field("time"), parts.field("value"), None, problems)


def json_records(messages: pa.Table, problems: Problems) -> pa.Table:
    """Return the records of OpenTSDB's JSON, a point or an array of points, like `line_records`."""
    queries, messages = MessageQueries(), messages.select([ID, "value"])
    valid = queries.select(VALID, messages)
    is_bad = pc.invert(pc.is_in(messages[ID], as_array(valid[ID])))
    messages = problems.add(messages, is_bad, "it is no JSON object, nor an array of such")
    points = queries.select(POINTS, messages)
    for name in ("time", "value"):
        points = problems.add(points, pc.is_null(points[name]), f"a point needs its {'timestamp' if name == 'time' else 'value'}")
    return point_records(points[ID], points[HEAD], points["time"], points["value"], points["unit"], problems)


def point_records(
    ids: pa.ChunkedArray,
    heads: pa.Array,
    times: pa.Array,
    values: pa.Array,
    units: pa.Array | None,
    problems: Problems,
) -> pa.Table:
    """Return points as records with one field. The unit of a time follows from the number of its digits unless it is named."""
    digits = pc.utf8_length(as_array(times))
    by_digits = {10: "s", 13: "ms", 16: "us", 19: "ns"}
    named = pa.nulls(len(digits), pa.string()) if units is None else as_array(units)
    positions = pc.index_in(digits, pa.array(list(by_digits), pa.int32()))
    unit = pc.coalesce(named, pa.array(list(by_digits.values())).take(positions))
    factors = pa.array(list(UNITS.values()), pa.int64()).take(pc.index_in(unit, pa.array(list(UNITS))))
    count = len(digits)
    offsets = pa.array(np.arange(count + 1), pa.int32())
    lists = [pa.ListArray.from_arrays(offsets, as_array(one)) for one in (pa.repeat(NAME, count), values)]
    columns = {ID: ids, HEAD: heads, TIME: times, MEASUREMENTS: lists[0], VALUES: lists[1], FACTOR: factors}
    records = pa.table({name: as_array(values) for name, values in columns.items()})
    records = problems.add(records, pc.is_null(factors), "its time has neither 10, 13, 16 nor 19 digits")
    return with_times(records, problems)
