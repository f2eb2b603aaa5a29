"""CREATE TRIGGER and its siblings, and the calls of triggers by writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headrace
from headrace.code.hosts import current_hosts
from headrace.errors import Error, ExistsError, InvalidCodeError, NotFoundError, ProgrammingError, TriggerFireError, UserCodeError
from headrace.model.failpoints import FailpointError, calling

CODE = '''
import os

from headrace.trigger import FailureStrategy, Trigger

class Copy(Trigger):
    """Writes what it gets to root.log."""

    def validate(self, attributes):
        if not attributes.has_attribute("name"):
            raise ValueError("a name is missing")

    def on_create(self, attributes):
        self.name = attributes.get_string("name")
        self.calls = 0

    def fire(self, tablet):
        self.calls += 1
        node = tablet.device_id.rpartition(".")[2]
        values = {measurement: str(row) for measurement, *row in zip(tablet.measurements, *zip(*tablet.values))}
        self.insert(f"root.log.{self.name}.{node}", self.calls, {"rows": len(tablet), "times": str(tablet.timestamps), **values})
        return True

class Limit(Trigger):
    def on_create(self, attributes):
        self.strategy = attributes.get_string_or_default("strategy", "OPTIMISTIC")

    def fire(self, tablet):
        return all(value is None or value < 10 for column in tablet.values for value in column)

    def get_failure_strategy(self):
        return FailureStrategy(self.strategy)

    def on_drop(self):
        raise OSError("cannot be dropped")

class Count(Trigger):
    def restore(self):
        self.store.put("restored", self.store.get("restored", 0) + 1)

    def fire(self, tablet):
        self.store.put("n", self.store.get("n", 0) + len(tablet))
        self.insert("root.log.count", self.store.get("n"), {"restored": self.store.get("restored", 0)})
        return True

class Where(Trigger):
    """Writes which process has started its host."""

    def fire(self, tablet):
        self.insert("root.log.parents", tablet.timestamps[0], {"process": os.getppid()})
        return True

class Other:
    pass
'''
SHOWN = ("TriggerName", "Event", "Type", "State", "PathPattern", "ClassName", "NodeId")


@pytest.fixture
def triggers(connection: headrace.Connection) -> Iterator[headrace.Connection]:
    """The connection with a database for what triggers write, and their code in the plugin folder."""
    folder = connection.session.context.settings.home_path / "ext" / "trigger"
    folder.mkdir(parents=True)
    (folder / "examples.py").write_text(CODE)
    connection.execute("create database root.log")
    connection.execute("create database root.t")
    yield connection
    current_hosts().close()


def create(connection: headrace.Connection, name: str, class_name: str, rest: str = "", **options: str) -> None:
    moment, pattern = options.get("moment", "before"), options.get("pattern", "root.t.**")
    kind = options.get("kind", "stateless")
    connection.execute(f"create {kind} trigger {name} {moment} insert on {pattern} as 'examples.{class_name}' {rest}")


def log(connection: headrace.Connection, name: str, node: str = "d") -> list[tuple[object, ...]]:
    """Return the rows that `Copy` has written, without the time."""
    cursor = connection.execute(f"select rows, times, a, b from root.log.{name}.{node}")
    names = [column[0].rpartition(".")[2] for column in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return [tuple(row.get(name) for name in ("rows", "times", "a", "b")) for row in rows]


def test_triggers_are_shown_until_they_are_dropped(triggers: headrace.Connection) -> None:
    create(triggers, "T", "Copy", "with ('name'='x')")
    create(triggers, "t", "Count", kind="stateful", moment="after", pattern="root.t.d.a")
    cursor = triggers.execute("show triggers")
    assert tuple(column[0] for column in cursor.description or ()) == SHOWN
    first, second = cursor.fetchall()
    assert first == ("T", "BEFORE_INSERT", "STATELESS", "ACTIVE", "root.t.**", "examples.Copy", "ALL")
    assert second[:-1] == ("t", "AFTER_INSERT", "STATEFUL", "ACTIVE", "root.t.d.a", "examples.Count")
    triggers.execute("drop trigger T")
    assert [row[0] for row in triggers.execute("show triggers").fetchall()] == ["t"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_trigger_gets_the_matched_measurements_of_all_rows(triggers: headrace.Connection) -> None:
    create(triggers, "all_of_it", "Copy", "with ('name'='everything')")
    create(triggers, "only_a", "Copy", "with ('name'='a')", moment="after", pattern="root.*.d.a")
    triggers.execute("insert into root.t.d(time, a, b) values (1, 1.5, 2), (2, null, 3)")
    triggers.execute("insert into root.t.d(time, b) values (3, 4)")
    triggers.execute("insert into root.other.d(time, b) values (3, 4)")
    assert log(triggers, "everything") == [
        (2.0, "[1, 2]", "[1.5, None]", "[2.0, 3.0]"),
        (1.0, "[3]", None, "[4.0]"),
    ]
    assert log(triggers, "a") == [(2.0, "[1, 2]", "[1.5, None]", None)]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_failure_of_an_optimistic_trigger_leaves_the_rows(triggers: headrace.Connection) -> None:
    create(triggers, "limit", "Limit")
    triggers.execute("insert into root.t.d(time, a) values (1, 9)")
    with pytest.raises(
        TriggerFireError, match="1302: Meet trigger error before/after the insertion, the insertion itself is"
    ) as failure:
        triggers.execute("insert into root.t.d(time, a) values (2, 10)")
    assert failure.value.is_written
    assert "trigger limit for root.t.d failed: fire returned False" in failure.value.hint
    assert count(triggers) == 2


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_failure_of_a_pessimistic_trigger_before_the_write_prevents_it(triggers: headrace.Connection) -> None:
    create(triggers, "limit", "Limit", "with (strategy=PESSIMISTIC)")
    with pytest.raises(
        TriggerFireError, match="1302: Failed to complete the insertion because trigger error before the"
    ) as failure:
        triggers.execute("insert into root.t.d(time, a) values (2, 10)")
    assert not failure.value.is_written
    assert count(triggers) == 0
    create(triggers, "later", "Limit", "with (strategy=PESSIMISTIC)", moment="after", pattern="root.t.e.*")
    with pytest.raises(TriggerFireError) as late:
        triggers.execute("insert into root.t.e(time, a) values (2, 10)")
    assert not late.value.is_written
    triggers.execute("drop trigger limit")
    with pytest.raises(TriggerFireError) as late:
        triggers.execute("insert into root.t.e(time, a) values (2, 10)")
    assert late.value.is_written


def count(connection: headrace.Connection) -> int:
    """Return the number of rows of root.t.d."""
    return len(connection.execute("select a from root.t.d").fetchall())


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_loads_and_into_call_triggers(triggers: headrace.Connection, tmp_path: Path) -> None:
    create(triggers, "loaded", "Copy", "with (name=loaded)", pattern="root.t.*.a")
    path = tmp_path / "rows.csv"
    path.write_text("time,device,a,b\n1,root.t.d,1.5,2\n2,root.t.d,2.5,\n1,root.t.e,3.5,4\n")
    assert triggers.load(path, "root.t") == 3
    assert log(triggers, "loaded") == [(2.0, "[1, 2]", "[1.5, 2.5]", None)]
    assert log(triggers, "loaded", "e") == [(1.0, "[1]", "[3.5]", None)]
    triggers.append([{"time": 7, "device": "root.t.f", "a": 1.5}], "root.t")
    assert log(triggers, "loaded", "f") == [(1.0, "[7]", "[1.5]", None)]
    triggers.execute("select a into root.t.g(a) from root.t.d")
    assert log(triggers, "loaded", "g") == [(2.0, "[1, 2]", "[1.5, 2.5]", None)]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("setting", ["small_write_rows", "driver_rows"])
def test_large_writes_call_triggers(triggers: headrace.Connection, tmp_path: Path, setting: str) -> None:
    settings = triggers.session.context.settings.replace({setting: 1})
    path = tmp_path / "rows.csv"
    path.write_text("time,device,a\n1,root.t.d,1.5\n2,root.t.d,2.5\n")
    create(triggers, "large", "Copy", "with (name=large)", moment="after", pattern="root.t.**")
    with headrace.connect(dialect="iotdb", settings=settings) as connection:
        connection.load(path, "root.t")
        assert log(triggers, "large")[0][1] == "[1, 2]"
        connection.execute("select a into root.t.h(a) from root.t.d")
    assert log(triggers, "large", "h")[0][1] == "[1, 2]"


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_tasks_of_spark_call_stateless_triggers(triggers: headrace.Connection, tmp_path: Path) -> None:
    settings = triggers.session.context.settings.replace({"small_write_rows": 1, "driver_rows": 1})
    path = tmp_path / "rows.csv"
    path.write_text("time,device,a\n1,root.t.d,1.5\n2,root.t.d,12.5\n")
    create(triggers, "where", "Where", moment="after")
    create(triggers, "total", "Count", kind="stateful", moment="after")
    with headrace.connect(dialect="iotdb", settings=settings) as connection:
        connection.load(path, "root.t")
        connection.execute("select a into root.t.h(a) from root.t.d")
        create(connection, "limit", "Limit", "with (strategy=PESSIMISTIC)")
        with pytest.raises(TriggerFireError, match="trigger error before the insertion") as failure:
            connection.load(path, "root.t")
        assert "trigger limit for root.t.d failed: fire returned False" in failure.value.hint
        with pytest.raises(TriggerFireError, match="trigger error before the insertion"):
            connection.execute("select a into root.t.i(a) from root.t.d")
    processes = {row[1] for row in triggers.execute("select process from root.log.parents").fetchall()}
    assert processes
    assert os.getpid() not in processes
    counted = {row[0]: row[9:11] for row in triggers.execute("show triggers details").fetchall()}
    assert counted == {"where": (2, 0), "total": (2, 0), "limit": (2, 2)}
    assert triggers.execute("select a from root.t.i").fetchall() == []


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_continuous_queries_call_triggers_and_do_not_fail_with_them_once_written(triggers: headrace.Connection) -> None:
    clock = triggers.clock
    create(triggers, "limit", "Limit", moment="after", pattern="root.t.out.**")
    triggers.execute("create cq c resample every 1m begin select max_value(a) into root.t.out(a) from root.t.d group by (1m) end")
    triggers.execute(f"insert into root.t.d(time, a) values ({clock.now()}, 11)")
    clock.advance(120_000)
    triggers.settle()
    assert [row[:3] for row in triggers.execute("select a from root.t.out").fetchall()] != []
    states = {row[4] for row in triggers.execute("show cq executions c").fetchall()}
    assert "FAILED" not in states
    assert triggers.execute("show triggers details").fetchall()[0][10] > 0


def test_calls_and_failures_are_counted(triggers: headrace.Connection) -> None:
    create(triggers, "limit", "Limit")
    triggers.execute("insert into root.t.d(time, a) values (1, 9)")
    with pytest.raises(TriggerFireError):
        triggers.execute("insert into root.t.d(time, a) values (2, 10)")
    cursor = triggers.execute("show triggers details")
    row = dict(zip([column[0] for column in cursor.description or ()], cursor.fetchall()[0], strict=True))
    assert (row["Calls"], row["Failures"], row["FailureStrategy"], row["Reason"]) == (2, 1, "OPTIMISTIC", None)
    assert "fire returned False" in row["LastError"]
    assert row["LastErrorTime"] is not None


def test_a_stopped_trigger_is_not_called(triggers: headrace.Connection) -> None:
    create(triggers, "limit", "Limit")
    triggers.execute("stop trigger limit")
    assert triggers.execute("show triggers").fetchall()[0][3] == "INACTIVE"
    triggers.execute("insert into root.t.d(time, a) values (1, 10)")
    triggers.execute("start trigger limit")
    with pytest.raises(TriggerFireError):
        triggers.execute("insert into root.t.d(time, a) values (1, 10)")
    with pytest.raises(NotFoundError, match=r"Failed to stop trigger \[LIMIT\]"):
        triggers.execute("stop trigger LIMIT")


def test_a_trigger_that_fails_again_and_again_is_stopped_if_the_settings_say_so(triggers: headrace.Connection) -> None:
    context = triggers.session.context
    limited = context.settings.replace({"trigger_max_failures": 2})
    with headrace.connect(dialect="iotdb", settings=limited) as connection:
        create(connection, "limit", "Limit")
        for value in (10, 1, 10, 10):
            try:
                connection.execute(f"insert into root.t.d(time, a) values (1, {value})")
            except TriggerFireError:
                assert value == 10
        connection.execute("insert into root.t.d(time, a) values (1, 10)")
        reason = connection.execute("show triggers details").fetchall()[0][-1]
    assert "it failed 2 times in a row" in reason


def test_a_stateful_trigger_keeps_what_it_stores_when_another_process_takes_it_over(triggers: headrace.Connection) -> None:
    create(triggers, "count", "Count", kind="stateful", moment="after")
    triggers.execute("insert into root.t.d(time, a) values (1, 1), (2, 2)")
    current_hosts().close()
    triggers.execute("insert into root.t.d(time, a) values (3, 3)")
    trigger = triggers.session.context.catalog.triggers.get("count")
    assert triggers.session.context.catalog.triggers.entries(trigger.id) == {"n": "3", "restored": "1"}
    assert trigger.state.value == "ACTIVE"
    triggers.session.context.catalog.triggers.change(trigger.id, node="another process")
    triggers.execute("insert into root.t.d(time, a) values (4, 4)")
    assert triggers.session.context.catalog.triggers.entries(trigger.id) == {"n": "4", "restored": "2"}


@pytest.mark.parametrize("uri", ["", "examples.py", "ftp://host/a.py"])
def test_uris_are_checked(triggers: headrace.Connection, uri: str) -> None:
    with pytest.raises(ProgrammingError, match="1304: "):
        create(triggers, "t", "Copy", f"using uri '{uri}'")


REFUSED = {
    "create stateless trigger t before insert on root.** as 'examples.Missing'": "1303: Failed to load class 'examples.Missing'",
    "create stateless trigger t before insert on root.** as 'examples.Other'": "1303: Failed to load class 'examples.Other'",
    "create stateless trigger t before insert on root.** as 'nowhere.Copy'": "1303: Failed to load class 'nowhere.Copy'",
    "create stateless trigger t before insert on root.** as 'examples.Copy'": r"1300: .*\[t\].*a name is missing",
    "drop trigger t": r"1301: Failed to drop trigger \[t\], this trigger has not been created",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_fails_leaves_nothing(triggers: headrace.Connection, sql: str) -> None:
    with pytest.raises((InvalidCodeError, UserCodeError, NotFoundError), match=REFUSED[sql]):
        triggers.execute(sql)
    assert triggers.execute("show triggers").fetchall() == []


STEPS = ("triggers.recorded", "triggers.created")


@pytest.mark.parametrize(
    ("kind", "point"),
    [*(("stateless", step) for step in STEPS), *(("stateful", step) for step in (*STEPS, "triggers.transferring"))],
)
def test_an_interrupted_creation_can_be_repeated(triggers: headrace.Connection, kind: str, point: str) -> None:
    with failing(point), pytest.raises(Error):
        create(triggers, "limit", "Limit", kind=kind)
    assert triggers.execute("show triggers").fetchall() == []
    triggers.execute("insert into root.t.d(time, a) values (1, 10)")
    create(triggers, "limit", "Limit", kind=kind)
    with pytest.raises(TriggerFireError):
        triggers.execute("insert into root.t.d(time, a) values (1, 10)")


@pytest.mark.parametrize("point", ["triggers.dropping", "triggers.dropped"])
def test_an_interrupted_drop_is_completed_by_the_next_write(triggers: headrace.Connection, point: str) -> None:
    create(triggers, "limit", "Limit")
    with failing(point), pytest.raises(Error):
        triggers.execute("drop trigger limit")
    assert triggers.execute("show triggers").fetchall()[0][3] == "DROPPING"
    triggers.execute("insert into root.t.d(time, a) values (1, 10)")
    assert triggers.execute("show triggers").fetchall() == []


@pytest.mark.parametrize("statement", ["start trigger limit", "stop trigger limit"])
def test_a_trigger_whose_drop_was_interrupted_does_not_start_again(triggers: headrace.Connection, statement: str) -> None:
    create(triggers, "limit", "Limit")
    with failing("triggers.dropping"), pytest.raises(Error):
        triggers.execute("drop trigger limit")
    with pytest.raises(NotFoundError, match=r"trigger \[limit\], this trigger has not been created"):
        triggers.execute(statement)
    create(triggers, "limit", "Limit")
    assert triggers.execute("show triggers").fetchall()[0][3] == "ACTIVE"


@contextmanager
def failing(point: str) -> Iterator[None]:
    """Raise an exception at a failpoint, which leaves what a process leaves that dies there."""

    def fail() -> None:
        raise FailpointError(point)

    with calling(point, fail):
        yield


def test_a_name_is_taken_once(triggers: headrace.Connection) -> None:
    create(triggers, "limit", "Limit")
    with pytest.raises(ExistsError, match=r"1300: Failed to create trigger \[limit\], the same name trigger has been created"):
        create(triggers, "limit", "Limit")


def test_a_file_elsewhere_is_not_read(triggers: headrace.Connection, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.py"
    path.write_text(CODE)
    with pytest.raises(Error, match=r"1304: Failed to get executable for Trigger 'file:.*', please check the URI\."):
        create(triggers, "t", "Copy", f"using uri 'file:{path}'")


def test_explain_says_what_creating_a_trigger_does(triggers: headrace.Connection) -> None:
    lines = [
        line
        for (line,) in triggers.execute(
            "explain create stateless trigger t after insert on root.t.** as 'examples.Limit'"
        ).fetchall()
    ]
    assert lines[0].startswith("create stateless trigger t after insert on root.t.**: examples.Limit in ")
    assert lines[-1] == "needs the right to create trigger t, USE_TRIGGER, READ_DATA on root.t.**"


def test_explain_names_the_triggers_that_an_insert_calls(triggers: headrace.Connection) -> None:
    create(triggers, "b", "Limit", "with (strategy=PESSIMISTIC)", pattern="root.t.d.a")
    create(triggers, "a", "Limit", moment="after", pattern="root.t.**")
    create(triggers, "c", "Count", kind="stateful", pattern="root.t.**")
    create(triggers, "other", "Limit", pattern="root.t.d.b")
    lines = [line for (line,) in triggers.execute("explain insert into root.t.d(time, a, b) values (1, 1, null)").fetchall()]
    written = next(number for number, line in enumerate(lines) if line.startswith("write 1 rows of root.t.d"))
    assert lines[written - 2 : written] == [
        "call stateless trigger b before the write; if it fails: PESSIMISTIC",
        "call stateful trigger c before the write; if it fails: OPTIMISTIC",
    ]
    assert lines[written + 1] == "call stateless trigger a after the write; if it fails: OPTIMISTIC"
    assert not any("other" in line for line in lines)
