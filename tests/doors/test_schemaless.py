"""Schemaless writing: what is created, and what becomes of requests that cannot be written."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from types import NoneType

import pytest

from headrace.doors.tdengine.schemaless.writes import SchemalessWriter, Target
from headrace.errors import OperationalError, TransientError, TypeMismatchError
from headrace.model.access import Principal
from headrace.service.session import Session
from tests.doors.conftest import Served


@pytest.fixture
def database(served: Served, request: pytest.FixtureRequest) -> str:
    """Create a database of the test's own."""
    name = "s" + hashlib.md5(request.node.name.encode(), usedforsecurity=False).hexdigest()[:12]
    assert served.sql(f"create database {name}")["code"] == 0
    return name


def write(served: Served, database: str, *lines: str, precision: str = "ms") -> tuple[int, str]:
    """Write lines; return the status and the message."""
    answer = served.http.post("/influxdb/v1/write", params={"db": database, "precision": precision}, content="\n".join(lines))
    return answer.status_code, answer.text


def columns(served: Served, database: str, table: str) -> list[list[str]]:
    return [row[:2] + row[2:] for row in served.sql(f"describe {table}", database)["data"]]


def scan(served: Served, database: str, table: str) -> list[dict[str, object]]:
    """Return the stored rows in the order of time."""
    catalog = served.context.catalog
    rows = served.context.tables.scan(catalog.tables.get(database, table)).to_pylist()
    return sorted(rows, key=lambda row: (row["_ts"], str(row)))


def test_a_line_creates_its_supertable_and_its_subtable(served: Served, database: str) -> None:
    line = 'st,t3=t3,t1=3,t2=4 c1=3i64,c3="passit",c2=false,c4=4f64,c5=7u8,c6=1.5f32,c7=L"äß",c8=B"\\x98f4" 1626006833639'
    assert write(served, database, line) == (204, "")

    assert columns(served, database, "st") == [
        ["_ts", "TIMESTAMP", None, ""],
        ["c1", "BIGINT", None, ""],
        ["c3", "VARCHAR", "6", ""],
        ["c2", "BOOL", None, ""],
        ["c4", "DOUBLE", None, ""],
        ["c5", "TINYINT UNSIGNED", None, ""],
        ["c6", "FLOAT", None, ""],
        ["c7", "NCHAR", "2", ""],
        ["c8", "VARBINARY", "2", ""],
        ["t1", "NCHAR", "1", "TAG"],
        ["t2", "NCHAR", "1", "TAG"],
        ["t3", "NCHAR", "2", "TAG"],
    ]
    name = "t_" + hashlib.md5(b"st,t1=3,t2=4,t3=t3", usedforsecurity=False).hexdigest()
    assert served.sql(
        "select table_name from information_schema.ins_tables where stable_name = 'st' and db_name = '" + database + "'"
    )["data"] == [[name]]
    (row,) = scan(served, database, "st")
    values = {key: row[key] for key in ("c1", "c3", "c2", "c4", "c5", "c6", "c7", "c8", "tbname")}
    assert values == {
        "c1": 3,
        "c3": "passit",
        "c2": False,
        "c4": 4.0,
        "c5": 7,
        "c6": 1.5,
        "c7": "äß",
        "c8": b"\x98\xf4",
        "tbname": name,
    }


def test_new_fields_and_tags_are_added_and_texts_widened(served: Served, database: str) -> None:
    assert write(served, database, 'm,a=x c="pass" 1', 'm,a=xyz,b=y d=2i,c="passit" 2', "m,a=x d=4i 3")[0] == 204
    assert write(served, database, 'm,a=äßxyz d=1i,e=t,c="a longer text" 4')[0] == 204

    assert columns(served, database, "m") == [
        ["_ts", "TIMESTAMP", None, ""],
        ["c", "VARCHAR", "13", ""],
        ["d", "BIGINT", None, ""],
        ["e", "BOOL", None, ""],
        ["a", "NCHAR", "5", "TAG"],
        ["b", "NCHAR", "1", "TAG"],
    ]
    assert [(row["c"], row["d"], row["e"]) for row in scan(served, database, "m")] == [
        ("pass", None, None),
        ("passit", 2, None),
        (None, 4, None),
        ("a longer text", 1, True),
    ]


def test_names_with_dots_and_escapes_and_rows_without_tags(served: Served, database: str) -> None:
    assert write(served, database, r'cpu.load\ avg,host=a\,b\=c v="say \"hi\", \\ok" 1', "# a comment", "", "bare v=1 2")[0] == 204

    assert [row["v"] for row in scan(served, database, "cpu_load avg")] == [r'say "hi", \ok']
    tags = served.context.tables.tags.read(served.context.catalog.tables.get(database, "cpu_load avg")).to_pylist()
    assert [tag["host"] for tag in tags] == ["a,b=c"]
    assert columns(served, database, "bare")[2] == ["_tag_null", "NCHAR", "1", "TAG"]


@pytest.mark.parametrize(
    ("unit", "text", "ms"),
    [("ns", "1700000000000000000", 0), ("u", "1700000000000999", 0), ("s", "1700000001", 1000), ("h", "472222", -800000)],
)
def test_times_are_converted_to_the_precision_of_the_database(served: Served, database: str, unit: str, text: str, ms: int) -> None:
    assert write(served, database, f"m v=1 {text}", precision=unit)[0] == 204
    (row,) = scan(served, database, "m")
    assert round(row["_ts"].timestamp() * 1000) == 1_700_000_000_000 + ms  # type: ignore[attr-defined]


WRONG_LINES = [
    "m",
    "m v=1 x",
    "m v=1 2 3",
    "m v",
    "m v= 1",
    "m =1 1",
    ",a=b v=1 1",
    "m,a v=1 1",
    "m,a= v=1 1",
    "m,,a=b v=1 1",
    "m,a=b,a=c v=1 1",
    "m v=abc 1",
    "m v=nan 1",
    "m v=1e999 1",
    'm v="open 1',
    "m v=300i8 1",
    "m v=-1u8 1",
    "m v=1.5i 1",
    "m v=99999999999999999999i 1",
    "m v=1 99999999999999999999",
    "m v=1 9223372036854775807",
    "m v=1i 1",
    "m tbname=1 1",
    "m,v=x v=1 1",
    "../../etc/passwd v=1 1",
    "m\0x v=1 1",
    f"{'n' * 300} v=1 1",
    f"m,a={'x' * 20_000} v=1 1",
    "m _ts=1 1",
    "m v=1,V=2 1",
    'm v=1 1\nm v="text" 2',
]


def test_what_is_wrong_fails_its_own_request_and_leaves_nothing(served: Served, database: str) -> None:
    assert write(served, database, "m,a=b v=1 1")[0] == 204
    before = columns(served, database, "m")
    with ThreadPoolExecutor(20) as pool:
        wrong = {line: pool.submit(write, served, database, line) for line in WRONG_LINES}
        good = [pool.submit(write, served, database, f"m,a=b v={number} {number}") for number in range(10, 30)]
        for line, answer in wrong.items():
            status, message = answer.result()
            assert (status, bool(json.loads(message or "{}").get("error"))) == (400, True), (line, message)
        assert {answer.result()[0] for answer in good} == {204}
    assert columns(served, database, "m") == before
    assert [row["v"] for row in scan(served, database, "m")] == [1.0, *range(10, 30)]
    assert [table.name for table in served.context.catalog.tables.all(database)] == ["m"]


def test_concurrent_requests_share_commits_and_each_row_is_there(served: Served, database: str) -> None:
    with ThreadPoolExecutor(20) as pool:
        bodies = [[f"m,g=g{number % 7} a={row},b={number}i {number * 100 + row}" for row in range(20)] for number in range(60)]
        assert {status for status, _ in pool.map(lambda body: write(served, database, *body), bodies)} == {204}
    assert len(scan(served, database, "m")) == 1200
    assert served.context.tables.version(served.context.catalog.tables.get(database, "m")) < 60


@pytest.mark.parametrize("wrong", [False, True])
def test_a_locked_table_is_tried_once_and_fails_only_requests_with_rows_of_it(
    served: Served, database: str, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    """Also if a request of the batch is wrong, so that each is written alone."""
    for table in ("a", "b"):
        assert write(served, database, f"{table},site=x v=1 1")[0] == 204
    writer, attempts = served.context.tables.writer, list[str]()
    locked = writer.lock_name(served.context.catalog.tables.get(database, "a"))
    hold = writer._lock

    def lock(name: str) -> AbstractContextManager[None]:
        if name != locked:
            return hold(name)
        attempts.append(name)
        raise TransientError("it has been locked for 60 s", hint="try again when it is done")

    lines = ["a,site=x v=2 2", "b,site=x v=3 3", "b,site=x v=4 4\na,site=x v=4 4", "a,site=x v=5 5"]
    lines = ["b,v=x v=6 6", *lines] if wrong else lines
    schemaless = SchemalessWriter(lambda user, name: served.gate.create_session(user, name, "tdengine"))
    with writer.merging_by_spark(locked), monkeypatch.context() as outage:
        outage.setattr(writer, "_lock", lock)
        outcomes = schemaless.write(Target(Principal("root"), database, unit="ms"), [line.encode() for line in lines])
    expected = [TransientError, NoneType, TransientError, TransientError]
    assert [type(outcome) for outcome in outcomes] == ([TypeMismatchError] if wrong else []) + expected
    assert len(attempts) == 1
    assert [row["v"] for row in scan(served, database, "a")] == [1.0]
    assert [row["v"] for row in scan(served, database, "b")] == [1.0, 3.0, 4.0]


def test_requests_fail_at_once_while_the_catalog_cannot_be_read() -> None:
    opened: list[str] = []

    def open_session(principal: Principal, _: str) -> Session:
        opened.append(principal.name)
        raise OperationalError("the catalog does not answer", hint="try again")

    outcomes = SchemalessWriter(open_session).write(Target(Principal("root"), "plant"), [b"m v=1", b"m v=2", b"m v=3"])
    assert [type(outcome) for outcome in outcomes] == [OperationalError] * 3
    assert len(opened) == 1


def test_a_subtable_that_was_dropped_is_created_again(served: Served, database: str) -> None:
    names = f"select table_name from information_schema.ins_tables where stable_name = 'again' and db_name = '{database}'"
    for time in (1, 2):
        assert write(served, database, f"again,g=a v=1i32 {time}") == (204, "")
    ((name,),) = served.sql(names)["data"]
    assert served.sql(f"drop table {name}", database)["code"] == 0
    assert write(served, database, "again,g=a v=1i32 3") == (204, "")
    assert served.sql(names)["data"] == [[name]]
    assert served.sql("select g, count(*) from again partition by g", database)["data"] == [["a", 1]]


def test_points_of_opentsdb(served: Served, database: str) -> None:
    points = [
        {"metric": "sys.cpu", "timestamp": 1700000000, "value": 18.5, "tags": {"host": "web01", "dc": 1}},
        {"metric": "sys.cpu", "timestamp": 1700000001000, "value": 19, "tags": {"host": "web02", "dc": 2}},
    ]
    assert served.http.post(f"/opentsdb/v1/put/json/{database}", json=points).status_code == 204
    assert served.http.post(f"/opentsdb/v1/put/json/{database}", json=points[0] | {"timestamp": 1700000002}).status_code == 204
    lines = "put sys.mem 1700000000 7.5 host=web01 dc=1\nsys.mem 1700000001 8 host=web01 dc=1\n"
    assert served.http.post(f"/opentsdb/v1/put/telnet/{database}", content=lines).status_code == 204

    assert [row["_value"] for row in scan(served, database, "sys_cpu")] == [18.5, 19.0, 18.5]
    assert [row[:2] for row in columns(served, database, "sys_cpu")] == [
        ["_ts", "TIMESTAMP"],
        ["_value", "DOUBLE"],
        ["dc", "DOUBLE"],
        ["host", "NCHAR"],
    ]
    assert [row["_value"] for row in scan(served, database, "sys_mem")] == [7.5, 8.0]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("json", "{"),
        ("json", "[" * 100_000),
        ("json", "7"),
        ("json", "[1]"),
        ("json", '{"metric": "m", "value": 1}'),
        ("json", '{"metric": 1, "timestamp": 1700000000, "value": 1}'),
        ("json", '{"metric": "m", "timestamp": 17, "value": 1}'),
        ("json", '{"metric": "m", "timestamp": 1700000000, "value": [1], "tags": {"a": "b"}}'),
        ("json", '{"metric": "m", "timestamp": 1700000000, "value": 1, "tags": {"a": {}}}'),
        ("telnet", "m 1 2"),
        ("telnet", "m 1700000000 2 a"),
    ],
)
def test_points_that_cannot_be_read_are_refused(served: Served, database: str, kind: str, body: str) -> None:
    answer = served.http.post(f"/opentsdb/v1/put/{kind}/{database}", content=body)
    assert answer.status_code == 400, answer.text
    assert served.context.catalog.tables.all(database) == []


def test_requests_that_cannot_be_served_are_refused(served: Served, database: str) -> None:
    assert write(served, "nowhere", "m v=1 1")[0] == 404
    assert write(served, "", "m v=1 1")[0] == 400
    assert write(served, database, "m v=1 1", precision="weeks")[0] == 400
    assert served.http.post(f"/influxdb/v1/write?db={database}", content=b"\xff").status_code == 400
    wrong = served.http.post(f"/influxdb/v1/write?db={database}&u=root&p=wrong", content="m v=1 1", auth=("root", "wrong"))
    assert wrong.status_code == 401
    session = Session(served.context, database=database)
    session.execute("create table plain (ts timestamp, v double)")
    assert write(served, database, "plain v=1 1")[0] == 400
    assert write(served, database, "") == (204, "")
