"""CREATE, DROP and SHOW of plugins of pipes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.code.artifacts import ArtifactStore
from headrace.code.hosts import current_hosts
from headrace.errors import Error, ExistsError, IntegrityError, InvalidCodeError, NotFoundError, ProgrammingError
from headrace.model.failpoints import FailpointError, armed
from headrace.model.pipe_plugins import RegisteredPipePlugin
from headrace.model.pipes import PipeStage
from headrace.pipes.builtin import PLUGINS
from tests.service.iotdb.processes import settle
from tests.support.forking import die_at
from tests.support.waiting import wait_until

CODE = """
from headrace.pipe import PipeProcessor, PipeSink, PipeSource
from headrace.trigger import Trigger

class Poll(PipeSource):
    def supply(self):
        return None

class Scale(PipeProcessor):
    def process_batch(self, batch, collector):
        collector.collect(batch)

class Hook(PipeSink):
    secret_attributes = ("token",)

    def transfer(self, event):
        pass

class Idle(PipeSink):
    pass

class Broken(Hook):
    def __init__(self):
        raise RuntimeError("no license")

class Exits(Hook):
    def __init__(self):
        import os
        os._exit(3)

class Alert(Trigger):
    def fire(self, tablet):
        return True

class Other:
    pass
"""
LOAD_FAILURE = r"1602: Failed to load class '{}', because it's not found in jar file or is invalid: "


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[headrace.Connection]:
    """Provide a connection to a home with plugins in its plugin folder."""
    home = tmp_path / "home"
    (home / "ext" / "pipe").mkdir(parents=True)
    (home / "ext" / "pipe" / "plugins.py").write_text(CODE)
    with headrace.connect(home, dialect="iotdb", user="vera", clock=headrace.ManualClock(1000)) as opened:
        yield opened
    current_hosts().close()


def registered(connection: headrace.Connection) -> list[RegisteredPipePlugin]:
    return connection.session.context.catalog.pipe_plugins.all()


def external(connection: headrace.Connection) -> list[tuple[str, ...]]:
    """Return what SHOW PIPEPLUGINS lists of registered plugins."""
    return [row for row in connection.execute("show pipeplugins").fetchall() if row[1] != "Builtin"]


def test_a_class_of_the_plugin_folder_is_registered(connection: headrace.Connection) -> None:
    for name in ("Scale", "Hook", "Poll"):
        connection.execute(f"create pipeplugin `my-{name}` as 'plugins.{name}'")
    assert external(connection) == [
        ("MY-HOOK", "External", "plugins.Hook", "plugins.py"),
        ("MY-POLL", "External", "plugins.Poll", "plugins.py"),
        ("MY-SCALE", "External", "plugins.Scale", "plugins.py"),
    ]
    hook, poll, scale = registered(connection)
    assert (hook.stage, poll.stage, scale.stage) == (PipeStage.SINK, PipeStage.SOURCE, PipeStage.PROCESSOR)
    assert (hook.secrets, poll.secrets, hook.owner, hook.created) == (("token",), ("password",), "vera", 1000)
    assert hook.artifact == poll.artifact


def test_built_in_plugins_are_listed_by_name(connection: headrace.Connection) -> None:
    connection.execute("create pipeplugin e as 'plugins.Hook'")
    cursor = connection.execute("show pipeplugins")
    assert [column[0] for column in cursor.description or ()] == ["PluginName", "PluginType", "ClassName", "PluginJar"]
    rows = cursor.fetchall()
    assert [row[0] for row in rows] == sorted(["E", *(plugin.name.upper() for plugin in PLUGINS if plugin.is_listed)])
    assert ("DO-NOTHING-SINK", "Builtin", "headrace.pipes.sinks.do_nothing", "") in rows
    assert not {"DO-NOTHING-SOURCE", "WEBSOCKET-SINK"} & {row[0] for row in rows}


def test_code_comes_from_a_uri(connection: headrace.Connection) -> None:
    folder = connection.session.context.settings.home_path / "ext" / "pipe"
    connection.execute(f"create pipeplugin a as 'plugins.Hook' using uri 'file:{folder}/plugins.py'")
    connection.execute("create pipeplugin b as 'plugins.Hook' using uri 'file:plugins.py'")
    assert [row[0] for row in external(connection)] == ["A", "B"]


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("", "1603: Failed to create pipe plugin, because the URI is empty."),
        ("x.jar", "1603: The scheme of URI is not set, please specify the scheme of URI."),
        ("file:///etc/passwd", "1603: Failed to get executable for PipePluginx', please check the URI."),
        ("file:missing.py", "1603: Failed to get executable for PipePluginx', please check the URI."),
    ],
)
def test_a_uri_from_which_code_cannot_be_read_is_refused(connection: headrace.Connection, uri: str, message: str) -> None:
    with pytest.raises(Error) as refused:
        connection.execute(f"create pipeplugin if not exists x as 'plugins.Hook' using uri '{uri}'")
    assert (refused.value.message, refused.value.status) == (message, 1603)
    assert refused.value.hint
    assert registered(connection) == []


@pytest.mark.parametrize(
    ("class_name", "hint"),
    [
        ("a.B", "write 'module.Class', and put the module into the folder ext/pipe of the home"),
        ("plugins.Missing", "module plugins has no class Missing"),
        ("plugins.Other", "is not a subclass of UDTF, UDAF, Trigger, PipeSource, PipeProcessor or PipeSink"),
        ("plugins.Alert", "is not a subclass of PipeSource, PipeProcessor or PipeSink"),
        ("plugins.Idle", "does not define transfer or transfer_batch"),
        ("plugins.Broken", "RuntimeError: no license"),
        ("plugins.Exits", "its code host ended with status 3"),
    ],
)
def test_a_class_that_cannot_be_loaded_is_not_registered(connection: headrace.Connection, class_name: str, hint: str) -> None:
    with pytest.raises(InvalidCodeError, match=LOAD_FAILURE.format(class_name)) as refused:
        connection.execute(f"create pipeplugin x as '{class_name}'")
    assert refused.value.status == 1602
    assert hint in refused.value.hint
    assert registered(connection) == []


def test_names_ignore_case_and_are_unique(connection: headrace.Connection) -> None:
    connection.execute("create pipeplugin Hook as 'plugins.Hook'")
    for name in ("hook", "`do-nothing-sink`", "`IOTDB-Extractor`"):
        shown = name.strip("`").upper()
        message = f"1600: Failed to create PipePlugin \\[{shown}], the same name PipePlugin has been created"
        with pytest.raises(ExistsError, match=message):
            connection.execute(f"create pipeplugin {name} as 'plugins.Poll'")
        connection.execute(f"create pipeplugin if not exists {name} as 'plugins.Poll'")
    assert [plugin.class_name for plugin in registered(connection)] == ["plugins.Hook"]
    connection.execute("drop pipeplugin hOOK")
    assert registered(connection) == []


def test_what_cannot_be_dropped_says_why(connection: headrace.Connection) -> None:
    with pytest.raises(NotFoundError, match=r"1601: Failed to drop PipePlugin \[nope], this PipePlugin has not been created"):
        connection.execute("drop pipeplugin nope")
    connection.execute("drop pipeplugin if exists nope")
    for statement in ("drop pipeplugin", "drop pipeplugin if exists"):
        message = r"1601: Failed to drop PipePlugin \[do-nothing-sink], the PipePlugin is a built-in PipePlugin"
        with pytest.raises(ProgrammingError, match=message):
            connection.execute(f"{statement} `do-nothing-sink`")


def test_other_statements_do_not_take_plugins(connection: headrace.Connection) -> None:
    uri = f"file:{connection.session.context.settings.home_path}/ext/pipe/plugins.py"
    with pytest.raises(InvalidCodeError) as refused:
        connection.execute(f"create function f as 'plugins.Hook' using uri '{uri}'")
    assert "the class is a sink: use CREATE PIPEPLUGIN" in refused.value.hint
    with pytest.raises(InvalidCodeError) as refused:
        connection.execute(f"create stateless trigger t before insert on root.** as 'plugins.Hook' using uri '{uri}'")
    assert "is not a subclass of Trigger" in refused.value.hint


def test_explain_says_where_code_is_and_does_not_run_it(connection: headrace.Connection) -> None:
    lines = [line for (line,) in connection.execute("explain create pipeplugin x as 'plugins.Exits'").fetchall()]
    path = connection.session.context.settings.home_path / "ext" / "pipe" / "plugins.py"
    assert lines == [
        f"create pipe plugin X: plugins.Exits in {path}, loaded once in a code host",
        "needs the right to create pipe plugin X",
    ]


def test_the_code_of_a_dropped_plugin_is_removed_a_day_later(connection: headrace.Connection) -> None:
    store = ArtifactStore.of(connection.session.context.settings)
    connection.execute("create pipeplugin x as 'plugins.Hook'")
    (kept,) = Path(store.uri).iterdir()
    assert connection.session.context.catalog.pipe_plugins.artifacts() == {kept.name}
    connection.execute("drop pipeplugin x")
    assert (kept / "plugins.py").read_text() == CODE
    assert store.collect((), grace_s=-60) == [kept.name]


@pytest.mark.parametrize("point", ["code.stored", "code.described"])
def test_a_failure_before_the_end_leaves_nothing(connection: headrace.Connection, point: str) -> None:
    with armed(f"{point}:1:raise"), pytest.raises(Error) as failed:
        connection.execute("create pipeplugin x as 'plugins.Hook'")
    assert isinstance(failed.value.__cause__, FailpointError)
    assert registered(connection) == []
    connection.execute("create pipeplugin x as 'plugins.Hook'")
    assert [row[0] for row in external(connection)] == ["X"]


# Pipes with plugins of users

PIPE_CODE = """
from headrace.pipe import PipeProcessor, PipeSink, PipeSource, TabletEvent

class Numbers(PipeSource):
    def customize(self, parameters, runtime):
        self.limit = parameters.get_int("limit")
        self.next = runtime.position or 0

    def supply(self):
        if self.next == self.limit:
            return None
        self.next += 1
        return TabletEvent.of("root.in.d", [self.next], {"n": [self.next]})

    def position(self):
        return self.next

class Sum(PipeProcessor):
    def customize(self, parameters, runtime):
        self.factor = parameters.get_int_or_default("factor", 1)

    def validate(self, validator):
        validator.validate(lambda factor: factor != 0, "factor must not be 0", validator.get_parameters().get_int("factor"))

    def process(self, tablet, collector):
        for row in tablet:
            total = self.store.get("total", 0) + row["n"] * self.factor
            self.store.put("total", total)
            collector.collect(TabletEvent.of("root.out.d", [row.time], {"total": [total]}))

class Refusing(PipeSink):
    secret_attributes = ("token",)

    def customize(self, parameters, runtime):
        self.token = parameters.get_string("token")

    def handshake(self):
        if self.token != "s3cret":
            raise ConnectionError(f"{self.token} is refused")

    def transfer(self, event):
        raise OSError("the receiver is full")
"""


@pytest.fixture
def pipes(connection: headrace.Connection) -> headrace.Connection:
    """Provide the connection with plugins that run."""
    return with_running(connection)


def with_running(connection: headrace.Connection) -> headrace.Connection:
    """Register plugins that run."""
    (connection.session.context.settings.home_path / "ext" / "pipe" / "running.py").write_text(PIPE_CODE)
    for name in ("Numbers", "Sum", "Refusing"):
        connection.execute(f"create pipeplugin {name} as 'running.{name}'")
    return connection


def create_pipe(connection: headrace.Connection, limit: int = 3, processor: str = "'processor'='sum'") -> None:
    source = f"'source'='NUMBERS', 'source.limit'='{limit}'"
    stages = f"with source ({source}) with processor ({processor}) with sink ('sink'='write-back-sink')"
    connection.execute(f"create pipe p {stages}")


def totals(connection: headrace.Connection) -> list[int]:
    return [total for _, total in connection.execute("select total from root.out.d").fetchall()]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_plugins_of_users_run_in_a_pipe(pipes: headrace.Connection) -> None:
    create_pipe(pipes)
    pipes.settle()
    assert totals(pipes) == [1, 3, 6]
    pipes.execute("alter pipe p modify source ('limit'='5') modify processor ('factor'='2')")
    pipes.settle()
    assert totals(pipes) == [1, 3, 6, 14, 24]
    current_hosts().close()
    pipes.execute("alter pipe p modify source ('limit'='6')")
    pipes.settle()
    assert totals(pipes) == [1, 3, 6, 14, 24, 36]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("point", ["pipes.delivered", "pipes.checkpoint.rename"])
def test_results_are_the_same_after_a_crash_at_any_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    monkeypatch.setenv("HEADRACE_LEASE_MS", "1000")
    with headrace.connect(tmp_path, dialect="iotdb") as connection:
        (tmp_path / "ext" / "pipe").mkdir(parents=True)
        create_pipe(with_running(connection))
        connection.settle()
        connection.execute("alter pipe p modify source ('limit'='5')")
    die_at(point, settle, tmp_path)
    with headrace.connect(tmp_path, dialect="iotdb") as connection:
        connection.execute("alter pipe p modify source ('limit'='6')")  # whatever the plugin would supply now
        wait_until(lambda: delivered(connection) == 6, "the lease of the killed process ends")
        assert totals(connection) == [1, 3, 6, 10, 15, 21]
    current_hosts().close()


def delivered(connection: headrace.Connection) -> int:
    """Return how many rows the pipe has delivered."""
    connection.settle()
    return connection.session.context.catalog.jobs.get("", "p", "pipe").progress.counters.rows_out


@pytest.mark.parametrize(
    ("statement", "used_as"),
    [("drop pipeplugin numbers", "source"), ("drop pipeplugin Sum", "processor"), ("drop pipeplugin refusing", "sink")],
)
def test_a_plugin_that_a_pipe_uses_cannot_be_dropped(pipes: headrace.Connection, statement: str, used_as: str) -> None:
    create_pipe(pipes)
    pipes.execute("create pipe q ('connector'='Refusing', 'connector.token'='s3cret')")
    name = statement.split()[-1].upper()
    pipe = "q" if used_as == "sink" else "p"
    message = f"1601: PipePlugin '{name}' is already used by Pipe '{pipe}' as a {used_as}."
    with pytest.raises(IntegrityError) as refused:
        pipes.execute(statement)
    assert (refused.value.message, refused.value.hint) == (message, f"DROP PIPE {pipe} first")
    for other in ("p", "q"):
        pipes.execute(f"drop pipe {other}")
    pipes.settle()
    pipes.execute(statement)


def test_what_a_plugin_refuses_is_the_error_of_the_statement(pipes: headrace.Connection) -> None:
    with pytest.raises(ProgrammingError, match=r"^.PROGRAMMING. 1107: factor must not be 0\n"):
        create_pipe(pipes, processor="'processor'='sum', 'processor.factor'='0'")
    with pytest.raises(Error) as refused:
        pipes.execute("create pipe p ('sink'='refusing', 'sink.token'='hunter2')")
    assert refused.value.message.startswith("1107: sink plugin REFUSING of pipe p failed: ConnectionError: ****** is refused at")
    with pytest.raises(ProgrammingError, match="PipePlugin SUM has not been registered"):
        pipes.execute("create pipe p ('sink'='sum')")
    assert pipes.execute("show pipes").fetchall() == []


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_pipe_whose_plugin_fails_says_why(pipes: headrace.Connection) -> None:
    pipes.execute("create pipe p with source ('source'='numbers', 'limit'='1') with sink ('sink'='refusing', 'token'='s3cret')")
    with contextlib.suppress(Error):
        pipes.settle()
    record = pipes.session.context.catalog.jobs.get("", "p", "pipe")
    assert record.reason is not None
    expected = "sink plugin REFUSING of pipe p failed on root.in.d at time 1: OSError: the receiver is full at running.py:"
    assert expected in record.reason.message
