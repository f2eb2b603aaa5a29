"""Tablets as pipes of IoTDB send them: raw ones, plans that insert rows, and such plans as a log has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from headrace.doors.iotdb.reading import read_column, type_of_code
from headrace.doors.iotdb.records import NULL_CODES, RecordCollector, Value, read_value
from headrace.doors.iotdb.tablets import MAX_ROWS, Tablet, TabletColumn, device_nodes, finished_column, named_columns
from headrace.errors import DataError, NotSupportedError
from headrace.model.types import DataType
from headrace.pipes.iotdb.content import Content, Mask

INSERT_TABLET, INSERT_ROW, INSERT_ROWS, INSERT_DEVICE_ROWS, INSERT_TABLETS = range(13, 18)
"""IoTDB's types of plans that insert."""
RAW_TEXT: Final = -1
Row = tuple[str, int, list[str], list[Value], bool]
"""Device, instant, measurements, values, and whether the device is aligned."""


def read_raw_tablet(content: Content) -> Tablet:
    """Read a raw tablet: its schema and values, each with a flag that it is there, and last whether it is aligned."""
    device, rows = content.text(), row_count(content)
    names, types = read_optional_schemas(content)
    times = read_times(content, rows) if content.flag() else np.empty(0, np.int64)
    if len(times) != rows:
        raise DataError(f"a tablet of {rows} rows has no times", hint="send what the client library serializes")
    nulls = read_bit_maps(content, len(types), rows)
    has_values = content.flag()
    columns = [read_optional_column(content, type_, rows, mask) for type_, mask in zip(types, nulls, strict=True) if has_values]
    aligned = content.flag()
    present = {name: column for name, column in zip(names, columns, strict=False) if column is not None}
    return Tablet(device_nodes(device), aligned, times, named_columns(list(present), list(present.values())))


def row_count(content: Content) -> int:
    rows = content.int32()
    if not 0 <= rows <= MAX_ROWS:
        raise DataError(f"a tablet of {rows} rows is too large", hint=f"send at most {MAX_ROWS} rows")
    return rows


def read_times(content: Content, rows: int) -> np.ndarray:
    """Read the instants of rows."""
    return content.numbers(">i8", rows).astype(np.int64)


def read_optional_schemas(content: Content) -> tuple[list[str], list[DataType]]:
    """Read the measurements of a raw tablet with their types."""
    schemas = []
    if content.flag():
        schemas = [read_schema(content) for _ in range(content.count()) if content.flag()]
    return [name for name, _ in schemas], [type_ for _, type_ in schemas]


def read_schema(content: Content) -> tuple[str, DataType]:
    """Read a measurement: its name, type, encoding, compression and properties."""
    name, code, _ = content.text(), content.byte(), content.take(2)
    for _ in range(content.int32()):
        content.text(), content.text()
    return name, type_of_code(code)


def read_bit_maps(content: Content, columns: int, rows: int) -> list[Mask | None]:
    """Read for each column of a raw tablet which rows are NULL."""
    if not content.flag():
        return [None] * columns
    return [read_bit_map(content, rows) if content.flag() else None for _ in range(columns)]


def read_bit_map(content: Content, rows: int) -> Mask:
    """Read the bits of NULL rows, with their count and size before them. There may be bits for more rows."""
    count, packed = row_count(content), content.binary()
    if min(count, len(packed) * 8) < rows:
        raise DataError(f"{count} bits are not enough for {rows} rows", hint="send what the client library serializes")
    return Content.unpacked(packed, rows)


def read_optional_column(content: Content, type_: DataType, rows: int, nulls: Mask | None) -> TabletColumn | None:
    """Read a column of a raw tablet, whose texts have a flag each; None if it is missing."""
    if not content.flag():
        return None
    return finished_column(read_column(content, type_, rows, flags=1), type_, nulls)


def read_insert_node(content: Content) -> list[Tablet]:
    """Read a plan that inserts, with its number and the count of its children after it."""
    kind = content.int16()
    match kind:
        case 13:
            tablets = [read_tablet_node(content)]
        case 14:
            tablets = row_tablets([read_row_node(content)])
        case 15:
            rows = [read_row_node(content) for _ in range(content.count())]
            content.take(4 * len(rows))
            tablets = row_tablets(rows)
        case _:
            raise unsupported_node(kind)
    content.text()
    content.int32()
    return tablets


def read_logged_node(content: Content) -> list[Tablet]:
    """Read a plan that inserts as a log has it."""
    kind = content.int16()
    content.int64()
    match kind:
        case 13:
            return [read_tablet(content, content.text(), *read_schemas(content, content.count()))]
        case 14:
            return row_tablets([read_logged_row(content)])
        case 15:
            return row_tablets([read_logged_row(content) for _ in range(content.count())])
        case _:
            raise unsupported_node(kind)


def unsupported_node(kind: int) -> NotSupportedError:
    return NotSupportedError(f"a plan of type {kind} is not supported", hint="create the pipe with 'sink.format'='tablet'")


def read_schemas(content: Content, count: int) -> tuple[list[str], list[DataType]]:
    """Read measurements with their types."""
    schemas = [read_schema(content) for _ in range(count)]
    return [name for name, _ in schemas], [type_ for _, type_ in schemas]


def read_names(content: Content) -> list[str]:
    """Read the measurements of a plan: with what they are, or their names alone."""
    count, has_schemas = content.count(), content.flag()
    return read_schemas(content, count)[0] if has_schemas else [content.text() for _ in range(count)]


def read_tablet_node(content: Content) -> Tablet:
    """Read a plan that inserts a tablet."""
    device, names = content.text(), read_names(content)
    return read_tablet(content, device, names, [type_of_code(content.byte()) for _ in names])


def read_tablet(content: Content, device: str, names: Sequence[str], types: Sequence[DataType]) -> Tablet:
    """Read the rows of a tablet."""
    rows = row_count(content)
    times = read_times(content, rows)
    has_nulls = content.flag()
    nulls = [content.bits(rows) if has_nulls and content.flag() else None for _ in types]
    columns = [finished_column(read_column(content, type_, rows), type_, mask) for type_, mask in zip(types, nulls, strict=True)]
    return Tablet(device_nodes(device), content.flag(), times, named_columns(names, columns))


def read_row_node(content: Content) -> Row:
    """Read a plan that inserts a row."""
    time, device, names = content.int64(), content.text(), read_names(content)
    values = [read_typed_value(content) for _ in names]
    infers_types = content.flag()
    if infers_types:
        raise NotSupportedError("rows without types are not supported", hint="create the pipe with 'sink.format'='tablet'")
    return device, time, names, values, content.flag()


def read_logged_row(content: Content) -> Row:
    """Read a row of a log."""
    time, device = content.int64(), content.text()
    names, _ = read_schemas(content, content.count())
    values = [read_typed_value(content) for _ in names]
    return device, time, names, values, content.flag()


def read_typed_value(content: Content) -> Value:
    """Read a value with the code of its type before it."""
    code = content.byte()
    if code in NULL_CODES:
        return code, None
    if code == RAW_TEXT:
        return code, content.text()
    return code, content.value(lambda data, at: read_value(data, at, code))


def row_tablets(rows: Sequence[Row]) -> list[Tablet]:
    """Return rows as tablets."""
    collectors = {aligned: RecordCollector(aligned=aligned) for *_, aligned in rows}
    for device, time, names, values, aligned in rows:
        collectors[aligned].add(device, time, names, values)
    return [tablet for collector in collectors.values() for tablet in collector.tablets()]
