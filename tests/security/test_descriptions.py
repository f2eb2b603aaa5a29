"""What descriptions, lists and errors say to a user is what the user may know."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

import headrace
from headrace.context import Context
from headrace.doors.gate import Gate
from headrace.doors.tdengine.schemaless.writes import SchemalessWriter, Target
from headrace.errors import Error, PermissionDeniedError
from headrace.model.access import Principal
from headrace.model.jobs import DesiredState, JobDefinition, JobState, StopReason
from headrace.model.quarantine import QuarantineChange, QuarantineCode, QuarantinedRow, RowKey
from headrace.service.authentication import authenticator
from headrace.web.app import create_app

PASSWORD = "secret12"
SETUP = (
    *("create database src", "create database dst", "create database other"),
    "create stable src.meters (ts timestamp, amps int) tags (site int, customer varchar(20))",
    "create table src.m1 using src.meters tags (1, 'ann') src.hidden using src.meters tags (2, 'secret-customer')",
    "insert into src.m1 values (0, 10) src.hidden values (0, 20)",
    "create table dst.known (ts timestamp, a int)",
)
STREAM = (
    "create stream dst.s trigger window_close into dst.hourly as select _wstart, max(amps) peak from src.meters interval(1h) "
    "notify('wss://ops.example.com/hook?token=TOPSECRET') on ('WINDOW_CLOSE')"
)
DENIED = "Permission denied or target object not exist"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[headrace.Connection]:
    """Provide the administrator's connection to a home with the users part, none and writer, and a stream of owner."""
    monkeypatch.setenv("HEADRACE_EGRESS", "*")
    with headrace.connect(tmp_path / "home") as connection:
        for sql in SETUP:
            connection.execute(sql)
        for name in ("part", "none", "writer", "owner"):
            connection.execute(f"create user {name} pass '{PASSWORD}'")
        connection.execute("grant read on src.meters with site = 1 to part")
        connection.execute("grant write on dst.* to writer")
        connection.execute("grant read on src.* to owner")
        connection.execute("grant write on dst.* to owner")
        with connect(connection, "owner") as owner:
            owner.execute(STREAM)
        yield connection


def connect(root: headrace.Connection, user: str, dialect: str = "tdengine") -> headrace.Connection:
    home = root.session.context.settings.home_path
    return headrace.connect(home, dialect=dialect, user=user, password=PASSWORD)


def answer(connection: headrace.Connection, sql: str) -> str:
    """Return the rows of a statement, or the message of its error, as text."""
    try:
        return str(connection.execute(sql).fetchall())
    except Error as error:
        return f"{error.message} {error.hint}"


def context_of(root: headrace.Connection) -> Context:
    return root.session.context


def stream(root: headrace.Connection) -> JobDefinition:
    return context_of(root).catalog.jobs.get("dst", "s", "stream").definition


CONDITIONS = (
    "customer like 's%'",
    "tbname <> ''",
    "cast(customer as int) = 1",
    "customer match '('",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_explain_of_a_delete_names_no_subtables_to_who_may_not_delete(root: headrace.Connection, condition: str) -> None:
    for granted in ("read on src.meters with site = 1 to part", "read on src.* to part"):
        root.execute(f"grant {granted}")
        with connect(root, "part") as part:
            shown = answer(part, f"explain delete from src.meters where {condition}")
            assert shown == "[('needs the right to write table src.meters',)]"
            assert answer(part, f"delete from src.meters where {condition}").startswith(DENIED)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_delete_looks_only_at_the_tags_of_subtables_that_the_user_may_change(root: headrace.Connection, condition: str) -> None:
    root.execute("grant write on src.meters with site = 1 to part")
    with connect(root, "part") as part:
        shown = answer(part, f"explain delete from src.meters where {condition}")
        root.execute("drop table src.hidden")
        assert answer(part, f"explain delete from src.meters where {condition}") == shown
    assert "secret" not in shown
    assert "hidden" not in shown


def test_who_has_the_rights_still_sees_what_a_statement_would_do(root: headrace.Connection) -> None:
    assert "hidden" in answer(root, "explain delete from src.meters where site = 2")
    with connect(root, "owner") as owner:
        assert "maintain stream" in answer(owner, "explain " + STREAM.replace("dst.s ", "dst.t ").replace("hourly", "daily"))


@pytest.mark.parametrize(
    "sql",
    [
        "delete from src.{} where cast(customer as int) = 1",
        "explain delete from src.{} where site = 2",
        "show tags from src.{}",
        "show tags from {} from src",
        "show create stable src.{}",
        "describe src.{}",
        "insert into src.x1 using src.{} tags (1, 'x') values (1, 'text')",
        "insert into src.{} (tbname, ts, amps) values ('m1', 'no time', 1)",
        "alter stable src.{} drop column nothing",
        "create stream dst.t into dst.o2 as select _wstart, nothing(amps) from src.{} interval(1h)",
        "explain create stream dst.t fill_history 1 into dst.o2 as select _wstart, max(amps) from src.{} interval(1h)",
    ],
)
@pytest.mark.parametrize("user", ["none", "writer"])
def test_a_table_that_a_user_may_not_know_is_answered_like_one_that_does_not_exist(
    root: headrace.Connection, user: str, sql: str
) -> None:
    with connect(root, user) as connection:
        answers = {answer(connection, sql.format(name)).replace(name, "NAME") for name in ("meters", "nothing1")}
    assert len(answers) == 1
    assert answers.pop().startswith(DENIED)


def test_quarantine_shows_rows_of_the_source_to_who_may_read_it(root: headrace.Connection) -> None:
    row = QuarantinedRow(RowKey("m1", 0), 1, QuarantineCode.FUTURE, "value 77 is too late", {"ts": 0, "amps": 77}, 1, 1)
    context_of(root).catalog.quarantine.commit(stream(root).id, 1, QuarantineChange(added=(row,)))
    queries = ("show quarantine", "select * from information_schema.ins_stream_quarantine")
    with connect(root, "owner") as owner, connect(root, "writer") as writer:
        assert all("77" in answer(owner, sql) for sql in queries)
        assert all(answer(writer, sql) == "[]" for sql in queries)
        assert "'s'" in answer(writer, "show streams")
        root.execute("revoke read on src.* from owner")
        assert all(answer(owner, sql) == "[]" for sql in queries)
    assert all("77" in answer(root, sql) for sql in queries)


def test_errors_that_quote_rows_are_shown_to_who_may_read_the_source(root: headrace.Connection) -> None:
    id_, catalog = stream(root).id, context_of(root).catalog
    catalog.jobs.set_state(id_, JobState.STOPPED, StopReason("DATA", "'secret-customer' is no number", "correct it", 1))
    catalog.events.record("job", id_, "STOPPED", "'secret-customer' is no number")
    queries = ("show streams", "show jobs", "select * from information_schema.ins_streams")
    with connect(root, "owner") as owner, connect(root, "writer") as writer:
        assert all("secret-customer" in answer(owner, sql) for sql in queries)
        shown = [answer(writer, sql) for sql in queries]
    assert not any("secret-customer" in text for text in shown)
    assert all("the message is for who may read what the job reads" in text for text in shown)
    for path in ("/api/jobs", f"/api/jobs/{id_}", "/api/graph"):
        assert "secret-customer" not in page(root, "writer").get(path).text
    for path in ("/api/jobs", f"/api/jobs/{id_}"):
        assert "secret-customer" in page(root, "owner").get(path).text


def test_tokens_in_a_statement_are_shown_to_its_owner_alone(root: headrace.Connection) -> None:
    with connect(root, "owner") as owner, connect(root, "writer") as writer:
        assert "TOPSECRET" in answer(owner, "show create stream dst.s")
        assert "TOPSECRET" in answer(root, "show create stream dst.s")
        shown = answer(writer, "show create stream dst.s")
        assert "TOPSECRET" not in shown
        assert "ops.example.com" in shown


class PageOf:
    """The page's access of one user of Airflow, who may read and edit all DAGs."""

    base_url = ""

    def __init__(self, user: str) -> None:
        self._user = user

    async def authenticate(self, _: object) -> str:
        return self._user

    def user_name(self, user: Any) -> str:
        return str(user)

    def readable_dags(self, _: Any, dag_ids: set[str]) -> set[str]:
        return dag_ids

    def can_edit(self, _user: Any, _dag_id: str) -> bool:
        return True

    def can_delete(self, _user: Any, _dag_id: str) -> bool:
        return True


def page(root: headrace.Connection, user: str) -> TestClient:
    return TestClient(create_app(PageOf(user), context_of(root).settings))


def test_the_plan_of_a_query_on_the_page_has_the_paths_that_its_reader_may_know(root: headrace.Connection) -> None:
    with headrace.connect(context_of(root).settings.home_path, dialect="iotdb") as tree:
        tree.execute("create timeseries root.secret.patient4711.dose INT32")
        tree.execute("create cq c1 resample every 1h begin select sum(dose) into root.out.d(m) from root.secret.* group by(1h) end")
        tree.execute("grant USE_CQ on root.** to user part")
    job = context_of(root).catalog.jobs.all(kind="continuous query")[0].definition
    for path in ("plan", "lineage"):
        assert "patient4711" not in page(root, "part").get(f"/api/jobs/{job.id}/{path}").text
    assert "patient4711" in page(root, "root").get(f"/api/jobs/{job.id}/plan").text


def test_windows_on_the_page_need_the_right_to_read_the_source(root: headrace.Connection) -> None:
    path = f"/api/jobs/{stream(root).id}/windows"
    for user in ("owner", "writer"):
        root.execute(f"grant read on dst.* to {user}")
    assert "PERMISSION_DENIED" not in page(root, "owner").get(path).text
    answered = page(root, "writer").get(path)
    assert (answered.status_code, answered.json()["code"]) == (409, "PERMISSION_DENIED")


ROUTES = {
    *("/api/jobs", "/api/graph", "/api/jobs/{job_id}", "/api/jobs/{job_id}/{action}"),
    *(f"/api/jobs/{{job_id}}/{name}" for name in ("flow", "lineage", "metrics", "plan", "rights", "versions", "windows")),
}
"""What the page answers about jobs: to who may not know of one, the same as of one that does not exist."""


def test_the_page_says_nothing_of_jobs_that_a_user_may_not_know(root: headrace.Connection) -> None:
    app = create_app(PageOf("none"), context_of(root).settings)
    routes = {path for path in paths_of(app) if "/worksheet" not in path}
    assert {path for path in routes if path.startswith("/api/")} == ROUTES
    with TestClient(app) as client:
        for path in sorted(ROUTES - {"/api/jobs/{job_id}/{action}"}):
            answers = {client.get(path.format(job_id=id_)).text.replace(id_, "ID") for id_ in (stream(root).id, "0" * 32)}
            assert len(answers) == 1
            assert "dst" not in answers.pop()
        action = {"url": f"/api/jobs/{stream(root).id}/pause", "json": {"sql": "PAUSE STREAM dst.s"}}
        assert client.post(**action, headers={"Sec-Fetch-Site": "same-origin"}).status_code in (403, 404)
    assert context_of(root).catalog.jobs.get("dst", "s", "stream").desired is DesiredState.RUNNING


def paths_of(app: FastAPI) -> set[str]:
    """Return the paths of all routes of an application."""
    return {str(getattr(route, "path", "")) for route in app.routes}


LINES = (
    "{},site=x amps=1i 1",
    '{},site=x amps="s" 1',
    '{},k=1 amps=1i 1\n{},k=1 amps="s" 1',
    '{},site=x note="' + "0" * 70_000 + '" 1',
)


@pytest.mark.parametrize("lines", LINES)
def test_schemaless_writing_says_nothing_of_tables_that_a_user_may_not_write(root: headrace.Connection, lines: str) -> None:
    root.execute("grant write on dst.known to part")
    root.execute("create stable dst.secret (ts timestamp, amps bigint, note varchar(10)) tags (site varchar(20), k int)")
    context = context_of(root)
    gate = Gate(context, authenticator(context))
    writer = SchemalessWriter(partial(gate.create_session, dialect="tdengine"))
    outcomes = [
        writer.write(Target(Principal("part"), "dst"), [lines.replace("{}", name).encode()])[0] for name in ("secret", "nosuch")
    ]
    assert [str(outcome).splitlines()[0] for outcome in outcomes] == [f"[PERMISSION_DENIED] {DENIED}"] * 2


@pytest.mark.parametrize(
    "sql",
    [
        "alter stable src.meters drop column amps",
        "explain alter stable src.meters drop column amps",
        "alter stable src.meters rename tag site place",
        "drop table src.m1",
        "drop stable src.meters",
    ],
)
def test_who_may_not_change_a_table_does_not_learn_which_jobs_use_it(root: headrace.Connection, sql: str) -> None:
    root.execute("grant read on src.* to none")
    root.execute(
        "create stream dst.hidden_job into dst.o2 as select _wstart, max(amps) from src.meters partition by site interval(1h)"
    )
    with connect(root, "none") as none:
        shown = answer(none, sql)
    assert "hidden_job" not in shown
    assert shown.startswith((DENIED, "[('needs the right to"))


def test_planning_looks_at_no_table_that_a_user_may_not_know(root: headrace.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("tags were read")

    monkeypatch.setattr(type(context_of(root).tables.tags), "of_subtables", fail)
    with connect(root, "none") as none, pytest.raises(PermissionDeniedError):
        none.execute("delete from src.meters where site = 1")
