"""CSV: a message has a header with the names of its columns and then rows, or only rows whose columns the settings name.

An empty field is NULL, and one in quotes is an empty text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from headrace.pipes.events import DEVICE, TIME, DeviceRows, Measurement
from headrace.pipes.formats.devices import measurement_node
from headrace.pipes.formats.messages import KEY, VALUE, Decoded, FormatOptions, Texts
from headrace.pipes.formats.records import ID, Block, Problems, events_of, unique_name, with_devices, with_times
from headrace.pipes.formats.rows import rows_with_values, ticks_of
from headrace.pipes.formats.scalars import TYPES, as_array, from_plain_texts, is_quoted, plain_texts

TO_QUOTE: Final = r'^$|[",\r\n]'


class CsvEncoder:
    """Writes each row with its header, or with the columns that the settings name."""

    def __init__(self, options: FormatOptions) -> None:
        """Store the settings."""
        self._options = options

    def encode(self, data: DeviceRows) -> Texts:
        """Return a text for each row that has values in one of the columns."""
        names = self._options.columns or (TIME, DEVICE, *dict.fromkeys(one.name for one in data.columns.values()))
        data = data.with_rows(data.rows.select([TIME, DEVICE, *(name for name, one in data.columns.items() if one.name in names)]))
        data = rows_with_values(data)
        line = pc.binary_join_element_wise(*(self._fields(data, name) for name in names), ",")
        if not self._options.columns:
            header = ",".join(quoted(pa.array(names, pa.string())).to_pylist()) + "\n"
            line = pc.binary_join_element_wise(header, line, "")
        return Texts(as_array(data.rows[DEVICE]), line)

    def _fields(self, data: DeviceRows, name: str) -> pa.Array:
        """Return the fields of a column: a measurement, the time or the device."""
        if name in self._options.time_fields:
            return pc.cast(ticks_of(data, self._options.output_precision(data.precision)), pa.string())
        if name == DEVICE:
            encoded = as_array(as_array(data.rows[DEVICE]).dictionary_encode())
            return quoted(pc.cast(encoded.dictionary, pa.string())).take(encoded.indices)
        columns = [fields_of(as_array(data.rows[column])) for column, one in data.columns.items() if one.name == name]
        return pc.coalesce(*columns, "") if columns else pa.repeat("", data.rows.num_rows)


def fields_of(values: pa.Array) -> pa.Array:
    """Return values as fields, NULL if they are NULL."""
    texts = plain_texts(values)
    return quoted(texts) if is_quoted(values.type) else texts


def quoted(texts: pa.Array) -> pa.Array:
    """Return texts as fields, in quotes if they need them."""
    needs_quotes = pc.match_substring_regex(texts, TO_QUOTE)
    if not pc.any(needs_quotes).as_py():
        return texts
    return pc.if_else(needs_quotes, pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', ""), texts)


class CsvDecoder:
    """Reads rows of CSV."""

    def __init__(self, options: FormatOptions) -> None:
        """Store the settings."""
        self._options = options

    def decode(self, messages: pa.Table) -> Decoded:
        """Return what messages say."""
        problems = Problems()
        messages = problems.add(messages, pc.is_null(messages[VALUE]), "it is empty, or not UTF-8")
        blocks = [self._block(names, part, problems) for names, part in self._by_header(messages, problems)]
        for block in blocks:
            block.rows = problems.without(block.rows)
        return Decoded(events_of(blocks, self._options.input_precision, self._options.database), problems.unreadable())

    def _by_header(self, messages: pa.Table, problems: Problems) -> Iterator[tuple[Sequence[str], pa.Table]]:
        """Yield messages with the same columns, whose values are only the rows."""
        texts = pc.utf8_rtrim(messages[VALUE], "\r\n")
        if self._options.columns:
            messages = messages.set_column(messages.column_names.index(VALUE), VALUE, texts)
            messages = problems.add(messages, pc.equal(texts, ""), "it has no rows")
            if messages.num_rows:
                yield self._options.columns, messages
            return
        parts = as_array(pc.split_pattern(texts, "\n", max_splits=1))
        messages = messages.append_column("parts", parts)
        messages = problems.add(messages, pc.less(pc.list_value_length(parts), 2), "it has no rows after its header")
        if not messages.num_rows:
            return
        headers = as_array(pc.list_element(messages["parts"], 0)).dictionary_encode()
        messages = messages.set_column(messages.column_names.index(VALUE), VALUE, pc.list_element(messages["parts"], 1))
        for number, header in enumerate(headers.dictionary.to_pylist()):
            yield next(csv.reader([header.rstrip("\r")])), messages.filter(pc.equal(headers.indices, number))

    def _block(self, names: Sequence[str], messages: pa.Table, problems: Problems) -> Block:
        """Return the rows of messages with the same columns."""
        owners, rows = read_rows(names, messages[VALUE].to_pylist())
        ids, keys = messages[ID].take(owners), messages[KEY].take(owners)
        bad = set(range(messages.num_rows)) - set(owners.to_pylist()) if len(pc.unique(owners)) < messages.num_rows else set()
        is_bad = pa.array([index in bad for index in range(messages.num_rows)], pa.bool_())
        problems.add(messages, is_bad, f"a row does not have {len(names)} fields")
        time, device = self._special(names)
        table = pa.table({ID: ids, TIME: self._column(rows, time), DEVICE: self._devices(rows, device, keys)})
        table = table.append_column("row", pa.array(np.arange(table.num_rows)))
        table = with_times(table, self._options.input_precision, problems)
        table = with_devices(table, self._options.database, problems)
        block = Block(table.drop_columns(["row"]), {})
        columns: dict[str, Measurement] = {}
        for name in dict.fromkeys(names):
            if name not in (time, device) and name not in self._options.time_fields:
                texts = as_array(rows[name].take(table["row"]))
                values = from_plain_texts(texts, keeps_integers=self._options.keeps_integers)
                node = measurement_node(name)
                column = unique_name(node, values.type, columns)
                columns[column] = Measurement(node, TYPES[values.type])
                block.rows = block.rows.append_column(column, values)
        block.columns = columns
        return block

    def _special(self, names: Sequence[str]) -> tuple[str | None, str]:
        """Return the columns of the time and the device."""
        time = next((name for name in self._options.time_fields if name in names), None)
        return time, self._options.device_field or DEVICE

    def _column(self, rows: pa.Table, name: str | None) -> pa.Array:
        return as_array(rows[name]) if name in rows.column_names else pa.nulls(rows.num_rows, pa.string())

    def _devices(self, rows: pa.Table, column: str, keys: pa.ChunkedArray) -> pa.Array:
        if self._options.uses_key:
            return pc.cast(as_array(keys), pa.string())
        if self._options.device:
            return pa.repeat(self._options.device, rows.num_rows)
        return self._column(rows, column)


def read_rows(names: Sequence[str], texts: Sequence[str]) -> tuple[pa.Array, pa.Table]:
    """Return the rows of texts, and for each row the number of its text. Texts with a row of another length have no rows."""
    counts = [
        text.count("\n") + 1 if '"' not in text else sum(1 for _ in csv.reader(io.StringIO(text, newline=""))) for text in texts
    ]
    owners = np.repeat(np.arange(len(texts)), counts)
    wrong: list[int] = []
    table = pacsv.read_csv(
        pa.BufferReader(("\n".join(texts) + "\n").encode()),
        read_options=pacsv.ReadOptions(column_names=list(names), use_threads=False, block_size=256 << 20),
        parse_options=pacsv.ParseOptions(
            newlines_in_values=True, ignore_empty_lines=False, invalid_row_handler=partial(skipped, wrong)
        ),
        convert_options=pacsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            strings_can_be_null=True,
            null_values=[""],
            quoted_strings_can_be_null=False,
        ),
    )
    if not wrong:
        return pa.array(owners), table
    remaining = np.delete(owners, wrong)
    is_whole = ~np.isin(remaining, owners[wrong])
    return pa.array(remaining[is_whole]), table.filter(pa.array(is_whole))


def skipped(wrong: list[int], row: pacsv.InvalidRow) -> str:
    """Note a row that has another number of fields."""
    wrong.append(row.number - 1)
    return "skip"
