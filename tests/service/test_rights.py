"""Every stage requires rights, which are checked once before anything is applied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import headrace
from headrace.errors import PermissionDeniedError
from headrace.model.access import Permissions, Principal, administrator
from headrace.model.jobs import JobState
from headrace.runtime.http import HTTP_USER
from headrace.service.endpoint import sql_runner
from headrace.service.rights import Right
from headrace.service.session import Session
from headrace.settings import load
from tests.support.statement_cases import (
    JOBS,
    LAKE,
    PEOPLE,
    STATEMENTS,
    TREE_JOBS,
    TREE_STATEMENTS,
    functions_that_make_stages,
    prepare_tables,
    prepare_tree,
)


class DenyAll:
    """Denies everything, and records the requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[Right, ...]]] = []

    def authorize(self, principal: Principal, rights: Sequence[Right]) -> None:
        self.asked.append((principal.name, tuple(rights)))
        raise PermissionDeniedError(f"{principal.name} may not {rights[0]}")

    def permissions(self, principal: Principal) -> Permissions:
        return administrator(principal.name)


@pytest.fixture(scope="module")
def prepared(unchanged_readings: headrace.Connection) -> headrace.Connection:
    prepare_tables(unchanged_readings)
    return unchanged_readings


@pytest.fixture
def denier() -> DenyAll:
    return DenyAll()


@pytest.fixture
def session(prepared: headrace.Connection, denier: DenyAll) -> Session:
    """Return a session of vera, who has no rights."""
    return Session(prepared.session.context, database="d", principal=Principal("vera"), authorizer=denier)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.Connection]:
    """Provide a connection to a tree of devices."""
    home = tmp_path_factory.mktemp("tree")
    with headrace.connect(settings=load(home=home, external_locations=LAKE.name), dialect="iotdb") as connection:
        prepare_tree(connection)
        for statement in PEOPLE:
            connection.execute(statement)
        yield connection


@pytest.fixture
def tree_session(tree: headrace.Connection, denier: DenyAll) -> Session:
    """Return a session of vera over the tree."""
    return Session(tree.session.context, "iotdb", principal=Principal("vera"), authorizer=denier)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("ts,a\n2024-05-01 00:00:00,1\n")
    return path


def observable_state(connection: headrace.Connection) -> list[list[tuple[object, ...]]]:
    """Return everything that statements could have changed."""
    queries = (
        "show databases",
        "show stables",
        "show tables",
        "show streams",
        "show functions",
        "show tags from dev1",
        "describe readings",
    )
    stored = [table for table in connection.session.context.catalog.tables.all("d") if not table.is_virtual]
    return [connection.execute(query).fetchall() for query in (*queries, "show vtables", "describe v", "describe v1")] + [
        [(connection.session.context.tables.version(table),)] for table in stored
    ]


@pytest.mark.parametrize(("statement", "rights"), STATEMENTS.items())
def test_a_statement_is_refused_before_anything_is_done(
    prepared: headrace.Connection, session: Session, denier: DenyAll, statement: str, rights: str
) -> None:
    before = observable_state(prepared)
    with pytest.raises(PermissionDeniedError, match="vera may not") as raised:
        session.execute(statement)
    assert raised.value.sql == statement
    assert [(user, ", ".join(map(str, requested))) for user, requested in denier.asked] == [("vera", rights)]
    assert observable_state(prepared) == before


@pytest.mark.parametrize(("statement", "rights"), TREE_STATEMENTS.items())
def test_a_statement_over_a_tree_is_refused_and_described(
    tree: headrace.Connection, tree_session: Session, denier: DenyAll, statement: str, rights: str
) -> None:
    with pytest.raises(PermissionDeniedError, match="vera may not"):
        tree_session.execute(statement)
    assert [", ".join(map(str, requested)) for _, requested in denier.asked] == [rights]
    lines = [line for stage in tree.session.stages(statement) for line in stage.describe()]
    assert lines
    assert all(lines)


@pytest.mark.parametrize("rights", TREE_JOBS)
def test_work_on_a_tree_without_a_statement_is_refused_too(tree_session: Session, denier: DenyAll, file: Path, rights: str) -> None:
    with pytest.raises(PermissionDeniedError):
        tree_session.run(TREE_JOBS[rights](tree_session, file))
    assert [", ".join(map(str, requested)) for _, requested in denier.asked] == [rights]


@pytest.mark.parametrize("rights", JOBS)
def test_work_without_a_statement_is_refused_too(session: Session, denier: DenyAll, file: Path, rights: str) -> None:
    with pytest.raises(PermissionDeniedError):
        session.run(JOBS[rights](session, file))
    assert [", ".join(map(str, requested)) for _, requested in denier.asked] == [rights]


def test_every_kind_of_stage_requires_rights(
    prepared: headrace.Connection, session: Session, tree: headrace.Connection, tree_session: Session, file: Path
) -> None:
    planned = [stage for statement in STATEMENTS for stage in prepared.session.stages(statement)]
    planned += [stage for statement in TREE_STATEMENTS for stage in tree.session.stages(statement)]
    planned += [stage for plan in JOBS.values() for stage in plan(session, file)]
    planned += [stage for plan in TREE_JOBS.values() for stage in plan(tree_session, file)]
    makers = {f"{stage.apply.__module__}.{stage.apply.__qualname__.partition('.')[0]}" for stage in planned}
    assert functions_that_make_stages() - {"headrace.service.topics.streams.nothing_to_do"} <= makers
    assert all(stage.required for stage in planned)


def test_explain_ends_with_the_rights_that_are_needed(prepared: headrace.Connection, file: Path) -> None:
    (*_, last) = prepared.execute("explain delete from dev1").fetchall()
    assert last == ("needs the right to write table d.readings",)
    session = prepared.session
    texts = [session.explain(plan(session, file)) for plan in JOBS.values()]
    assert [lines[0] for lines in texts] == [
        "load 1 file of 27 bytes into d.plain: all rows or none",
        "load rows.csv into d.readings, one commit",
        "compute windows of stream d.s again, from the first row, up to those still open, on Spark in this process",
        "query on Spark",
        "compare d.out1 with what DuckDB computes from d.readings",
    ]
    assert prepared.session.context.catalog.jobs.get("d", "s", "stream").state is JobState.CREATED
    assert prepared.session.context.tables.rows(prepared.session.context.catalog.tables.get("d", "plain")) == 0


def test_the_user_is_the_one_of_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, denier: DenyAll) -> None:
    monkeypatch.setenv("LOGNAME", "login")
    with headrace.connect(tmp_path / "h") as connection:
        assert connection.user == "login"
    with headrace.connect(settings=load(home=tmp_path / "h", user="setting")) as connection:
        assert connection.user == "setting"
    with headrace.connect(tmp_path / "h", principal=Principal("vera"), authorizer=denier) as connection:
        assert connection.user == "vera"
        with pytest.raises(PermissionDeniedError, match="vera may not describe catalog"):
            connection.execute("show databases")


def test_http_clients_have_a_user_name(connection: headrace.Connection, denier: DenyAll) -> None:
    with pytest.raises(PermissionDeniedError, match=f"{HTTP_USER} may not"):
        sql_runner(connection.session.context, denier)("show databases", "tdengine", None)
