"""InfluxDB's line protocol: `device s1=0.5,s2=1i,s3="text" 1586076045524000000`.

Rows are written with the path of the device as the measurement, and without tags. In lines that are read, a measurement that is no
path, and the values of tags in the order of their names, are the nodes of the device below the database.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.paths import ROOT, quote_node
from headrace.pipes.events import DEVICE, TIME, DeviceRows
from headrace.pipes.formats.message_queries import MessageQueries
from headrace.pipes.formats.messages import KEY, VALUE, Decoded, FormatOptions, Texts
from headrace.pipes.formats.records import ID, MEASUREMENTS, VALUES, Problems, blocks_of, checked, events_of
from headrace.pipes.formats.rows import device_texts, joined_present, rows_with_values, ticks_of
from headrace.pipes.formats.scalars import as_array, is_quoted, only, plain_texts

LINES: Final = r"""
SELECT id, key, unnest(regexp_extract_all(value, '(?s)(?:[^"\n\\]|\\.|"(?:[^"\\]|\\.)*")+')) AS value FROM messages
"""
RECORDS: Final = r"""
WITH lines AS (SELECT id, key, regexp_extract(value, $line, ['head', 'fields', 'time']) AS line FROM messages),
split AS (SELECT id, key, line.head AS head, regexp_extract_all(line.fields, $field) AS fields, line.time AS time FROM lines)
SELECT id, key, head, time,
    list_transform(fields, lambda field: regexp_replace(regexp_extract(field, $name, 1), '\\([,= ])', '\1', 'g')) AS measurements,
    list_transform(fields, lambda field: regexp_extract(field, $name, 2)) AS values
FROM split
"""
ESCAPED: Final = r"(?:[^ \\]|\\.)+"
LINE: Final = rf'(?s)^\s*({ESCAPED}) +((?:[^ "\\]|\\.|"(?:[^"\\]|\\.)*")+)(?: +(-?[0-9]+))?\s*$'
FIELD: Final = r'(?s)(?:[^,"\\]|\\.|"(?:[^"\\]|\\.)*")+'
NAME: Final = r"(?s)^((?:[^=\\]|\\.)+)=(.+)$"
PARAMETERS: Final = {"line": LINE, "field": FIELD, "name": NAME}
FIELD_VALUE: Final = (
    r'(?s)^(?:[+-]?[0-9]+[iu]|[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[tTfF]|true|True|TRUE|false|False|FALSE|".*")$'
)
NO_LINE: Final = "it is not a line of line protocol"
TAG: Final = re.compile(r"(?:[^,\\]|\\.)++")
TRUE: Final = pa.array(["t", "T", "true", "True", "TRUE"])
BOOLEANS: Final = pa.array([*TRUE.to_pylist(), "f", "F", "false", "False", "FALSE"])


class LineEncoder:
    """Writes each row as a line. It has no numbers that are not finite: these values are left out."""

    def __init__(self, options: FormatOptions) -> None:
        """Store the settings."""
        self._options = options

    def encode(self, data: DeviceRows) -> Texts:
        """Return a line for each row that has values."""
        data = rows_with_values(data)
        if not data.rows.num_rows:
            return Texts(pa.array([], pa.string()), pa.array([], pa.string()))
        fields = [field_texts(one.name, as_array(data.rows[name])) for name, one in data.columns.items()]
        joined = joined_present(fields)
        heads = device_texts(data, lambda paths: pc.replace_substring_regex(paths, r"([, \\])", r"\\\1"))
        times = pc.cast(ticks_of(data, self._options.output_precision(data.precision)), pa.string())
        has_fields = pc.not_equal(joined, "")
        lines = pc.binary_join_element_wise(heads, joined, times, " ")
        return Texts(as_array(data.rows[DEVICE]).filter(has_fields), lines.filter(has_fields))


def field_texts(name: str, values: pa.Array) -> pa.Array:
    """Return values as fields with a name, NULL for what is left out."""
    texts = plain_texts(values)
    if is_quoted(values.type):
        texts = pc.binary_join_element_wise('"', pc.replace_substring_regex(texts, r'(["\\])', r"\\\1"), '"', "")
    elif pa.types.is_integer(values.type):
        texts = pc.binary_join_element_wise(texts, "u" if values.type == pa.uint64() else "i", "")
    elif pa.types.is_floating(values.type):
        texts = only(texts, pc.is_finite(values))
    escaped = re.sub(r"([,= ])", r"\\\1", name)
    return pc.binary_join_element_wise(f"{escaped}=", texts, "")


class LineDecoder:
    """Reads lines. Empty ones and comments are passed over."""

    def __init__(self, options: FormatOptions) -> None:
        """Store the settings."""
        self._options = options
        self._queries = MessageQueries()

    def decode(self, messages: pa.Table) -> Decoded:
        """Return what messages say."""
        problems = Problems()
        messages = problems.add(messages, pc.is_null(messages[VALUE]), "it is empty, or not UTF-8")
        records = line_records(self._queries, messages, problems)
        values = records[VALUES].combine_chunks()
        records = problems.add(records, has_bad_fields(values), "a field is neither a number, a boolean nor a text in quotes")
        devices = self._devices(records)
        lists = {name: records[name] for name in (MEASUREMENTS, VALUES)}
        table = pa.table({ID: records[ID], TIME: records[TIME], DEVICE: devices, **lists})
        table = problems.without(checked(table, self._options, problems))
        return Decoded(
            events_of(list(blocks_of(table, from_fields)), self._options.input_precision, self._options.database),
            problems.unreadable(),
        )

    def _devices(self, records: pa.Table) -> pa.Array:
        """Return the devices of records."""
        if self._options.uses_key:
            return pc.cast(as_array(records[KEY]), pa.string())
        if self._options.device:
            return pa.repeat(self._options.device, records.num_rows)
        encoded = as_array(as_array(records["head"]).dictionary_encode())
        devices = [device_of(head, self._options) for head in encoded.dictionary.to_pylist()]
        return pa.array(devices, pa.string()).take(encoded.indices)


def line_records(queries: MessageQueries, messages: pa.Table, problems: Problems) -> pa.Table:
    """Return what the lines of messages say as texts: `head`, `time` or NULL, and the lists `measurements` and `values`."""
    if pc.any(pc.match_substring(messages[VALUE], "\n")).as_py():
        messages = queries.select(LINES, messages)
    messages = messages.filter(pc.invert(pc.match_substring_regex(messages[VALUE], r"^\s*(#|$)")))
    records = queries.select(RECORDS, messages, PARAMETERS)
    records = problems.add(records, pc.equal(records["head"], ""), NO_LINE)
    times = pc.if_else(pc.equal(records[TIME], ""), pa.scalar(None, pa.string()), records[TIME])
    return records.set_column(records.column_names.index(TIME), TIME, times)


def device_of(head: str, options: FormatOptions) -> str | None:
    """Return the device that a measurement and its tags denote; None if there is none."""
    measurement, *tags = [re.sub(r"\\([,= \\])", r"\1", part) for part in TAG.findall(head)]
    values = dict(sorted(tag.partition("=")[::2] for tag in tags))
    if options.device_field:
        return values.get(options.device_field)
    if measurement.startswith(f"{ROOT}."):
        return ".".join([measurement, *map(quote_node, values.values())])
    if not options.database:
        return measurement
    return ".".join([options.database, *map(quote_node, (measurement, *values.values()))])


def has_bad_fields(lists: pa.Array) -> pa.Array:
    """Return which records have a field whose value is none."""
    is_bad = pc.invert(pc.match_substring_regex(lists.flatten(), FIELD_VALUE))
    rows = pc.unique(pc.list_parent_indices(lists).filter(is_bad))
    return pc.is_in(pa.array(range(len(lists)), pa.int64()), pc.cast(rows, pa.int64()))


def from_fields(texts: pa.Array) -> Iterator[pa.Array]:
    """Yield the values of fields, an array for each of their types, in which the others are NULL."""
    is_text = pc.starts_with(texts, '"')
    is_integer = pc.and_(pc.invert(is_text), pc.match_substring_regex(texts, "[iu]$"))
    is_bool = pc.is_in(texts, BOOLEANS)
    is_number = pc.invert(pc.or_(is_text, pc.or_(is_integer, is_bool)))
    if pc.any(is_number).as_py():
        yield pc.cast(only(texts, is_number), pa.float64())
    if pc.any(is_integer).as_py():
        yield pc.cast(pc.utf8_slice_codeunits(only(texts, is_integer), 0, -1), pa.int64())
    if pc.any(is_bool).as_py():
        yield pc.is_in(only(texts, is_bool), TRUE) if pc.all(is_bool).as_py() else only(pc.is_in(texts, TRUE), is_bool)
    if pc.any(is_text).as_py():
        yield pc.replace_substring_regex(pc.utf8_slice_codeunits(only(texts, is_text), 1, -1), r'\\(["\\])', r"\1")
