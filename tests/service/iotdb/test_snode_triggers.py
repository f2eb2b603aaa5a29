"""Stateful triggers whose instance is in an snode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.code.hosts import current_hosts
from headrace.errors import TriggerFireError
from tests.service.iotdb.processes import LivingSnode

CODE = """
from headrace.trigger import Trigger

class Total(Trigger):
    def fire(self, tablet):
        if tablet.values[0][0] > 10:
            return False
        self.store.put("n", self.store.get("n", 0) + len(tablet))
        self.insert("root.log.totals", self.store.get("n"), {"device": tablet.device_id})
        return True
"""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    folder = tmp_path / "home" / "ext" / "trigger"
    folder.mkdir(parents=True)
    (folder / "totals.py").write_text(CODE)
    with headrace.connect(tmp_path / "home", dialect="iotdb") as opened:
        opened.execute("create database root.log")
        opened.execute("create stateful trigger total after insert on root.t.** as 'totals.Total'")
        yield opened
    current_hosts().close()


@pytest.fixture
def snode(connection: headrace.Connection) -> Iterator[LivingSnode]:
    living = LivingSnode(connection.session.context.settings)
    yield living
    living.close()


def stored(connection: headrace.Connection) -> dict[str, str]:
    triggers = connection.session.context.catalog.triggers
    return triggers.entries(triggers.get("total").id)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_writers_have_the_snode_call_the_trigger(connection: headrace.Connection, snode: LivingSnode) -> None:
    connection.execute("insert into root.t.d(time, a) values (1, 1), (2, 2)")
    connection.execute("insert into root.t.e(time, a) values (1, 1)")
    assert snode.calls == ["root.t.d", "root.t.e"]
    assert stored(connection) == {"n": "3"}
    rows = connection.execute("select device from root.log.totals").fetchall()
    assert [row[1] for row in rows] == ["root.t.d", "root.t.e"]


def test_failures_in_the_snode_reach_the_writer_once(connection: headrace.Connection, snode: LivingSnode) -> None:
    with pytest.raises(TriggerFireError) as failure:
        connection.execute("insert into root.t.d(time, a) values (1, 11)")
    assert "trigger total for root.t.d failed: fire returned False" in failure.value.hint
    assert snode.calls == ["root.t.d"]


def test_a_writer_calls_the_trigger_itself_once_the_snode_is_gone(connection: headrace.Connection, snode: LivingSnode) -> None:
    connection.execute("insert into root.t.d(time, a) values (1, 1)")
    snode.endpoint.stop()
    connection.execute("insert into root.t.d(time, a) values (2, 1)")
    assert snode.calls == ["root.t.d"]
    assert stored(connection) == {"n": "2"}
