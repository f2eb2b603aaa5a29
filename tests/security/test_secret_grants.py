"""Secrets of drivers: whose pipes may use them, and that no one else's password reaches anybody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import headrace
from headrace import secrets
from headrace.errors import ConfigurationError, NotFoundError, PermissionDeniedError, ProgrammingError
from headrace.model.access import Permissions
from headrace.model.pipes import PipeStage
from headrace.pipes.stages import stage_of

PASSWORD = "Tr0ub4dor-of-another-team"
CREATE = (
    "CREATE PIPE {name} WITH SOURCE ('source'='do-nothing-source') "
    "WITH SINK ('sink'='do-nothing-sink', 'sink.user'='x', 'sink.password'='{reference}')"
)


@pytest.fixture(autouse=True)
def _drivers_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SECRET_PLANT", PASSWORD)
    monkeypatch.setenv("AIRFLOW_CONN_PLANT", f"postgresql://u:{PASSWORD}@db/x")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(tmp_path, dialect="iotdb") as connection:
        for name in ("pipe1", "pipe2"):
            connection.execute(f"CREATE USER {name} 'secret12'")
            connection.execute(f"GRANT USE_PIPE ON root.** TO USER {name}")
        yield connection


def user(root: headrace.Connection, name: str, dialect: str = "iotdb") -> headrace.Connection:
    settings = root.session.context.settings
    return headrace.connect(settings=settings, dialect=dialect, user=name, password="secret12")


@pytest.mark.parametrize("reference", ["secret:PLANT", "secret:plant", "airflow:PLANT"])
def test_a_pipe_uses_secrets_that_its_user_was_granted(root: headrace.Connection, reference: str) -> None:
    with user(root, "pipe1") as one, user(root, "pipe2") as other:
        statement = CREATE.format(name="p", reference=reference)
        for connection in (one, other):
            with pytest.raises(PermissionDeniedError, match=f"please add privilege USE_SECRET on {reference}"):
                connection.execute(statement)
        root.execute(f"GRANT USE_SECRET ON '{reference}' TO USER pipe1")
        one.execute(statement)
        with pytest.raises(PermissionDeniedError):
            other.execute(CREATE.format(name="q", reference=reference))
        with pytest.raises(PermissionDeniedError):
            one.execute(CREATE.format(name="q", reference=reference + "2"))


def test_root_uses_all_and_grants_alone(root: headrace.Connection) -> None:
    root.execute(CREATE.format(name="p", reference="secret:PLANT"))
    root.execute("GRANT MANAGE_USER, MANAGE_ROLE ON root.** TO USER pipe1 WITH GRANT OPTION")
    with user(root, "pipe1") as one:
        for statement in (
            "GRANT USE_SECRET ON 'secret:PLANT' TO USER pipe1",
            "REVOKE USE_SECRET ON 'secret:PLANT' FROM USER pipe1",
        ):
            with pytest.raises(PermissionDeniedError):
                one.execute(statement)
    with pytest.raises(ProgrammingError):
        root.execute("GRANT USE_SECRET ON root.** TO USER pipe1")
    root.execute("GRANT ALL ON root.** TO USER pipe1")
    with user(root, "pipe1") as one, pytest.raises(PermissionDeniedError, match="USE_SECRET"):
        one.execute(CREATE.format(name="q", reference="secret:PLANT"))


def test_a_revoked_secret_stops_the_pipe_when_it_is_next_used(root: headrace.Connection) -> None:
    root.execute("GRANT USE_SECRET ON 'secret:PLANT' TO USER pipe1")
    with user(root, "pipe1") as one:
        one.execute(CREATE.format(name="p", reference="secret:PLANT"))
    context = root.session.context
    record = context.catalog.jobs.find("", "p", "pipe")
    assert record is not None
    assert stage_of(context, record.definition, PipeStage.SINK).attributes["sink.password"] == PASSWORD
    root.execute("REVOKE USE_SECRET ON 'secret:plant' FROM USER pipe1")
    with pytest.raises(PermissionDeniedError, match="USE_SECRET on secret:PLANT"):
        stage_of(context, record.definition, PipeStage.SINK)
    assert stage_of(context, replace(record.definition, owner="root"), PipeStage.SINK).attributes["sink.password"] == PASSWORD


def test_roles_have_secrets_and_lists_show_them(root: headrace.Connection) -> None:
    root.execute("CREATE ROLE plant")
    root.execute("GRANT USE_SECRET ON 'secret:plant' TO ROLE plant")
    root.execute("GRANT ROLE plant TO pipe1")
    with headrace.connect(settings=root.session.context.settings, dialect="tdengine") as tables:
        tables.execute("GRANT USE_SECRET ON 'airflow:plant' TO pipe1")
        rows = tables.execute("SELECT privilege, table_name, role_name FROM information_schema.ins_user_privileges").fetchall()
        assert {("use_secret", "airflow:plant", ""), ("use_secret", "secret:PLANT", "plant")} <= set(rows)
        assert tables.execute("EXPLAIN REVOKE USE_SECRET ON 'airflow:plant' FROM pipe1").fetchall()
    with user(root, "pipe1") as one:
        shown = one.execute("LIST PRIVILEGES OF USER pipe1").fetchall()
        assert {("", "airflow:plant", "USE_SECRET", False), ("plant", "secret:PLANT", "USE_SECRET", False)} <= set(shown)
        one.execute(CREATE.format(name="p", reference="secret:plant"))
        with headrace.connect(settings=root.session.context.settings, dialect="tdengine") as tables:
            tables.execute("REVOKE USE_SECRET ON 'airflow:plant' FROM pipe1")
            with pytest.raises(ProgrammingError, match="does not have USE_SECRET on airflow:plant"):
                tables.execute("REVOKE USE_SECRET ON 'airflow:plant' FROM pipe1")


def test_what_is_no_secret_is_refused(root: headrace.Connection) -> None:
    for reference in ("PLANT", "secret:", "vault:x", "secret:a b", "encrypted:x", ""):
        with pytest.raises(ProgrammingError, match="does not refer to a secret"):
            root.execute(f"GRANT USE_SECRET ON '{reference}' TO USER pipe1")
    with pytest.raises(ConfigurationError):
        root.execute("GRANT USE_SECRET ON 'secret:KEY' TO USER pipe1")
    with pytest.raises(NotFoundError):
        root.execute("GRANT USE_SECRET ON 'secret:PLANT' TO USER nobody")
    with pytest.raises(ProgrammingError):
        root.execute("GRANT USE_SECRET ON 'secret:PLANT' TO USER root")


def test_nothing_is_resolved_without_permission(root: headrace.Connection) -> None:
    settings = root.session.context.settings
    typed = {"sink.password": "secret:PLANT", "topic": "secret:PLANT"}
    with pytest.raises(PermissionDeniedError):
        secrets.resolve(typed, ("password",), settings, Permissions("pipe1"))
    stored = secrets.protect({"sink.password": "own"}, ("password",), settings)
    assert secrets.resolve(stored, ("password",), settings, Permissions("pipe1")) == {"sink.password": "own"}
