"""JSON: a row as IoTDB's MQTT payload, `{"device": …, "timestamp": …, "measurements": […], "values": […]}`, or as a flat object."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipes.events import DEVICE, TIME, DeviceRows
from headrace.pipes.formats.message_queries import MessageQueries
from headrace.pipes.formats.messages import Decoded, FormatOptions, Texts
from headrace.pipes.formats.records import ID, MEASUREMENTS, VALUES, Problems, blocks_of, checked, events_of
from headrace.pipes.formats.rows import device_texts, joined_names, joined_present, rows_with_values, ticks_of
from headrace.pipes.formats.scalars import as_array, from_json_values, json_strings, json_values

STRUCTURE: Final = (
    """{"device": "VARCHAR", "timestamp": "VARCHAR", "timestamps": ["VARCHAR"], "measurements": ["VARCHAR"], "values": ["JSON"]}"""
)
TABLETS: Final = f"""
SELECT id, key, tablet.device AS device, tablet.timestamp AS time, tablet.timestamps AS times, tablet.measurements AS measurements,
    tablet.values AS values
FROM (SELECT id, key, from_json(value, '{STRUCTURE}') AS tablet FROM messages)
"""
TABLET_ROWS: Final = """
SELECT id, key, device, unnest(times) AS time, measurements, json_extract(unnest(values), '$[*]') AS values
FROM tablets WHERE time IS NULL
"""
VALID: Final = "SELECT id, key, value FROM messages WHERE json_valid(value)"
PAYLOADS: Final = """
SELECT id, key, value FROM messages WHERE json_type(value) = 'OBJECT'
UNION ALL
SELECT id, key, unnest(json_extract(value, '$[*]')) AS value FROM messages WHERE json_type(value) = 'ARRAY'
ORDER BY id
"""
IS_TABLET: Final = "SELECT coalesce(json_type(value, '$.measurements') = 'ARRAY', false) AS is_tablet FROM messages"
OBJECTS: Final = """
WITH objects AS (SELECT id, key, json_keys(value) AS names, json_extract(value, '$.*') AS members FROM messages)
SELECT id, key,
    list_filter(members, lambda v, i: names[i] = $device)[1] ->> '$' AS device,
    list_filter(members, lambda v, i: list_contains($times, names[i]))[1] ->> '$' AS time,
    list_filter(names, lambda name: NOT list_contains($fields, name)) AS measurements,
    list_filter(members, lambda v, i: NOT list_contains($fields, names[i])) AS values
FROM objects
"""


class JsonEncoder:
    """Writes each row as an object: its device, its time, its measurements and their values."""

    def __init__(self, options: FormatOptions) -> None:
        """Write times in the precision of the options, else in that of the rows."""
        self._options = options

    def encode(self, data: DeviceRows) -> Texts:
        """Return an object for each row that has values."""
        data = rows_with_values(data)
        if not data.rows.num_rows:
            return Texts(pa.array([], pa.string()), pa.array([], pa.string()))
        columns = [(one, as_array(data.rows[name])) for name, one in data.columns.items()]
        names = joined_names([(json_strings(pa.array([one.name]))[0].as_py(), values) for one, values in columns])
        values = joined_present([json_values(values) for _, values in columns])
        devices = device_texts(data, json_strings)
        times = pc.cast(ticks_of(data, self._options.output_precision(data.precision)), pa.string())
        parts = ('{"device":', devices, ',"timestamp":', times, ',"measurements":[', names, '],"values":[', values, "]}")
        return Texts(as_array(data.rows[DEVICE]), pc.binary_join_element_wise(*parts, ""))


class JsonDecoder:
    """Reads IoTDB's payloads, with one time or several, flat objects, and arrays of either."""

    def __init__(self, options: FormatOptions) -> None:
        """Store the settings."""
        self._options = options
        self._queries = MessageQueries()

    def decode(self, messages: pa.Table) -> Decoded:
        """Return what messages say."""
        problems = Problems()
        table = checked(self._records(messages, problems), self._options, problems)
        table = problems.add(table, has_nested(table), "a value is an array or an object")
        table = problems.without(table)
        values = partial(from_json_values, keeps_integers=self._options.keeps_integers)
        blocks = list(blocks_of(table, values))
        return Decoded(events_of(blocks, self._options.input_precision, self._options.database), problems.unreadable())

    def _records(self, messages: pa.Table, problems: Problems) -> pa.Table:
        """Return messages as records. Nearly always all are payloads of IoTDB, so try that first."""
        with suppress(duckdb.Error):
            tablets = self._queries.select(TABLETS, messages)
            if not tablets["measurements"].null_count:
                return self._tablet_records(tablets, problems)
        valid = self._queries.select(VALID, messages)
        problems.add(messages, pc.invert(pc.is_in(messages[ID], valid[ID])), "it is not JSON")
        payloads = self._queries.select(PAYLOADS, valid)
        problems.add(valid, pc.invert(pc.is_in(valid[ID], payloads[ID])), "it is neither an object nor an array of objects")
        objects = self._queries.select("SELECT * FROM messages WHERE json_type(value) = 'OBJECT'", payloads)
        is_tablet = self._queries.select(IS_TABLET, objects)["is_tablet"]
        tablets = self._queries.select(TABLETS, objects.filter(is_tablet))
        return pa.concat_tables(
            [self._tablet_records(tablets, problems), self._object_records(objects.filter(pc.invert(is_tablet)))]
        )

    def _tablet_records(self, tablets: pa.Table, problems: Problems) -> pa.Table:
        """Return the records of payloads: one for each of their times."""
        if not tablets["time"].null_count:
            return self._with_device(tablets)
        is_single = pc.is_valid(tablets["time"])
        lengths = [pc.coalesce(pc.list_value_length(tablets[name]), 0) for name in ("times", "values")]
        is_uneven = pc.and_(pc.invert(is_single), pc.or_(pc.not_equal(*lengths), pc.equal(lengths[0], 0)))
        problems.add(tablets, is_uneven, "its time is missing, or it does not have as many lists of values as timestamps")
        rows = self._queries.select(TABLET_ROWS, tablets.filter(pc.invert(is_uneven)), name="tablets")
        return pa.concat_tables([self._with_device(tablets.filter(is_single)), self._with_device(rows)])

    def _object_records(self, objects: pa.Table) -> pa.Table:
        """Return the records of flat objects: the fields other than time and device are measurements."""
        times = list(self._options.time_fields)
        device = self._options.device_field or DEVICE
        return self._with_device(
            self._queries.select(OBJECTS, objects, {"device": device, "times": times, "fields": [device, *times]})
        )

    def _with_device(self, records: pa.Table) -> pa.Table:
        """Return records with the columns that all have, and the device from where the settings say."""
        device = records[DEVICE]
        if self._options.uses_key:
            device = records["key"]
        elif self._options.device:
            device = pa.array([self._options.device] * records.num_rows, pa.string())
        texts = pa.list_(pa.string())
        lists = {name: pc.cast(records[name], texts) for name in (MEASUREMENTS, VALUES)}
        columns = {ID: records[ID], TIME: pc.cast(records[TIME], pa.string()), DEVICE: pc.cast(device, pa.string()), **lists}
        return pa.table(columns)


def has_nested(records: pa.Table) -> pa.Array:
    """Return which records have a value that is an array or an object."""
    lists = as_array(records[VALUES])
    flat = lists.flatten()
    is_nested = pc.or_(pc.starts_with(flat, "{"), pc.starts_with(flat, "["))
    rows = pc.unique(pc.list_parent_indices(lists).filter(is_nested)) if pc.any(is_nested).as_py() else pa.array([], pa.int64())
    return pc.is_in(pa.array(range(len(lists)), pa.int64()), pc.cast(rows, pa.int64()))
