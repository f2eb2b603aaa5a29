"""Every type, its extremes, empty values and NULL, by every way in: what goes in comes out, and conditions find it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headrace

pytestmark = pytest.mark.spark

LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC)
FIRST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FLOAT_MAX = 3.4028234663852886e38
TDENGINE: dict[str, tuple[str, tuple[str, str], tuple[Any, Any]]] = {
    "bo": ("BOOL", ("true", "false"), (True, False)),
    "i8": ("TINYINT", ("-128", "127"), (-128, 127)),
    "i16": ("SMALLINT", ("-32768", "32767"), (-32768, 32767)),
    "i32": ("INT", ("-2147483648", "2147483647"), (-(2**31), 2**31 - 1)),
    "i64": ("BIGINT", ("-9223372036854775808", "9223372036854775807"), (-(2**63), 2**63 - 1)),
    "u8": ("TINYINT UNSIGNED", ("0", "255"), (0, 255)),
    "u16": ("SMALLINT UNSIGNED", ("0", "65535"), (0, 65535)),
    "u32": ("INT UNSIGNED", ("0", "4294967295"), (0, 2**32 - 1)),
    "u64": ("BIGINT UNSIGNED", ("0", "18446744073709551615"), (0, 2**64 - 1)),
    "f": ("FLOAT", ("-3.4028235e38", "0.1"), (-FLOAT_MAX, 0.10000000149011612)),
    "d": ("DOUBLE", ("-1.7976931348623157e308", "5e-324"), (-1.7976931348623157e308, 5e-324)),
    "p": (
        "DECIMAL(20, 4)",
        ("'-9999999999999999.9999'", "'1234567890123456.7891'"),
        (Decimal("-9999999999999999.9999"), Decimal("1234567890123456.7891")),
    ),
    "s": ("VARCHAR(10)", ("''", "'ääääa\"'"), ("", 'ääääa"')),
    "n": ("NCHAR(4)", ("''", r"'𝄞ä''\\'"), ("", "𝄞ä'\\")),
    "b": ("VARBINARY(4)", ("''", r"'\x00ff98f4'"), (b"", b"\x00\xff\x98\xf4")),
    "t": ("TIMESTAMP", ("'1970-01-01 00:00:00'", "'9999-12-31 23:59:59.999'"), (FIRST, LAST)),
    "g": (
        "GEOMETRY(60)",
        ("'POINT(1.0 2.0)'", "'LINESTRING(1.0 1.0, 2.0 2.0)'"),
        ("POINT(1.0 2.0)", "LINESTRING(1.0 1.0, 2.0 2.0)"),
    ),
}
"""Types by columns: for two values each, how SQL has it and what comes out."""
TREE: dict[str, tuple[str, tuple[str, str], tuple[Any, Any]]] = {
    "bo": ("BOOLEAN", ("true", "false"), (True, False)),
    "i32": ("INT32", ("-2147483648", "2147483647"), (-(2**31), 2**31 - 1)),
    "i64": ("INT64", ("-9223372036854775808", "9223372036854775807"), (-(2**63), 2**63 - 1)),
    "f": ("FLOAT", ("-3.4028235e38", "0.1"), (-FLOAT_MAX, 0.10000000149011612)),
    "d": ("DOUBLE", ("-1.7976931348623157e308", "5e-324"), (-1.7976931348623157e308, 5e-324)),
    "s": ("TEXT", ("''", "'ä''\"'"), ("", "ä'\"")),
    "n": ("STRING", ("''", "'𝄞'"), ("", "𝄞")),
    "b": ("BLOB", ("X''", "X'00ff98'"), (b"", b"\x00\xff\x98")),
    "t": ("TIMESTAMP", ("0", "253402300799999"), (FIRST, LAST)),
    "da": ("DATE", ("'1970-01-01'", "'9999-12-31'"), (dt.date(1970, 1, 1), dt.date(9999, 12, 31))),
}
COMPARED_ELSEWHERE = ("f", "b")
"""FLOAT and VARBINARY against constants have tests of their own."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    with headrace.connect(tmp_path_factory.mktemp("matrix") / "home") as connection:
        connection.execute("create database d")
        connection.execute("use d")
        columns = ", ".join(f"{name} {type_}" for name, (type_, _, _) in TDENGINE.items())
        connection.execute(f"create table t (ts timestamp, {columns})")
        folder = tmp_path_factory.mktemp("files")
        for number, write in enumerate((by_literals, by_texts, by_parameters, by_insert_file, by_csv, by_ndjson, by_dictionaries)):
            for choice in (0, 1, None):
                write(connection, 10 * number + (2 if choice is None else choice), choice, folder)
        yield connection


def values_of(choice: int | None, types: Any = TDENGINE) -> dict[str, Any]:
    return {name: None if choice is None else values[choice] for name, (_, _, values) in types.items()}


def by_literals(connection: headrace.Connection, ts: int, choice: int | None, _: Path) -> None:
    texts = ["null" if choice is None else texts[choice] for _, texts, _ in TDENGINE.values()]
    connection.execute(f"insert into t values ({ts}, {', '.join(texts)})")


def by_texts(connection: headrace.Connection, ts: int, choice: int | None, _: Path) -> None:
    texts = ["null" if choice is None else quoted(texts[choice]) for _, texts, _ in TDENGINE.values()]
    connection.execute(f"insert into t values ({ts}, {', '.join(texts)})")


def quoted(text: str) -> str:
    return text if text.startswith("'") else f"'{text}'"


def by_parameters(connection: headrace.Connection, ts: int, choice: int | None, _: Path) -> None:
    values = values_of(choice)
    connection.execute(f"insert into t values (?{', ?' * len(values)})", (ts, *values.values()))


def by_insert_file(connection: headrace.Connection, ts: int, choice: int | None, folder: Path) -> None:
    connection.execute(f"insert into t file '{csv_file(folder, 'ts', ts, values_of(choice))}'")


def by_csv(connection: headrace.Connection, ts: int, choice: int | None, folder: Path) -> None:
    connection.load(csv_file(folder, "ts", ts, values_of(choice)), "d.t")


def by_ndjson(connection: headrace.Connection, ts: int, choice: int | None, folder: Path) -> None:
    plain = {
        name: value if isinstance(value, bool | int | float | None) else text_of(value) for name, value in values_of(choice).items()
    }
    path = folder / f"{ts}.ndjson"
    path.write_text(json.dumps({"ts": ts, **plain}))
    connection.load(path, "d.t")


def by_dictionaries(connection: headrace.Connection, ts: int, choice: int | None, _: Path) -> None:
    connection.append([{"ts": ts, **values_of(choice)}], "d.t")


def csv_file(folder: Path, time: str, ts: int, values: dict[str, Any]) -> Path:
    path = folder / f"{ts}.csv"
    cells = ["" if value is None else '"' + text_of(value).replace('"', '""') + '"' for value in values.values()]
    path.write_text(f"{','.join([time, *values])}\n{','.join([str(ts), *cells])}\n")
    return path


def text_of(value: Any) -> str:
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, dt.datetime):
        return value.strftime(f"{value.year}-%m-%d %H:%M:%S.") + f"{value.microsecond // 1000:03}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_what_goes_in_comes_out(table: headrace.Connection) -> None:
    rows = table.execute("select * from t order by ts").fetchall()
    expected = [tuple(values_of(choice).values()) for _ in range(7) for choice in (0, 1, None)]
    assert [row[1:] for row in rows] == expected
    assert {type(value) for value in rows[0]} == {dt.datetime, bool, int, float, Decimal, str, bytes}


@pytest.mark.parametrize("form", ["literals", "texts", "parameters"])
@pytest.mark.parametrize("choice", [0, 1])
def test_conditions_on_a_value_find_its_rows(table: headrace.Connection, form: str, choice: int) -> None:
    names = [name for name in TDENGINE if name not in COMPARED_ELSEWHERE]
    texts = {name: TDENGINE[name][1][choice] for name in names}
    sides = {
        "literals": texts,
        "texts": {name: quoted(text) for name, text in texts.items()},
        "parameters": dict.fromkeys(names, "?"),
    }
    condition = " and ".join(f"{name} = {sides[form][name]}" for name in names)
    parameters = [TDENGINE[name][2][choice] for name in names] if form == "parameters" else []
    found = table.execute(f"select cast(ts as bigint) from t where {condition} order by ts", parameters).fetchall()
    assert [ts for (ts,) in found] == [10 * number + choice for number in range(7)]


def test_a_tree_keeps_every_value_and_conditions_find_it(tmp_path: Path) -> None:
    with headrace.connect(tmp_path / "home", dialect="iotdb") as tree:
        tree.execute("create database root.m")
        for name, (type_, _, _) in TREE.items():
            tree.execute(f"create timeseries root.m.d.{name} {type_}")
        for choice in (0, 1):
            texts = [texts[choice] for _, texts, _ in TREE.values()]
            tree.execute(f"insert into root.m.d(time, {', '.join(TREE)}) values ({choice}, {', '.join(texts)})")
            values = {
                name: f"0x{value.hex()}" if isinstance(value, bytes) else value for name, value in values_of(choice, TREE).items()
            }
            tree.load(csv_file(tmp_path, "time", 10 + choice, values), "root.m", device="root.m.d")
        rows = tree.execute(f"select {', '.join(TREE)} from root.m.d").fetchall()
        assert [row[1:] for row in rows] == [tuple(values_of(choice, TREE).values()) for choice in (0, 1)] * 2
        for choice in (0, 1):
            condition = " and ".join(
                f"{name} = {TREE[name][1][choice]}" for name in TREE if name not in (*COMPARED_ELSEWHERE, "da")
            )
            found = tree.execute(f"select i32 from root.m.d where {condition}").fetchall()
            assert [row[0].microsecond // 1000 for row in found] == [choice, 10 + choice]
