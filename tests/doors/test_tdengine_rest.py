"""TDengine's REST interface: answers, errors, authentication, hostile requests."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.doors.conftest import PASSWORD, Served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROW_META = [
    ["ts", "TIMESTAMP", 8],
    ["a", "INT", 4],
    ["b", "DOUBLE", 8],
    ["c", "VARCHAR", 20],
    ["d", "BIGINT UNSIGNED", 8],
    ["e", "BOOL", 1],
    ["f", "VARBINARY", 10],
]


@pytest.fixture(scope="module")
def rows(served: Served, spark: SparkSession) -> Served:  # noqa: ARG001  (the session that queries find)
    """Serve a table `t` of a database `rest`."""
    assert served.sql("create database rest")["code"] == 0
    columns = "a int, b double, c varchar(20), d bigint unsigned, e bool, f varbinary(10)"
    assert served.sql(f"create table t (ts timestamp, {columns})", "rest")["code"] == 0
    inserted = served.sql(
        "insert into t values ('2026-01-01 00:00:00.5', 1, 0.5, 'a\"b\\\\n', 18446744073709551615, true, '\\x7f82') "
        "('2026-01-01 00:00:01', null, null, null, null, null, null)",
        "rest",
    )
    assert inserted == {"code": 0, "column_meta": [["affected_rows", "INT", 4]], "data": [[2]], "rows": 1}
    return served


def test_a_query_is_answered_as_tdengine_does(rows: Served) -> None:
    assert rows.sql("select * from t order by ts", "rest") == {
        "code": 0,
        "column_meta": ROW_META,
        "data": [
            ["2026-01-01T00:00:00.500Z", 1, 0.5, 'a"b\\n', 18446744073709551615, True, "7f82"],
            ["2026-01-01T00:00:01.000Z", None, None, None, None, None, None],
        ],
        "rows": 2,
    }


def test_a_tag_of_json_is_an_object_and_its_members_are_texts(rows: Served) -> None:
    assert rows.sql("create stable s (ts timestamp, a int) tags (j json)", "rest")["code"] == 0
    tag = '{"k":"7","t":"true","n":1.5,"x":"a"}'
    assert (
        rows.sql(f"insert into s1 using s tags ('{tag}') values (1, 1) s2 using s tags (null) values (2, 1)", "rest")["code"] == 0
    )
    answer = rows.sql("select j, j->'k', j->'t', j->'n', j->'x', j->'missing' from s order by ts", "rest")
    assert answer["data"] == [[{"k": "7", "t": "true", "n": 1.5, "x": "a"}, "7", "true", "1.5", "a", None], [None] * 6]


def test_members_of_json_are_texts_whatever_they_look_like(rows: Served) -> None:
    assert rows.sql("create stable members (ts timestamp, a int) tags (j json)", "rest")["code"] == 0
    tag = r"""{"o": {"k": 1}, "t": "{\\"k\\": 1}", "l": [1]}"""
    inserted = rows.sql(f"insert into members1 using members tags ('{tag}') values (1, 1)", "rest")
    assert inserted["code"] == 0
    answer = rows.sql("select j->'o' o, j->'t' t, j->'l' l, j->'o'->'k' k, j from members", "rest")
    assert answer["column_meta"] == [[name, "JSON", 4095] for name in ("o", "t", "l", "k", "j")]
    texts = ['{"k":1}', '{"k": 1}', "[1]", "1"]
    assert answer["data"] == [[*texts, {"o": {"k": 1}, "t": '{"k": 1}', "l": [1]}]]
    assert rows.sql("select last(j->'o'), last(j->'t'), first(j) from members", "rest")["data"][0][:2] == texts[:2]
    assert rows.sql("select t, count(*) from (select j->'t' t from members) group by t", "rest")["data"] == [[texts[1], 1]]


def test_a_request_says_how_rows_are_written(rows: Served) -> None:
    answer = rows.sql("select ts, a from rest.t order by ts limit 1", tz="Asia/Shanghai", row_with_meta="true")
    assert answer["data"] == [{"ts": "2026-01-01T08:00:00.500+08:00", "a": 1}]
    for zone in ("UTC-8", "GMT-08:00", "+08:00", "+0800", " 8"):
        assert rows.sql("select ts from rest.t order by ts limit 1", tz=zone)["data"] == [["2026-01-01T08:00:00.500+08:00"]]
    assert rows.sql("select ts from rest.t order by ts limit 1", tz="-03:30")["data"] == [["2025-12-31T20:30:00.500-03:30"]]
    for unknown in ("Nowhere", "UTC-99", "+08:0"):
        assert rows.http.post("/rest/sql", params={"tz": unknown}, content="select 1").status_code == 400


def test_a_query_without_rows_and_one_of_the_catalog_are_answered(rows: Served) -> None:
    assert rows.sql("select ts, a from rest.t where a > 100") == {
        "code": 0,
        "column_meta": ROW_META[:2],
        "data": [],
        "rows": 0,
    }
    assert ["rest", "ms"] in rows.sql("show databases")["data"]


@pytest.mark.parametrize(
    ("sql", "code", "text"),
    [
        ("selec 1", 0x2600, "selec"),
        ("select * from missing", 0x2603, "missing"),
        ("create database rest", 0x0381, "rest"),
        ("drop database nowhere", 0x0388, "nowhere"),
        ("insert into t values ('never', 1)", 0x2600, "t"),
    ],
)
def test_errors_have_the_numbers_of_tdengine(rows: Served, sql: str, code: int, text: str) -> None:
    answer = rows.sql(sql, "rest")
    assert (answer["code"], answer.keys()) == (code, {"code", "desc"})
    assert text in answer["desc"]


def test_a_token_stands_for_the_password(rows: Served) -> None:
    token = rows.http.get(f"/rest/login/root/{PASSWORD}").json()["desc"]
    assert PASSWORD not in token
    with httpx.Client(base_url=rows.http.base_url, trust_env=False) as client:
        answers = [
            client.post("/rest/sql", content="show databases", headers={"Authorization": f"Taosd {token}"}),
            client.post(f"/rest/sql?token={token}", content="show databases"),
        ]
    assert [answer.json()["code"] for answer in answers] == [0, 0]


@pytest.mark.parametrize(
    "authorization",
    ["", "Basic cm9vdDp3cm9uZw==", "Basic !", "Basic cm9vdA==", "Taosd x", "Bearer x", "Digest", "Basic " + "A" * 60_000],
)
def test_who_does_not_prove_who_they_are_does_nothing(rows: Served, authorization: str) -> None:
    with httpx.Client(base_url=rows.http.base_url, trust_env=False) as client:
        answer = client.post("/rest/sql/rest", content="drop table t", headers={"Authorization": authorization})
    assert answer.status_code in (400, 401, 431)
    assert rows.sql("select count(*) from t", "rest")["data"] == [[2]]


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/rest/sql", b"", {}, 200),
        ("/rest/sql", b"\xff\xfe", {}, 200),
        ("/rest/sql/..%2F..%2Fetc", b"show tables", {}, 404),
        ("/rest/sql/%2e%2e", b"show tables", {}, 200),
        ("/rest/sql/a'%20or%201=1", b"select * from t", {}, 200),
        ("/rest/sql", b"x" * (17 << 20), {}, 413),
        ("/rest/sql", gzip.compress(b"x" * (17 << 20)), {"Content-Encoding": "gzip"}, 413),
        ("/rest/sql", b"not gzip", {"Content-Encoding": "gzip"}, 200),
        ("/rest/sql", b"insert into t file '/etc/passwd'", {}, 200),
    ],
)
def test_hostile_requests_are_refused(rows: Served, path: str, body: bytes, headers: dict[str, str], status: int) -> None:
    answer = rows.http.post(path, content=body, headers=headers)
    assert answer.status_code == status
    assert status == 404 or answer.json()["code"] != 0
    assert rows.sql("select count(*) from t", "rest")["data"] == [[2]]
