"""Versions of statements: what the page's server says of them, and how a browser shows them."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

import headrace
from headrace.catalog import Catalog
from headrace.settings import Settings
from headrace.streams.kind import STREAM
from headrace.web.app import create_app
from headrace.web.version_view import MAX_TOKENS, comparable, differences
from tests.airflow.browsing import browser, served
from tests.airflow.full_catalog import alter
from tests.airflow.samples import add_stream
from tests.airflow.stream_dags import stream_dag_id
from tests.airflow.web_page import Executed, Rights


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a b c", "a b c", [("same", "a b c")]),
        ("a b c", "a x c", [("same", "a"), ("removed", " b"), ("added", " x"), ("same", " c")]),
        ("a c", "a b c", [("same", "a"), ("added", " b"), ("same", " c")]),
        ("f(1);", "f(2);", [("same", "f("), ("removed", "1"), ("added", "2"), ("same", ");")]),
    ],
)
def test_statements_are_compared_by_words(old: str, new: str, expected: list[tuple[str, str]]) -> None:
    assert differences(old, new) == expected


def test_long_statements_are_shown_whole() -> None:
    long = "a " * (MAX_TOKENS + 1)
    assert differences(long, "b") == [("removed", long), ("added", "b")]


def test_spaces_and_upper_case_are_no_difference() -> None:
    assert comparable("select  v from m", "tdengine") == comparable("SELECT v\nFROM m", "tdengine")
    assert comparable("no statement", "tdengine") == "no statement"


def test_alter_stream_adds_a_version_by_its_user(home: Settings, catalog: Catalog) -> None:
    add_stream(catalog)
    with headrace.connect(settings=home, user="paul") as connection:
        connection.execute("ALTER STREAM power.avg_v IGNORE EXPIRED 0")
        rows = connection.execute("SELECT version, user_name, sql FROM information_schema.ins_job_versions").fetchall()
    first, second = sorted(rows)
    assert catalog.jobs.get("power", "avg_v", STREAM).definition.sql == second[2]
    assert (first[0], second[0]) == (1, 2)
    assert "IGNORE EXPIRED 0" in second[2]
    assert "IGNORE EXPIRED" not in first[2]
    assert (first[1], second[1]) == ("", "paul")


def test_versions_of_a_stream_that_may_not_be_read_do_not_exist(page: TestClient, catalog: Catalog, rights: Rights) -> None:
    stream = add_stream(catalog)
    assert [one["number"] for one in page.get(f"/api/jobs/{stream}/versions").json()["versions"]] == [1]
    rights.hidden = {stream_dag_id("power", "avg_v")}
    assert page.get(f"/api/jobs/{stream}/versions").status_code == 404


def test_an_earlier_version_shows_what_has_changed_since(home: Settings, catalog: Catalog) -> None:
    stream = add_stream(catalog)
    with served(create_app(Rights(), home, execute=Executed())) as url, browser() as page:
        page.goto(f"{url}/?stream=power.avg_v&tab=SQL")
        page.get_by_text("The statement has not been changed since.").wait_for()
        alter(catalog, stream)
        earlier = page.locator(".versions details")
        earlier.locator("summary").click()
        assert earlier.locator("pre ins").all_inner_texts() == [" IGNORE EXPIRED 0"]
        assert earlier.locator("pre del").count() == 0
        with page.expect_response("**/api/jobs/id-avg_v"), page.expect_response("**/api/jobs"):
            pass
        assert earlier.get_attribute("open") == "", "it stays open when the page is drawn again"
        assert "by paul" in page.locator(".versions > p").inner_text()
