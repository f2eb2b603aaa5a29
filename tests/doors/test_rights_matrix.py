"""Every statement and call through every door, for a user without the right: nothing happens, and nothing leaks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

import headrace
from headrace.doors.flight.metadata import METADATA
from headrace.doors.iotdb.calls import METHODS
from headrace.model.statements import Explain, Show, Statement
from headrace.model.tree_statements import TreeShow
from headrace.service.dispatch import TOPICS, WORD_START
from headrace.service.system_tables import RELATIONS
from headrace.service.topics.shows import READERS
from headrace.service.topics.trees.shows import SHOWS
from headrace.sql import parse
from tests.doors.matrix import DOORS, FROM_PAGE, PASSWORD, USER, Home, ask_page, call, flight_metadata, opened_home
from tests.doors.rpc_cases import CALLS, SESSION_ONLY
from tests.support.statement_cases import STATEMENTS, TREE_STATEMENTS

SYSTEM_TABLES: Final = tuple(f"select * from information_schema.{name}" for name in RELATIONS)
MORE: Final = (
    *SYSTEM_TABLES,
    *("select * from information_schema.ins_nothing", "show users", "show user privileges", "show stables", "show vtables"),
    *("show normal vtables", "show child vtables", "show tags from dev1", "show tags from readings", "show jobs"),
    *("show files of readings", "show files of seen"),
    *("show quarantine", "show functions", "show snodes", "show create vtable v", "show create table plain"),
    *("show tables from other", "drop quarantine of stream s", "create user eve0 pass 'secret12'", "drop user otto"),
    *("alter user otto pass 'secret34'", "grant read on d.* to vera", "revoke read on d.seen from vera"),
    *("grant use_secret on 'secret:PLANT' to vera", "revoke use_secret on 'airflow:lake' from vera"),
    *("grant use_external on *.* to vera", "revoke use_udf on *.* from vera"),
    *("drop database other", "use other", "drop database nowhere", "insert into seen values (1, 1)"),
    *("create stream mine into mine1 as select _wstart, count(*) from seen interval(1m)", "select a from seen where b > 1"),
    *("select b from readings", "select a from readings where nothing > 1", "insert into dev1 values (now, 'x', 1.5)"),
    *("insert into dev1 (ts, nothing) values (now, 1)", "create table readings (ts timestamp)", "create database other"),
    "create table if not exists plain (ts timestamp, a int)",
    *("drop table if exists plain", "drop stream if exists s", "create database if not exists other"),
    "create stream if not exists s into out1 as select _wstart, count(*) from seen interval(1m)",
    "alter table seen add column c int",
    "insert into dev1 (ts, a) file '/nowhere/rows.csv'",
    "create table if not exists using readings (tbname, place) file '/nowhere/tags.csv'",
)
MORE_OF_TREE: Final = (
    *("show databases", "show timeseries", "show latest timeseries", "show version", "show current_timestamp", "show functions"),
    *("show child paths root", "show child nodes root.plant", "show nodes in device template t1", "show cqs", "show triggers"),
    *("show paths set device template t1", "show paths using device template t1", "show pipe copies", "show all ttl"),
    *("show ttl on root.plant.line1.**", "count databases", "count devices", "count timeseries", "count nodes root.** level=1"),
    *("show audit log", "create stateless trigger t after insert on root.plant.** as 'first.First'", "drop trigger t"),
    *("start trigger t", "stop trigger t", "select * from root.**", "select last * from root.**"),
    *("show timeseries where timeseries contains 'line'", "show timeseries root.plant.** where TAGS(unit)='rpm'"),
    *("select nothing from root.plant.line1", "insert into root.plant.line1(time, s1) values (1, 'x')"),
    *("create timeseries root.plant.line1.s1 with datatype=TEXT", "select s1 from root.plant.line1 align by device"),
    *("select count(*) from root.** group by level = 1", "select s1 + 1 from root.plant.line1 where s1 > 0"),
    *("explain analyze select * from root.**", "select part(label, 'regex'='a', 'index'='1') from root.plant.line1"),
    *("create database root.plant", "create database root.plant.line1", "insert into root.seen.a(time, s1) values (2, 2)"),
    *("delete from root.**", "delete timeseries root.**", "delete database root.**", "select a from root.d.plain"),
    *("select * from root.d.**", "show devices root.d.**", "select s1 into root.seen.a(s2) from root.plant.line1"),
    "select s1 into root.seen.b(s2) from root.seen.a",
)
CASES: Final = {"tdengine": (*STATEMENTS, *MORE), "iotdb": (*TREE_STATEMENTS, *MORE_OF_TREE)}
OWN: Final = ("alter user vera set password 'secret34'",)
"""What vera may do."""
ON_SPARK: Final = (
    *("select 1", "show devices where time > 1", "show latest timeseries", "select count(*) from root.** group by level = 1"),
    "explain analyze select * from root.**",
)
"""Statements that would start Spark. They read series that other statements resolve in the same way."""
NUMBERED: Final = re.compile("(show|explain) (queries|connections|analyze)")
"""Statements whose answers have numbers of connections and processes, or durations."""


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Home]]:
    """Provide the full home, and the one that has only what vera may read."""
    folder = tmp_path_factory.mktemp("matrix")
    with opened_home(folder / "full", full=True) as full, opened_home(folder / "less", full=False) as less:
        yield full, less


def statements_of(dialect: str, door: str) -> list[str]:
    """Return the statements for a door, and for the first one those that are particular to no door."""
    cases = [sql for sql in CASES[dialect] if sql not in (*OWN, *ON_SPARK)]
    if door != "embedded":
        return cases
    return [*cases, *(f"explain {sql}" for sql in cases if not sql.startswith("explain"))]


def parsed(dialect: str) -> list[Statement]:
    statements = [parse(sql, dialect) for sql in CASES[dialect]]
    return [*statements, *(statement.statement for statement in statements if isinstance(statement, Explain))]


def test_every_statement_has_a_case() -> None:
    kinds = {WORD_START.sub("_", type(one).__name__).lower() for dialect in CASES for one in parsed(dialect)}
    assert {name for names in TOPICS.values() for name in names.split()} - kinds == set()
    shown = {one.what for one in parsed("tdengine") if isinstance(one, Show)}
    assert {*READERS, "queries", "connections"} - shown == set()
    assert set(SHOWS) - {one.what for one in parsed("iotdb") if isinstance(one, TreeShow)} == set()


def comparable(sql: str, answer: object) -> str:
    text = repr(answer)
    return re.sub(r"(\\x\w\w|\d)+(\.\d+)?", "0", text) if NUMBERED.match(sql) else text


@pytest.mark.parametrize(("door", "dialect"), [(door, dialect) for door, (_, dialects) in DOORS.items() for dialect in dialects])
def test_no_statement_does_or_reveals_anything(homes: tuple[Home, Home], door: str, dialect: str) -> None:
    full, _ = homes
    ask, before = DOORS[door][0], full.state()
    differing = {}
    for sql in statements_of(dialect, door):
        answers = [comparable(sql, ask(home, dialect, sql)) for home in homes]
        if answers[0] != answers[1]:
            differing[sql] = answers
    assert differing == {}
    after = full.state()
    assert {name: rows for name, rows in after.items() if rows != before[name]} == {}


def test_no_call_of_the_rpc_does_or_reveals_anything(homes: tuple[Home, Home]) -> None:
    full, _ = homes
    assert set(METHODS) == set(CALLS) | SESSION_ONLY
    before = full.state()
    for method, cases in CALLS.items():
        for values in cases:
            answers = [call(home, method, **values) for home in homes]
            assert answers[0] == answers[1], (method, values)
            assert b"lacks its" not in answers[0], (method, answers[0])
    assert full.state() == before


def test_no_metadata_of_flight_reveals_anything(homes: tuple[Home, Home]) -> None:
    for command in METADATA:
        for dialect in ("tdengine", "iotdb"):
            tables = [flight_metadata(home, dialect, command) for home in homes]
            assert tables[0] == tables[1], command
    answers = [flight_metadata(home, "tdengine", "CommandGetTables") for home in homes]
    assert answers[0]["table_name"].to_pylist() == ["seen", "root.seen.a"]


INTO: Final = ("readings", "plain", "seen", "nowhere", "other.t", "root.plant", "root.plant.line1", "root.seen.a", "root.n.a")
INGESTED: Final = ([{"ts": "x", "a": 1}], [{"time": 1, "s1": 1, "device": "root.plant.line1"}], [{"ts": 1, "nothing": "x"}])


@pytest.mark.parametrize("door", ["embedded", "remote"])
@pytest.mark.parametrize("dialect", ["tdengine", "iotdb"])
def test_no_rows_are_ingested(homes: tuple[Home, Home], dialect: str, door: str) -> None:
    full, _ = homes
    before = full.state()
    for table, rows in itertools.product(INTO, INGESTED):
        answers = [appended(getattr(home, door)[dialect], rows, table) for home in homes]
        assert answers[0] == answers[1], table
        assert answers[0][0] == "PERMISSION_DENIED", table
    assert full.state() == before


def appended(connection: headrace.Connection, rows: list[dict[str, Any]], table: str) -> tuple[str, str]:
    with pytest.raises(headrace.Error) as raised:
        connection.append(rows, table)
    return raised.value.code, str(raised.value)


LINES: Final = ("seen v=1 1", "readings,place=north a=1 1", "readings,place=north a=true 1", "fresh,x=y v=1 1", "plain a=1 1")
WRITES: Final = {
    "/influxdb/v1/write": [("/influxdb/v1/write?db={}&precision=ms", line) for line in LINES],
    "/influxdb/v1/api/v2/write": [("/influxdb/v1/api/v2/write?bucket={}&precision=ms", line) for line in LINES],
    "/opentsdb/v1/put/json/{database}": [
        ("/opentsdb/v1/put/json/{}", f'[{{"metric": "{table}", "timestamp": 1700000000, "value": 1, "tags": {{"a": "b"}}}}]')
        for table in ("seen", "readings", "fresh")
    ],
    "/opentsdb/v1/put/telnet/{database}": [
        ("/opentsdb/v1/put/telnet/{}", f"{table} 1700000000 1 a=b") for table in ("seen", "readings", "fresh")
    ],
}


def test_no_line_is_written(homes: tuple[Home, Home]) -> None:
    full, less = homes
    paths = {route.path for route in full.rest.app.routes if "POST" in (route.methods or ())}  # type: ignore[attr-defined]
    assert paths == {*WRITES, "/rest/sql", "/rest/sql/{database}"}
    before = full.state()
    for path, body in (case for cases in WRITES.values() for case in cases):
        for database in ("d", "other", "nowhere"):
            replies = [home.rest.post(path.format(database), content=body, auth=(USER, PASSWORD)) for home in (full, less)]
            assert replies[0].text == replies[1].text, (path, body, database)
            assert replies[0].status_code == replies[1].status_code == 403, (path, body, database, replies[0].text)
    assert full.state() == before


def test_the_page_shows_and_does_nothing(homes: tuple[Home, Home]) -> None:
    full, _ = homes
    ids = [record.definition.id for record in full.root.session.context.catalog.jobs.all()]
    before = full.state()
    requests: dict[str, list[tuple[str, str]]] = {
        "/jobs": [("GET", "/api/jobs")],
        "/graph": [("GET", "/api/graph")],
        "/jobs/{job_id}": [("GET", f"/api/jobs/{id}") for id in ids],
        "/jobs/{job_id}/flow": [("GET", f"/api/jobs/{id}/flow") for id in ids],
        "/jobs/{job_id}/rights": [("GET", f"/api/jobs/{id}/rights") for id in ids],
        "/jobs/{job_id}/windows": [("GET", f"/api/jobs/{id}/windows") for id in ids],
        "/jobs/{job_id}/metrics": [("GET", f"/api/jobs/{id}/metrics") for id in ids],
        "/jobs/{job_id}/lineage": [("GET", f"/api/jobs/{id}/lineage") for id in ids],
        "/jobs/{job_id}/plan": [("GET", f"/api/jobs/{id}/plan") for id in ids],
        "/jobs/{job_id}/versions": [("GET", f"/api/jobs/{id}/versions") for id in ids],
        "/worksheet": [("GET", "/api/worksheet")],
        "/worksheet/names": [("GET", f"/api/worksheet/names?{query}") for query in NAMES],
        **{f"/worksheet/{name}": [] for name in ("run", "statements", "complete", "cancel")},  # see the tests below, and the doors
        "/jobs/{job_id}/{action}": [("POST", f"/api/jobs/{id}/{action}") for id in ids for action in ("pause", "drop", "nothing")],
    }
    assert {route.path.removeprefix("/api") for route in full.page.app.routes if route.path.startswith("/api")} == set(requests)  # type: ignore[attr-defined]
    for method, path in (request for group in requests.values() for request in group):
        body = {"json": {"sql": "PAUSE STREAM d.s"}} if method == "POST" else {}
        replies = [home.page.request(method, path, headers=FROM_PAGE, **body) for home in homes]
        assert replies[0].text == replies[1].text, path
    assert full.state() == before


NAMES: Final = (
    *("dialect=tdengine", "path=d", "path=other", "path=nowhere", "path=d&path=seen", "path=d&path=readings", "path=other&path=t"),
    *("path=d&path=dev1", "path=d&path=nothing", "dialect=iotdb"),
    *(f"dialect=iotdb&path=root.{path}" for path in ("seen", "seen&path=a", "plant", "plant&path=line1", "nowhere")),
)
"""Databases, tables and trees below which names are listed."""
COMPLETED: Final = {
    "tdengine": (
        *(
            "",
            "use ",
            "use ot",
            "select * from ",
            "select * from d",
            "select * from d.",
            "select * from other.",
            "select * from de",
        ),
        *(
            "select  from readings",
            "select readings. from readings",
            "select x. from other.t x",
            "select  from dev1",
            "select  from seen",
        ),
        *("describe ", "pause stream ", "pause stream d.", "insert into ", "drop table ", "select f", "select a from plain where "),
        *("show ", "show create table ", "create stream s1 into ", "select 'a", "wrong wrong ", "select  from nowhere.nothing"),
    ),
    "iotdb": (
        *("select ", "select  from root.plant.line1", "select  from root.seen.a", "select * from ", "select * from root."),
        *(
            "select * from root.plant.",
            "select * from root.plant.line1.",
            "select * from root.seen.",
            "select * from root.nowhere.",
        ),
        *("select * from root.d.", "show devices root.", "drop trigger ", "select `a", "insert into root.plant."),
    ),
}
"""Beginnings of statements; what is to be completed is at the first two spaces, else at the end."""


@pytest.mark.parametrize("dialect", COMPLETED)
def test_the_worksheet_completes_nothing_that_is_hidden(homes: tuple[Home, Home], dialect: str) -> None:
    full, _ = homes
    before, shown = full.state(), ""
    for sql in COMPLETED[dialect]:
        cursor = sql.index("  ") + 1 if "  " in sql else sql.index(". ") + 1 if ". " in sql else len(sql)
        body = {"sql": sql, "dialect": dialect, "database": "d", "cursor": cursor}
        replies = [home.page.post("/api/worksheet/complete", json=body, headers=FROM_PAGE) for home in homes]
        assert replies[0].status_code == 200, replies[0].text
        assert replies[0].text == replies[1].text, sql
        shown += replies[0].text
    assert "seen" in shown
    assert full.state() == before


def test_the_worksheet_reads_statements_alike_and_ends_no_query_of_others(homes: tuple[Home, Home]) -> None:
    assert ask_page(homes[0], "tdengine", "show tables")[0] == 200
    requests: dict[str, dict[str, str]] = {"statements": {"sql": "use other; select a from readings"}, "cancel": {"id": "1:1"}}
    for route, body in requests.items():
        replies = [home.page.post(f"/api/worksheet/{route}", json=body, headers=FROM_PAGE) for home in homes]
        assert replies[0].status_code == 200, route
        assert replies[0].text == replies[1].text, route


def test_metrics_are_for_those_with_a_token(homes: tuple[Home, Home]) -> None:
    for home in homes:
        assert home.http.get("/metrics", auth=(USER, PASSWORD)).status_code == 401
        assert home.http.get("/health").json() == {"status": "ok"}
