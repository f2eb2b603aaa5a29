"""Triggers whose catalog is a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.code.hosts import current_hosts
from headrace.errors import ExistsError, TriggerFireError
from headrace.model.triggers import TriggerState
from tests.service.iotdb.processes import run
from tests.support.forking import die_at
from tests.support.postgres import Server

CODE = """
from headrace.trigger import FailureStrategy, Trigger

class Limit(Trigger):
    def fire(self, tablet):
        return all(value < 10 for column in tablet.values for value in column)

    def get_failure_strategy(self):
        return FailureStrategy.PESSIMISTIC

class Count(Trigger):
    def restore(self):
        self.store.put("restored", self.store.get("restored", 0) + 1)

    def fire(self, tablet):
        self.store.put("rows", self.store.get("rows", 0) + len(tablet))
        return True
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, postgres: Server) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("postgres") / "home"
    folder = path / "ext" / "trigger"
    folder.mkdir(parents=True)
    (folder / "limits.py").write_text(CODE)
    with postgres.database() as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_CATALOG_URL", url)
        yield path


@pytest.fixture(scope="module")
def connection(home: Path) -> Iterator[headrace.Connection]:
    with headrace.connect(home, dialect="iotdb") as opened:
        assert opened.session.context.settings.catalog.startswith("postgresql")
        opened.execute("create database root.t")
        yield opened
    current_hosts().close()


def test_a_trigger_is_created_called_and_dropped(connection: headrace.Connection) -> None:
    create = "create stateless trigger limit before insert on root.t.d.* as 'limits.Limit'"
    connection.execute(create)
    with pytest.raises(ExistsError):
        connection.execute(create)
    with pytest.raises(TriggerFireError, match="1302"):
        connection.execute("insert into root.t.d(time, a) values (1, 10)")
    connection.execute("insert into root.t.d(time, a) values (1, 1)")
    cursor = connection.execute("show triggers details")
    row = dict(zip([column[0] for column in cursor.description or ()], cursor.fetchall()[0], strict=True))
    assert (row["State"], row["FailureStrategy"], row["Calls"], row["Failures"]) == ("ACTIVE", "PESSIMISTIC", 2, 1)
    connection.execute("drop trigger limit")
    connection.execute("insert into root.t.d(time, a) values (1, 10)")
    assert connection.execute("show triggers").fetchall() == []


def test_other_processes_take_a_stateful_trigger_over(connection: headrace.Connection, home: Path) -> None:
    catalog = connection.session.context.catalog
    connection.execute("create stateful trigger counter after insert on root.t.e.* as 'limits.Count'")
    connection.execute("insert into root.t.e(time, a) values (1, 1)")
    created = catalog.triggers.get("counter")
    die_at("triggers.transferring", run, home, "insert into root.t.e(time, a) values (2, 1)")
    assert catalog.triggers.get("counter").state is TriggerState.TRANSFERRING
    die_at("triggers.stored", run, home, "insert into root.t.e(time, a) values (3, 1)")
    taken_over = catalog.triggers.get("counter")
    assert taken_over.node != created.node
    assert taken_over.state is TriggerState.ACTIVE
    connection.execute("insert into root.t.e(time, a) values (4, 1)")
    assert catalog.triggers.entries(created.id) == {"rows": "3", "restored": "2"}
    connection.execute("drop trigger counter")
    assert catalog.triggers.entries(created.id) == {}
