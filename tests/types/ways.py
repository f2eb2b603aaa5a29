"""Ways by which rows come into a table of TDengine."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.types.house import House
from tests.types.values import CHOICES, TDENGINE, ColumnType, row

TABLE: Final = "t"
COLUMNS: Final = ", ".join(type_.name for type_ in TDENGINE)
MARKS: Final = ", ".join("?" * (len(TDENGINE) + 1))


@dataclass(frozen=True)
class Way:
    """A way in: its number, by which its rows differ in time, what writes them, and columns that it has no values for."""

    name: str
    number: int
    write: Callable[[House, Way], None]
    lacks: frozenset[str] = frozenset()

    def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the time of each row and its values by column."""
        for place, choice in enumerate(CHOICES):
            yield 10 * self.number + place, row(TDENGINE, choice)

    def stored(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield what the table has then."""
        for tick, values in self.rows():
            if self.name != "lines" or any(value is not None for value in values.values()):
                yield tick, {name: None if name in self.lacks else value for name, value in values.items()}


def literal_rows(way: Way, text: Callable[[ColumnType, int | None], str]) -> str:
    rows = [
        f"({10 * way.number + place}, {', '.join(text(type_, choice) for type_ in TDENGINE)})"
        for place, choice in enumerate(CHOICES)
    ]
    return f"insert into d.{way.name} values {' '.join(rows)}"


def by_literals(house: House, way: Way) -> None:
    house.connection.execute(literal_rows(way, ColumnType.literal))


def by_texts(house: House, way: Way) -> None:
    house.connection.execute(literal_rows(way, ColumnType.quoted))


def by_rest(house: House, way: Way) -> None:
    house.rest(literal_rows(way, ColumnType.literal))


def by_parameters(house: House, way: Way) -> None:
    for tick, values in way.rows():
        house.connection.execute(f"insert into {way.name} values ({MARKS})", (tick, *values.values()))


def by_many_parameters(house: House, way: Way) -> None:
    rows = [(tick, *values.values()) for tick, values in way.rows()]
    house.connection.cursor().executemany(f"insert into {way.name} values ({MARKS})", rows)


def by_flight_parameters(house: House, way: Way) -> None:
    """Bind values of Arrow's types; ADBC infers no unsigned integers."""
    rows = [(tick, *(values | {"u64": optional(Decimal, values["u64"])}).values()) for tick, values in way.rows()]
    with house.flight() as cursor:
        cursor.executemany(f"insert into d.{way.name} values ({MARKS})", rows)


def optional(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def by_flight_ingestion(house: House, way: Way) -> None:
    with house.flight() as cursor:
        cursor.adbc_ingest(TABLE, arrow_table(way, tbname=way.name), mode="append", db_schema_name="d")


def by_insert_file(house: House, way: Way) -> None:
    house.connection.execute(f"insert into {way.name} file '{csv_file(house.folder, way)}'")


def by_csv(house: House, way: Way) -> None:
    house.connection.load(csv_file(house.folder, way), f"d.{TABLE}", subtable=way.name)


def by_ndjson(house: House, way: Way) -> None:
    path = house.folder / f"{way.name}.ndjson"
    lines = [{"_ts": tick, **{name: json_value(value) for name, value in values.items()}} for tick, values in way.rows()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    house.connection.load(path, f"d.{TABLE}", subtable=way.name)


def json_value(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | None) else text_of(value)


def by_parquet(house: House, way: Way) -> None:
    path = house.folder / f"{way.name}.parquet"
    pq.write_table(arrow_table(way), path)
    house.connection.load(path, f"d.{TABLE}", subtable=way.name)


def by_dictionaries(house: House, way: Way) -> None:
    house.connection.append([{"_ts": tick, **values} for tick, values in way.rows()], f"d.{TABLE}", subtable=way.name)


def by_arrow(house: House, way: Way) -> None:
    house.connection.append(arrow_table(way), f"d.{TABLE}", subtable=way.name)


def by_pandas(house: House, way: Way) -> None:
    house.connection.append(arrow_table(way).to_pandas(integer_object_nulls=True), f"d.{TABLE}", subtable=way.name)


def by_selection(house: House, way: Way) -> None:
    house.connection.execute(f"insert into {way.name} select _ts + {10 * way.number}a, {COLUMNS} from literals")


def by_lines(house: House, way: Way) -> None:
    """Write InfluxDB's lines. A row without any field cannot be written."""
    lines = []
    for tick, values in way.rows():
        fields = [
            f"{name}={line_field(name, value)}" for name, value in values.items() if value is not None and name in LINE_FIELDS
        ]
        if fields:
            lines.append(f"{TABLE},way={way.name} {','.join(fields)} {tick}")
    house.post("/influxdb/v1/write?db=d&precision=ms", "\n".join(lines))


LINE_FIELDS: Final = {
    "bo": "{}",
    **{f"{sign}{bits}": f"{{}}{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)},
    "f": "{}f32",
    "d": "{}",
    "s": '"{}"',
    "n": 'L"{}"',
    "b": 'B"{}"',
}
"""How lines write a value of the columns for which they have a type."""


def line_field(name: str, value: Any) -> str:
    text = text_of(value)
    if isinstance(value, str):
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    return LINE_FIELDS[name].format(text)


def arrow_table(way: Way, **constants: str) -> pa.Table:
    """Return the rows as Arrow infers them: whole numbers up to 64 bits, decimals, texts, bytes, and instants."""
    rows = [{"_ts": tick, **values, **constants} for tick, values in way.rows()]
    columns = {name: pa.array([row[name] for row in rows], ARROW_TYPES.get(name)) for name in rows[0]}
    return pa.table(columns)


ARROW_TYPES: Final = {
    "_ts": pa.int64(),
    "u64": pa.uint64(),
    "f": pa.float32(),
    "p": pa.decimal128(20, 4),
    "q": pa.decimal128(38, 10),
    "t": pa.timestamp("ms", "UTC"),
}


def csv_file(folder: Path, way: Way) -> Path:
    path = folder / f"{way.name}.csv"
    lines = [f"_ts,{COLUMNS.replace(' ', '')}"]
    for tick, values in way.rows():
        cells = ["" if value is None else '"' + text_of(value).replace('"', '""') + '"' for value in values.values()]
        lines.append(",".join([str(tick), *cells]))
    path.write_text("\n".join(lines) + "\n")
    return path


def text_of(value: Any) -> str:
    """Return a value as text, for files."""
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, dt.datetime):
        return value.strftime(f"{value.year}-%m-%d %H:%M:%S.") + f"{value.microsecond // 1000:03}"
    return str(value).lower() if isinstance(value, bool) else str(value)


_WRITES: Final[tuple[Callable[[House, Way], None], ...]] = (
    by_literals,
    by_texts,
    by_parameters,
    by_many_parameters,
    by_insert_file,
    by_csv,
    by_ndjson,
    by_parquet,
    by_dictionaries,
    by_arrow,
    by_pandas,
    by_selection,
    by_rest,
    by_flight_parameters,
    by_flight_ingestion,
    by_lines,
)
WAYS: Final = tuple(
    Way(
        write.__name__.removeprefix("by_"),
        number,
        write,
        frozenset(type_.name for type_ in TDENGINE if write is by_lines and type_.name not in LINE_FIELDS),
    )
    for number, write in enumerate(_WRITES)
)
STORED: Final = {tick: values for way in WAYS for tick, values in way.stored()}
"""The rows of the table by their time."""
