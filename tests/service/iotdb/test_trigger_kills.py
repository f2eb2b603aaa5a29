"""Processes that are killed at every step of CREATE TRIGGER, of calls, and of DROP TRIGGER; what others see afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

import pytest

import headrace
from headrace.code.hosts import current_hosts
from headrace.errors import TriggerFireError
from headrace.model.triggers import RegisteredTrigger, TriggerState
from headrace.runtime.living_snodes import living_snodes
from headrace.runtime.regular_work import RegularWork
from headrace.trees.trigger_drops import complete_interrupted
from headrace.trigger import FailureStrategy
from tests.service.iotdb.processes import run, serve
from tests.support.forking import die_at, start
from tests.support.waiting import wait_until

CODE = """
import os
import signal

from headrace.trigger import FailureStrategy, Trigger

class Guard(Trigger):
    def fire(self, tablet):
        values = [value for column in tablet.values for value in column]
        if -1 in values:
            os.kill(os.getpid(), signal.SIGKILL)
        return all(value < 10 for value in values)

    def get_failure_strategy(self):
        return FailureStrategy.PESSIMISTIC

    def on_drop(self):
        print("dropped", flush=True)

class Count(Guard):
    def restore(self):
        self.store.put("restored", self.store.get("restored", 0) + 1)

    def fire(self, tablet):
        is_valid = super().fire(tablet)
        if is_valid:
            self.store.put("rows", self.store.get("rows", 0) + len(tablet))
        return is_valid

    def on_drop(self):
        print("dropped after", self.store.get("rows"), self.store.get("restored", 0), flush=True)
"""
KINDS: Final = {"stateless": "Guard", "stateful": "Count"}
numbers = itertools.count()


class Home:
    """A home, and the trigger and the device of one test."""

    def __init__(self, path: Path, connection: headrace.Connection) -> None:
        self.path = path
        self.connection = connection
        number = next(numbers)
        self.name, self.device = f"t{number}", f"root.t.d{number}"
        self.time = 0

    def create(self, kind: str, moment: str = "before") -> str:
        """Return the statement that creates the trigger."""
        return f"create {kind} trigger {self.name} {moment} insert on {self.device}.* as 'kills.{KINDS[kind]}'"

    def insert(self, value: int = 1) -> str:
        """Return the statement that inserts the next row."""
        self.time += 1
        return f"insert into {self.device}(time, a) values ({self.time}, {value})"

    def rows(self) -> int:
        """Return the number of rows."""
        return len(self.connection.execute(f"select a from {self.device}").fetchall())

    def is_shown(self) -> bool:
        """Return whether SHOW TRIGGERS has the trigger."""
        return self.name in {row[0] for row in self.connection.execute("show triggers").fetchall()}

    def trigger(self) -> RegisteredTrigger | None:
        """Return what the catalog has of the trigger."""
        return self.connection.session.context.catalog.triggers.find(self.name)

    def entries(self) -> dict[str, str]:
        """Return what the trigger has stored."""
        trigger = self.trigger()
        return {} if trigger is None else self.connection.session.context.catalog.triggers.entries(trigger.id)

    def printed(self) -> str:
        """Return what triggers have printed."""
        return "".join(path.read_text() for path in (self.path / "logs" / "code").glob("*.log"))

    def check_works(self) -> None:
        """Check that writes call the trigger, and that it prevents them as it did before."""
        self.connection.execute(self.insert())
        trigger = self.trigger()
        assert trigger is not None
        assert (trigger.state, trigger.failure_strategy) == (TriggerState.ACTIVE, FailureStrategy.PESSIMISTIC)
        with pytest.raises(TriggerFireError):
            self.connection.execute(self.insert(11))


def new_home(path: Path) -> None:
    folder = path / "ext" / "trigger"
    folder.mkdir(parents=True)
    (folder / "kills.py").write_text(CODE)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, headrace.Connection]]:
    path = tmp_path_factory.mktemp("kills") / "home"
    new_home(path)
    with headrace.connect(path, dialect="iotdb") as connection:
        connection.execute("create database root.t")
        yield path, connection
    current_hosts().close()


@pytest.fixture
def home(opened: tuple[Path, headrace.Connection]) -> Home:
    return Home(*opened)


@pytest.mark.parametrize("point", ["code.stored", "triggers.recorded", "triggers.transferring", "triggers.created"])
def test_a_process_that_is_killed_while_it_creates_leaves_no_trigger(home: Home, point: str) -> None:
    die_at(point, run, home.path, home.create("stateful"))
    assert not home.is_shown()
    home.connection.execute(home.insert(11))
    home.connection.execute(home.create("stateful"))
    home.check_works()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("point", ["triggers.dropping", "triggers.dropped"])
def test_a_drop_whose_process_is_killed_is_completed_by_a_writer(home: Home, kind: str, point: str) -> None:
    home.connection.execute(home.create(kind))
    home.connection.execute(home.insert())
    die_at(point, run, home.path, f"drop trigger {home.name}")
    home.connection.execute(home.insert(11))
    assert home.trigger() is None
    assert home.rows() == 2
    assert "dropped" in home.printed()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("moment", "point", "rows", "counted"),
    [
        ("before", "triggers.called", 0, 0),
        ("before", "triggers.stored", 0, 1),
        ("before", "triggers.checked", 0, 1),
        ("before", "triggers.written", 1, 1),
        ("after", "triggers.written", 1, 0),
        ("after", "triggers.called", 1, 0),
        ("after", "triggers.fired", 1, 1),
    ],
)
def test_a_writer_that_is_killed_leaves_rows_and_trigger(home: Home, moment: str, point: str, rows: int, counted: int) -> None:
    home.connection.execute(home.create("stateful", moment))
    die_at(point, run, home.path, home.insert())
    assert home.rows() == rows
    assert int(home.entries().get("rows", 0)) == counted
    home.check_works()
    assert int(home.entries()["rows"]) == counted + 1


def test_a_writer_that_is_killed_while_it_takes_a_trigger_over_leaves_it_active(home: Home) -> None:
    home.connection.execute(home.create("stateful"))
    die_at("triggers.transferring", run, home.path, home.insert())
    interrupted = home.trigger()
    assert interrupted is not None
    assert interrupted.state is TriggerState.TRANSFERRING
    home.check_works()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", KINDS)
def test_a_host_that_is_killed_is_replaced(home: Home, kind: str) -> None:
    home.connection.execute(home.create(kind))
    home.connection.execute(home.insert())
    with pytest.raises(TriggerFireError, match="1302: Failed to complete the insertion"):
        home.connection.execute(home.insert(-1))
    assert home.rows() == 1
    home.check_works()


@pytest.fixture
def system(tmp_path: Path) -> Iterator[Home]:
    """A home of which a test starts an snode."""
    path = tmp_path / "home"
    new_home(path)
    with headrace.connect(path, dialect="iotdb") as connection:
        connection.execute("create database root.t")
        yield Home(path, connection)
    current_hosts().close()


def start_snode(home: Home, failpoints: str = "") -> ForkServerProcess:
    """Start an snode in a process of its own, and wait until writers see it."""
    process = start(serve, home.path, failpoints=failpoints)
    wait_until(lambda: next(living_snodes(home.connection.session.context), None) is not None, "the snode")
    return process


@pytest.mark.parametrize(("point", "counted"), [("triggers.transferring", 1), ("triggers.called", 1), ("triggers.stored", 2)])
def test_an_snode_that_is_killed_loses_no_write(system: Home, point: str, counted: int) -> None:
    system.connection.execute(system.create("stateful"))
    snode = start_snode(system, f"{point}:1:kill")
    system.connection.execute(system.insert())
    snode.join()
    assert int(system.entries()["rows"]) == counted
    system.check_works()


def test_dropping_calls_the_living_instance_in_the_snode(system: Home, caplog: pytest.LogCaptureFixture) -> None:
    system.connection.execute(system.create("stateful"))
    snode = start_snode(system)
    system.connection.execute(system.insert())
    system.connection.execute(f"drop trigger {system.name}")
    snode.kill()
    snode.join()
    assert system.printed().count("dropped after 1 1") == 1
    assert "new instance" not in caplog.text


def test_dropping_calls_a_new_instance_once_the_snode_is_gone(system: Home, caplog: pytest.LogCaptureFixture) -> None:
    system.connection.execute(system.create("stateful"))
    snode = start_snode(system)
    system.connection.execute(system.insert())
    snode.kill()
    snode.join()
    system.connection.execute(f"drop trigger {system.name}")
    assert system.printed().count("dropped after 1 2") == 1
    assert f"on_drop of trigger {system.name} is called on a new instance" in caplog.text


def test_an_snode_completes_what_was_interrupted(home: Home) -> None:
    home.connection.execute(home.create("stateless"))
    die_at("triggers.dropping", run, home.path, f"drop trigger {home.name}")
    recovery = RegularWork("completion", 60, partial(complete_interrupted, home.connection.session.context))
    recovery.start()
    wait_until(lambda: home.trigger() is None, "the end of the drop")
    recovery.stop()
