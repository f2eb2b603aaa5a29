"""Ways by which points come into a tree of IoTDB."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.types.house import House
from tests.types.values import CHOICES, TREE, row

NAMES: Final = [type_.name for type_ in TREE]


@dataclass(frozen=True)
class TreeWay:
    """A way in: the device has its name, and its rows differ in time by its number."""

    name: str
    number: int
    write: Callable[[House, TreeWay], None]

    @property
    def device(self) -> str:
        return f"root.m.{self.name}"

    def rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the time of each row and its values by measurement; a row of NULL alone is none in a tree."""
        for place, choice in enumerate(CHOICES):
            if choice is not None:
                yield 10 * self.number + place, row(TREE, choice)


def write_tree(house: House, way: TreeWay) -> None:
    way.write(house, way)


def insertion(way: TreeWay) -> str:
    rows = [
        f"({10 * way.number + place}, {', '.join(type_.literal(choice) for type_ in TREE)})" for place, choice in enumerate(CHOICES)
    ]
    return f"insert into {way.device}(time, {', '.join(NAMES)}) values {', '.join(rows)}"


def by_literals(house: House, way: TreeWay) -> None:
    house.tree.execute(insertion(way))


def by_csv(house: House, way: TreeWay) -> None:
    path = house.folder / f"tree_{way.name}.csv"
    lines = [f"time,{','.join(NAMES)}"]
    for tick, values in way.rows():
        cells = ['"' + file_text(value).replace('"', '""') + '"' for value in values.values()]
        lines.append(",".join([str(tick), *cells]))
    path.write_text("\n".join(lines) + "\n")
    house.tree.load(path, "root.m", device=way.device)


def by_ndjson(house: House, way: TreeWay) -> None:
    path = house.folder / f"tree_{way.name}.ndjson"
    lines = [{"time": tick, **{name: json_value(value) for name, value in values.items()}} for tick, values in way.rows()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    house.tree.load(path, "root.m", device=way.device)


def file_text(value: Any) -> str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value).lower() if isinstance(value, bool) else str(value)


def json_value(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else file_text(value)


def arrow_table(way: TreeWay) -> pa.Table:
    rows = [{"time": tick, **values} for tick, values in way.rows()]
    types = {"time": pa.int64(), "i32": pa.int32(), "f": pa.float32(), "t": pa.timestamp("ms", "UTC")}
    return pa.table({name: pa.array([row[name] for row in rows], types.get(name)) for name in rows[0]})


def by_parquet(house: House, way: TreeWay) -> None:
    path = house.folder / f"tree_{way.name}.parquet"
    pq.write_table(arrow_table(way), path)
    house.tree.load(path, "root.m", device=way.device)


def by_arrow(house: House, way: TreeWay) -> None:
    house.tree.append(arrow_table(way), "root.m", device=way.device)


def by_dictionaries(house: House, way: TreeWay) -> None:
    house.tree.append([{"time": tick, **values} for tick, values in way.rows()], "root.m", device=way.device)


def by_statement(house: House, way: TreeWay) -> None:
    with house.session() as session:
        session.execute_non_query_statement(insertion(way))


def by_tablet(house: House, way: TreeWay) -> None:
    from iotdb.utils.Tablet import Tablet

    rows = [(tick, sent(values)) for tick, values in way.rows()]
    with house.session() as session:
        session.insert_tablet(Tablet(way.device, NAMES, client_types(), [values for _, values in rows], [tick for tick, _ in rows]))


def by_records(house: House, way: TreeWay) -> None:
    with house.session() as session:
        for tick, values in way.rows():
            session.insert_record(way.device, tick, NAMES, client_types(), sent(values))


def by_str_records(house: House, way: TreeWay) -> None:
    """Write texts, from which the server infers types; those of the series count. BLOB has none."""
    with house.session() as session:
        for tick, values in way.rows():
            session.insert_str_record(way.device, tick, NAMES, [str_value(value) for value in values.values()])


def str_value(value: Any) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        return str(milliseconds(value))
    return file_text(value)


def client_types() -> list[Any]:
    from iotdb.utils.IoTDBConstants import TSDataType

    return [TSDataType[type_.sql] for type_ in TREE]


def sent(values: dict[str, Any]) -> list[Any]:
    """Return values as the client takes them: an instant is a number."""
    return [milliseconds(value) if isinstance(value, dt.datetime) else value for value in values.values()]


def milliseconds(value: dt.datetime) -> int:
    return round(value.timestamp() * 1000)


_WRITES: Final[tuple[Callable[[House, TreeWay], None], ...]] = (
    by_literals,
    by_csv,
    by_ndjson,
    by_parquet,
    by_arrow,
    by_dictionaries,
    by_statement,
    by_tablet,
    by_records,
    by_str_records,
)
TREE_WAYS: Final = tuple(TreeWay(write.__name__.removeprefix("by_"), number, write) for number, write in enumerate(_WRITES))
TREE_STORED: Final = {tick: values for way in TREE_WAYS for tick, values in way.rows()}
"""The rows of all devices by their time."""
