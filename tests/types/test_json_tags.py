"""JSON tags: what goes in by any way is found by its members, and comes out by any way."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.cli.output import Format
from headrace.cli.script import run_script
from tests.types.house import House

pytestmark = pytest.mark.spark

OBJECTS: Final[tuple[dict[str, Any] | None, ...]] = (
    {},
    {"s": 'it\'s "a\\b"', "n": 7, "o": {"k": [1, None, "x"]}, "é": "𝄞", "a.b": 1, "b": True, "z": None},
    {"s": "", "n": -9007199254740993, "d": 1e300, "b": False},
    {"s": "7", "n": 0.1, "x'y": 1},
    None,
)
TEXTS: Final = tuple(None if value is None else json.dumps(value, ensure_ascii=False) for value in OBJECTS)


def quoted(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def names(way: str) -> list[str]:
    return [f"{way}_{number}" for number in range(len(OBJECTS))]


def rows(way: str) -> list[dict[str, Any]]:
    return [{"tbname": name, "ts": number, "v": number, "about": TEXTS[number]} for number, name in enumerate(names(way))]


def inserted(way: str) -> str:
    parts = [f"d.{row['tbname']} using d.j tags ({quoted(row['about'])}) values ({row['ts']}, {row['v']})" for row in rows(way)]
    return f"insert into {' '.join(parts)}"


def by_literals(house: House, way: str) -> None:
    house.connection.execute(inserted(way))


def by_rest(house: House, way: str) -> None:
    house.rest(inserted(way))


def by_parameters(house: House, way: str) -> None:
    for row in rows(way):
        house.connection.execute(f"insert into {row['tbname']} using j tags (?) values (?, ?)", (row["about"], row["ts"], row["v"]))


def by_supertable(house: House, way: str) -> None:
    values = " ".join(f"('{row['tbname']}', {row['ts']}, {row['v']}, {quoted(row['about'])})" for row in rows(way))
    house.connection.execute(f"insert into j (tbname, ts, v, about) values {values}")


def by_creation(house: House, way: str) -> None:
    house.connection.execute(
        "create table " + " ".join(f"{row['tbname']} using j tags ({quoted(row['about'])})" for row in rows(way))
    )
    house.connection.execute("insert into " + " ".join(f"{row['tbname']} values ({row['ts']}, {row['v']})" for row in rows(way)))


def by_alteration(house: House, way: str) -> None:
    house.connection.execute(inserted(way).replace("NULL", "'{\"s\": 1}'"))
    for row in rows(way):
        house.connection.execute(f"alter table {row['tbname']} set tag about = {quoted(row['about'])}")


def by_csv(house: House, way: str) -> None:
    path = house.folder / f"{way}.csv"
    cells = [["" if value is None else '"' + str(value).replace('"', '""') + '"' for value in row.values()] for row in rows(way)]
    path.write_text("tbname,ts,v,about\n" + "".join(",".join(row) + "\n" for row in cells))
    house.connection.load(path, "d.j")


def by_ndjson(house: House, way: str) -> None:
    path = house.folder / f"{way}.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows(way)))
    house.connection.load(path, "d.j")


def by_objects(house: House, way: str) -> None:
    """Load NDJSON whose member is an object itself."""
    path = house.folder / f"{way}.ndjson"
    path.write_text("".join(json.dumps(row | {"about": OBJECTS[row["v"]]}) + "\n" for row in rows(way)))
    house.connection.load(path, "d.j")


def by_parquet(house: House, way: str) -> None:
    path = house.folder / f"{way}.parquet"
    pq.write_table(pa.Table.from_pylist(rows(way)), path)
    house.connection.load(path, "d.j")


def by_arrow(house: House, way: str) -> None:
    house.connection.append(pa.Table.from_pylist(rows(way)), "d.j")


def by_pandas(house: House, way: str) -> None:
    house.connection.append(pa.Table.from_pylist(rows(way)).to_pandas(), "d.j")


def by_dictionaries(house: House, way: str) -> None:
    house.connection.append(rows(way), "d.j")


def by_flight_parameters(house: House, way: str) -> None:
    with house.flight() as cursor:
        values = [(row["tbname"], row["ts"], row["v"], row["about"]) for row in rows(way)]
        cursor.executemany("insert into d.j (tbname, ts, v, about) values (?, ?, ?, ?)", values)


def by_flight_ingestion(house: House, way: str) -> None:
    with house.flight() as cursor:
        cursor.adbc_ingest("j", pa.Table.from_pylist(rows(way)), mode="append", db_schema_name="d")


WAYS: Final[dict[str, Callable[[House, str], None]]] = {
    function.__name__.removeprefix("by_"): function
    for function in (
        by_literals,
        by_rest,
        by_parameters,
        by_supertable,
        by_creation,
        by_alteration,
        by_csv,
        by_ndjson,
        by_objects,
        by_parquet,
        by_arrow,
        by_pandas,
        by_dictionaries,
        by_flight_parameters,
        by_flight_ingestion,
    )
}


@pytest.fixture(scope="module")
def tagged(house: House) -> Iterator[House]:
    """Write every object by one way; other tests write by the other ways."""
    for sql in ("create database if not exists d", "use d", "create stable j (ts timestamp, v int) tags (about json)"):
        house.connection.execute(sql)
    by_literals(house, "literals")
    yield house
    house.connection.execute("drop stable j")


@pytest.mark.parametrize("way", [way for way in WAYS if way != "literals"])
def test_what_goes_into_a_tag_comes_out(tagged: House, way: str) -> None:
    WAYS[way](tagged, way)
    found = tagged.rows(f"select tbname, v, about, about->'n' from j where tbname like '{way}\\_%' order by ts")
    members = [None if value is None or "n" not in value else value["n"] for value in OBJECTS]
    assert [(name, number) for name, number, *_ in found] == list(zip(names(way), range(len(OBJECTS)), strict=True))
    assert [None if text is None else json.loads(text) for *_, text, _ in found] == list(OBJECTS)
    assert [None if text is None else json.loads(text) for *_, text in found] == members


CONDITIONS: Final[dict[str, list[int]]] = {
    "about is null": [4],
    "about is not null": [0, 1, 2, 3],
    "about->'s' is null": [0, 4],
    "about->'z' is null": [0, 1, 2, 3, 4],
    "about->'s' = 'it\\'s \"a\\\\b\"'": [1],
    "about->'s' = ''": [2],
    "about->'s' != ''": [1, 3],
    "about->'s' in ('7', '')": [2, 3],
    "about->'s' not in ('7', '')": [1],
    "about->'s' between '' and '7'": [2, 3],
    "about->'s' like 'it%'": [1],
    "about->'s' not like 'it%'": [2, 3],
    "about->'s' match '^[0-9]$'": [3],
    "about->'s' nmatch '^[0-9]$'": [1, 2],
    "about->'n' = 7": [1],
    "about->'n' > 0": [1, 3],
    "about->'n' < 7": [2, 3],
    "about->'n' = -9007199254740993": [2],
    "about->'n' between 0 and 7": [1, 3],
    "about->'n' in (7, 0.1)": [1, 3],
    "about->'d' = 1e300": [2],
    "about->'b' = true": [1],
    "about->'b' = false": [2],
    "about->'b' = 'true'": [1],
    "about->'é' = '𝄞'": [1],
    "about->'a.b' = 1": [1],
    "about->'x\\'y' = 1": [3],
    "about contains 's'": [1, 2, 3],
    "about contains 'z'": [1],
    "about contains 'a.b'": [1],
    "about contains 'é'": [1],
    "not about contains 's'": [0, 4],
    "about->'o' contains 'k'": [1],
    "about->'o'->'k' = '[1,null,\"x\"]'": [1],
    f"about = {quoted(TEXTS[2])}": [2],
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_find_members(tagged: House, condition: str) -> None:
    sql = f"select v from j where tbname like 'literals\\_%' and ({condition}) order by ts"
    assert [v for (v,) in tagged.rows(sql)] == CONDITIONS[condition]
    verification = tagged.connection.verify(sql.replace(" order by ts", ""))
    assert verification.equal, verification.difference


def test_rows_are_grouped_sorted_and_counted_by_members(tagged: House) -> None:
    own = "from j where tbname like 'literals\\_%'"
    for clause in ("partition by", "group by"):
        by_text = tagged.rows(f"select about->'s', count(*) {own} {clause} about->'s'")
        assert sorted(by_text, key=str) == [("", 1), ("7", 1), ('it\'s "a\\b"', 1), (None, 2)]
        assert len(tagged.rows(f"select about, count(*) {own} {clause} about")) == len(OBJECTS)
    assert [v for (v,) in tagged.rows(f"select v {own} order by about->'s', ts")] == [0, 4, 2, 3, 1]
    assert tagged.rows(f"select count(about), last(about->'n'), first(about->'b') {own}") == [(4, "0.1", "true")]
    assert tagged.rows(f"select distinct about->'b' {own} order by 1") == [(None,), ("false",), ("true",)]
    assert tagged.rows(f"select cast(about->'n' as double), length(about->'s'), upper(about->'s') {own} and v = 1") == [
        (7.0, 10, 'IT\'S "A\\B"')
    ]


def test_streams_read_members(tagged: House) -> None:
    tagged.connection.execute(
        "create stream by_member trigger at_once fill_history 1 into by_member_o tags (s varchar(20)) as "
        "select _wstart, count(*) n, last(about->'n') m from j where about->'n' is not null partition by about->'s' s interval(1a)"
    )
    tagged.connection.settle()
    assert tagged.connection.verify(stream="d.by_member").equal
    found = tagged.rows("select distinct s, m from by_member_o order by s")
    assert found == [("", "-9007199254740993"), ("7", "0.1"), ('it\'s "a\\b"', "7")]
    tagged.connection.execute("drop stream by_member")


SELECT: Final = "select tbname, ts, v, about from d.j where tbname like 'literals\\_%' order by ts"


def test_clients_have_the_objects(tagged: House) -> None:
    texts = list(TEXTS)
    assert tagged.connection.execute(SELECT).fetch_arrow_table()["about"].to_pylist() == texts
    assert tagged.connection.execute(SELECT).fetch_polars()["about"].to_list() == texts
    with tagged.flight() as cursor:
        cursor.execute(SELECT)
        assert [row[3] for row in cursor.fetchall()] == texts
    answer = tagged.rest(SELECT)
    assert answer["column_meta"][3][:2] == ["about", "JSON"]
    assert [
        None if row[3] is None else json.loads(row[3]) if isinstance(row[3], str) else row[3] for row in answer["data"]
    ] == list(OBJECTS)


@pytest.mark.parametrize("output", [Format.CSV, Format.JSON])
def test_printed_tags_can_be_loaded_again(tagged: House, output: Format, capsys: pytest.CaptureFixture[str]) -> None:
    run_script(tagged.connection, SELECT, output, None, separator=",", yes=True)
    path = tagged.folder / f"tags.{'csv' if output is Format.CSV else 'ndjson'}"
    path.write_text(capsys.readouterr().out)
    tagged.connection.execute(f"create stable again_{output.value} (ts timestamp, v int) tags (about json)")
    tagged.connection.execute("use d")
    text = path.read_text().replace("literals_", f"{output.value}_again_")
    path.write_text(text)
    tagged.connection.load(path, f"d.again_{output.value}")
    assert [about for (about,) in tagged.rows(f"select about from again_{output.value} order by ts")] == list(TEXTS)


@pytest.mark.parametrize("text", ["[1]", "1", '"a"', "{", "{'a': 1}", '{"a": 1} x'])
def test_what_is_no_object_is_refused(tagged: House, text: str) -> None:
    for sql in (
        f"create table bad using j tags ({quoted(text)})",
        f"alter table literals_0 set tag about = {quoted(text)}",
        f"insert into bad using j tags ({quoted(text)}) values (1, 1)",
    ):
        with pytest.raises(headrace.Error, match="JSON"):
            tagged.connection.execute(sql)
    assert tagged.rows("select about from j where tbname = 'literals_0'") == [("{}",)]
