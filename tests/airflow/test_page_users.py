"""The page shows and does what the Headrace user of an Airflow user may see and do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

import headrace
from headrace.catalog import Catalog
from headrace.errors import ConfigurationError
from headrace.model.jobs import DesiredState
from headrace.settings import Settings, load
from headrace.streams.kind import STREAM
from headrace.web.app import create_app
from tests.airflow.samples import add_stream
from tests.airflow.web_page import ACTION, Rights

pytestmark = pytest.mark.airflow
PASSWORD = "Correct-horse-1"


@pytest.fixture
def root(home: Settings, catalog: Catalog) -> Iterator[headrace.Connection]:
    """Provide the administrator of a home with a stream, whose Airflow user is `vera`."""
    add_stream(catalog)
    with headrace.connect(settings=home) as connection:
        yield connection


def pages(home: Settings, rights: Rights, page_users: str = "") -> TestClient:
    settings = load(home=home.home_path, page_users=page_users)
    return TestClient(create_app(rights, settings), raise_server_exceptions=False)


def names(page: TestClient) -> list[str]:
    return [job["label"] for job in page.get("/api/jobs").json()["jobs"]]


def pause(page: TestClient) -> Any:
    sql = "PAUSE STREAM power.avg_v"
    return page.post("/api/jobs/id-avg_v/pause", json={"sql": sql}, headers={**ACTION, "Sec-Fetch-Site": "same-origin"})


def desired(catalog: Catalog) -> DesiredState:
    return catalog.jobs.get("power", "avg_v", STREAM).desired


def test_without_users_the_rights_of_airflow_decide(
    root: headrace.Connection, home: Settings, rights: Rights, catalog: Catalog
) -> None:
    assert root
    with pages(home, rights) as page:
        assert names(page) == ["power.avg_v"]
        assert pause(page).status_code == 200
    assert desired(catalog) is DesiredState.PAUSED


def test_a_user_sees_what_their_rights_show(root: headrace.Connection, home: Settings, rights: Rights, catalog: Catalog) -> None:
    root.execute(f"CREATE USER vera PASS '{PASSWORD}'")
    with pages(home, rights) as page:
        assert names(page) == []
        assert page.get("/api/jobs/id-avg_v").status_code == 404
        root.execute("GRANT READ ON power.meters TO vera")
        assert page.get("/api/jobs/id-avg_v").status_code == 404
        root.execute("GRANT READ ON power.avg_v_out TO vera")
        assert page.get("/api/jobs/id-avg_v").status_code == 200
        refused = pause(page)
        assert (refused.status_code, refused.json()["code"]) == (409, "PERMISSION_DENIED")
        assert desired(catalog) is DesiredState.RUNNING


def test_another_user_may_be_named(root: headrace.Connection, home: Settings, rights: Rights, catalog: Catalog) -> None:
    root.execute(f"CREATE USER someone PASS '{PASSWORD}'")
    with pages(home, rights, '{"*": "root"}') as page:
        assert names(page) == ["power.avg_v"]
        assert pause(page).status_code == 200
    assert desired(catalog) is DesiredState.PAUSED


def test_an_airflow_user_without_a_headrace_user_can_do_nothing(root: headrace.Connection, home: Settings, rights: Rights) -> None:
    root.execute(f"CREATE USER someone PASS '{PASSWORD}'")
    with pages(home, rights) as page:
        assert names(page) == []
        assert pause(page).status_code == 404


def test_the_setting_has_to_be_an_object(home: Settings) -> None:
    with pytest.raises(ConfigurationError, match="page_users"):
        load(home=home.home_path, page_users="[]")
