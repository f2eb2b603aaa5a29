"""The routes of the page's worksheet: rights, limits, errors, cancellation and completion."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

import headrace
from headrace.errors import OperationalError
from headrace.runtime.dag_ids import snode_dag_id
from headrace.settings import load
from headrace.sql import parse
from headrace.web.app import create_app
from headrace.web.worksheet_statements import StatementSlots, statements_of
from tests.airflow.web_page import Rights
from tests.doors.worksheet.conftest import HEADERS, SHOWN_ROWS, WorksheetHome
from tests.support.busy_spark import occupied
from tests.support.waiting import MAX_WAIT_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SNODE_DAG = snode_dag_id("default")
ROUTES = {
    "run": {"sql": "show databases"},
    "cancel": {"id": "a"},
    "complete": {"sql": "", "cursor": 0},
    "statements": {"sql": "show databases"},
}


def run(page: TestClient, sql: str, dialect: str = "tdengine", database: str = "", id: str = "") -> Any:
    return page.post("/api/worksheet/run", json={"sql": sql, "dialect": dialect, "database": database, "id": id})


def test_a_statement_runs_on_an_snode_and_its_first_rows_are_shown(free: WorksheetHome) -> None:
    with free.page() as page:
        assert page.get("/api/worksheet").json() == {
            "user": "vera",
            "dialect": "tdengine",
            "is_ready": True,
            "databases": ["other", "power"],
        }
        answer = run(page, "select ts, current from meters order by ts", database="power").json()
        assert (len(answer["rows"]), answer["has_more"]) == (SHOWN_ROWS, True)
        assert answer["columns"][0]["type"].startswith("timestamp")
        answer = run(page, "select count(*) from meters", database="power").json()
        assert (answer["rows"], answer["has_more"]) == ([[300]], False)
        answer = run(page, "select speed from root.plant.line1", "iotdb").json()
        assert [row[1] for row in answer["rows"]] == [1.5]


@pytest.mark.parametrize("route", ROUTES)
def test_another_site_can_do_nothing(free: WorksheetHome, route: str) -> None:
    with free.page() as page:
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"X-Headrace-Action": ""}):
            kept = {name: value for name, value in (HEADERS | headers).items() if value}
            page.headers.clear()
            page.headers.update(kept)
            assert page.post(f"/api/worksheet/{route}", json=ROUTES[route]).status_code == 403


def test_who_is_not_logged_in_can_do_nothing(free: WorksheetHome) -> None:
    with free.page(Rights(logged_in=False)) as page:
        answers = [page.post(f"/api/worksheet/{route}", json=body) for route, body in ROUTES.items()]
        assert {answer.status_code for answer in (*answers, page.get("/api/worksheet"))} == {401}


def test_without_users_the_right_to_edit_the_dag_of_the_snode_decides(free: WorksheetHome) -> None:
    with free.page(Rights(fixed={SNODE_DAG})) as page:
        for route in ("run", "cancel", "complete"):
            answer = page.post(f"/api/worksheet/{route}", json=ROUTES[route])
            assert (answer.status_code, answer.json()["code"]) == (403, "PERMISSION_DENIED")
        assert page.get("/api/worksheet").status_code == 403


def test_with_users_reading_needs_less_than_changing(guarded: WorksheetHome) -> None:
    sql = "select count(*) from power.meters"
    with guarded.page(Rights(fixed={SNODE_DAG})) as page:
        assert run(page, sql).json()["rows"] == [[300]]
        assert "edit the DAG" in run(page, "drop table power.meters").json()["message"]
    with guarded.page(Rights(hidden={SNODE_DAG})) as page:
        assert "read the DAG" in run(page, sql).json()["message"]


def test_a_user_gets_what_they_would_get_at_any_door(guarded: WorksheetHome) -> None:
    settings = guarded.settings
    with (
        guarded.page() as page,
        headrace.connect(settings=settings, user="vera", password="Correct-horse-1") as own,
    ):
        for sql in ("select secret_column from other.hidden", "drop table power.meters", "select nothing from power.meters"):
            with pytest.raises(headrace.Error) as raised:
                own.execute(sql)
            answer = run(page, sql).json()
            assert (answer["code"], answer["message"]) == (raised.value.code, raised.value.message), sql
        assert run(page, "show databases").json()["rows"] == [list(row) for row in own.execute("show databases").fetchall()]
    from_page = {sql: (user, allowed, origin) for user, origin, sql, allowed in guarded.audited() if origin.startswith("page")}
    user, is_allowed, origin = from_page["select secret_column from other.hidden"]
    assert (user, is_allowed, origin.rpartition(":")[0]) == ("vera", False, "page vera testclient")


def test_an_airflow_user_has_to_be_a_user_of_headrace(guarded: WorksheetHome) -> None:
    settings = load(home=guarded.settings.home_path, page_users='{"*": "ghost"}')
    with TestClient(create_app(Rights(), settings), headers=HEADERS) as page:
        answer = run(page, "show databases")
        assert (answer.status_code, answer.json()["code"]) == (403, "AUTHENTICATION")


def test_an_error_has_its_place(free: WorksheetHome) -> None:
    with free.page() as page:
        answer = run(page, "select ts,\n  nothing from power.meters")
        assert (answer.status_code, answer.json()["line"], answer.json()["column"]) == (400, 2, 3)
        assert answer.json()["span"] == [13, 20]
        answer = run(page, "selec 1")  # not even sent to the snode
        assert (answer.json()["code"], answer.json()["span"]) == ("SYNTAX", [0, 5])


def test_without_an_snode_nothing_runs_and_that_is_said(tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home")
    with headrace.connect(settings=settings) as root, TestClient(create_app(Rights(), settings), headers=HEADERS) as page:
        root.execute("create database power")
        assert page.get("/api/worksheet").json()["is_ready"] is False
        answer = run(page, "drop database power")
        assert (answer.status_code, answer.json()["message"]) == (503, "no snode is alive to run the statement")
        assert len(root.execute("show databases").fetchall()) == 1
        completed = page.post("/api/worksheet/complete", json={"sql": "use p", "cursor": 5}).json()
        assert [one["text"] for one in completed["suggestions"]] == ["power"]


def test_a_query_is_canceled_by_its_user_alone(free: WorksheetHome, spark: SparkSession, tmp_path: Path) -> None:
    with free.page() as page, occupied(spark, tmp_path), ThreadPoolExecutor(1) as pool:
        query = pool.submit(run, page, "select ts, current from power.meters order by ts", id="mine")
        wait_until(lambda: run(page, "show queries").json()["rows"] != [], "the query to run")
        with TestClient(create_app(Named("otto"), free.settings), headers=HEADERS) as stranger:
            assert stranger.post("/api/worksheet/cancel", json={"id": "mine"}).json() == {"canceled": False}
        assert page.post("/api/worksheet/cancel", json={"id": "other"}).json() == {"canceled": False}
        assert page.post("/api/worksheet/cancel", json={"id": "mine"}).json() == {"canceled": True}
        answer = query.result(MAX_WAIT_S)
        assert (answer.status_code, answer.json()["message"]) == (503, "the query was canceled")


class Named(Rights):
    """Rights of an Airflow user of a name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def user_name(self, user: Any) -> str:  # noqa: ARG002
        return self.name


def test_a_user_may_have_half_of_the_statements_that_run() -> None:
    slots = StatementSlots(3)
    with slots.taken("vera"):
        with pytest.raises(OperationalError, match="yours"), slots.taken("vera"):
            pass
        with slots.taken("otto"), slots.taken("eve"), pytest.raises(OperationalError, match="too many"), slots.taken("adam"):
            pass
    with slots.taken("vera"):
        pass


def test_statements_are_found_with_their_places_and_without_secrets(free: WorksheetHome) -> None:
    text = "-- first\nuse power; /* ; */ select ';' from t;\ncreate user eve0 pass 'Secret-12'"
    with free.page() as page:
        statements = page.post("/api/worksheet/statements", json={"sql": text}).json()["statements"]
    assert [text[one["start"] : one["end"]] for one in statements[:2]] == ["use power", "select ';' from t"]
    assert [one["use"] for one in statements] == ["power", None, None]
    assert statements[2]["masked"] == "create user eve0 pass '*********'"


WINDOWS = "select _wstart, avg(a) from t interval(1m)"
NESTED = "select a from (select a from t order by a limit 2)"
GROUPED = "select avg(a) into root.b(a) from root.a group by (1m)"


@pytest.mark.parametrize(
    ("sql", "dialect", "created"),
    [
        (f"{WINDOWS} order by 1 limit 5", "tdengine", f"AS\n{WINDOWS}"),
        (NESTED, "tdengine", f"AS\n{NESTED}"),
        (GROUPED, "iotdb", f"BEGIN\n  {GROUPED}\nEND"),
        *((sql, "tdengine", None) for sql in ("select 1", "select a from information_schema.ins_streams", "show tables", "wrong")),
        ("select avg(a) from root.a group by (1m)", "iotdb", None),
    ],
)
def test_a_query_becomes_the_statement_of_a_job(sql: str, dialect: str, created: str | None) -> None:
    (statement,) = statements_of(sql, dialect)
    job = statement["job"]
    if created is None:
        assert job is None
    else:
        assert job["sql"].endswith(created)
        assert parse(job["sql"], dialect)


def names(page: TestClient, *path: str, dialect: str = "tdengine") -> list[tuple[str, str]]:
    answer = page.get("/api/worksheet/names", params={"dialect": dialect, "path": path})
    return [(one["name"], one["text"]) for one in answer.json()["names"]]


def test_names_are_listed_of_what_the_user_may_know_of(guarded: WorksheetHome) -> None:
    with guarded.page() as page, guarded.page(Named("root")) as all_seeing:
        assert names(page) == [("power", "power")]
        assert ("other", "other") in names(all_seeing)
        assert names(page, "power") == [("meters", "power.meters")]
        assert ("note", "note") in names(page, "power", "meters")
        for path in (("other",), ("other", "hidden"), ("power", "nothing"), ("power", "meters", "ts")):
            assert names(page, *path) == []
        assert names(page, "root.plant", dialect="iotdb") == [("line1", "root.plant.line1")]
        assert ("line2", "root.plant.line2") in names(all_seeing, "root.plant", dialect="iotdb")
        assert names(all_seeing, "root.plant line1", dialect="iotdb") == []
    with guarded.page(Rights(hidden={SNODE_DAG})) as page:
        assert page.get("/api/worksheet/names").status_code == 403


def completions(page: TestClient, text: str, dialect: str = "tdengine", database: str = "power") -> dict[str, str]:
    body = {"sql": text.replace("|", ""), "cursor": text.index("|"), "dialect": dialect, "database": database}
    answer = page.post("/api/worksheet/complete", json=body)
    return {one["text"]: one["kind"] for one in answer.json()["suggestions"]}


def test_names_are_completed_from_what_the_user_may_know_of(guarded: WorksheetHome) -> None:
    with guarded.page() as page, guarded.page(Named("root")) as all_seeing:
        assert completions(page, "select * from |") == {"meters": "table", "d1001": "table", "d1002": "table", "power": "database"}
        assert "other" in completions(all_seeing, "select * from |")
        for text in ("select * from other.|", "select s| from other.hidden", "select hidden.| from other.hidden"):
            assert "hidden" not in json.dumps(completions(page, text))
            assert "secret_column" not in json.dumps(completions(page, text))
        assert completions(all_seeing, "select sec| from other.hidden") == {"secret_column": "column"}
        assert completions(page, "select root.plant.| from root.plant", "iotdb") == {"line1": "node"}
        assert completions(all_seeing, "select root.plant.| from root.plant", "iotdb") == {"line1": "node", "line2": "node"}
        assert completions(page, "select | from root.plant.line1", "iotdb").items() >= {("speed", "column"), ("avg(", "function")}
        assert completions(page, "select | from root.plant.line2", "iotdb").get("speed") is None
