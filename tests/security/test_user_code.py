"""What user code reaches: nothing of the machine, no network without a grant, and nothing that would load what it leaves."""

from __future__ import annotations

import io
import socket
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import headrace
from headrace.errors import Error, InvalidCodeError
from headrace.settings import load

CONNECT = """
import socket
def connect():
    socket.create_connection(("127.0.0.1", {port})).close()
"""
CODE = {
    "udf/fetch.py": CONNECT
    + """
def init(): pass
def destroy(): pass
def process(block):
    connect()
    return [1] * block.shape()[0]
""",
    "udf/loads.py": CONNECT
    + """
from headrace.udf import UDTF
connect()
class Loads(UDTF):
    def before_start(self, parameters, configurations): pass
    def transform(self, row, collector): pass
""",
    "trigger/hooks.py": CONNECT
    + """
from headrace.trigger import Trigger
class Hook(Trigger):
    def fire(self, tablet):
        connect()
        return True
""",
    "pipe/sinks.py": CONNECT
    + """
from headrace.pipe import PipeSink
class Sink(PipeSink):
    def handshake(self):
        connect()
    def transfer(self, event): pass
""",
}
LIBRARY = b"\x7fELF\x02\x01\x01" + bytes(57)


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def write_code(home: Path, port: int) -> None:
    for name, text in CODE.items():
        path = home / "ext" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("{port}", str(port)))


def was_reached(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def create(dialect: str, home: Path, network: str) -> headrace.Connection:
    return headrace.connect(dialect=dialect, settings=load(home=home, code_network=network))


def call_function(home: Path, network: str) -> None:
    with create("tdengine", home, network) as connection:
        connection.execute("CREATE DATABASE d")
        connection.execute("CREATE TABLE d.t (ts TIMESTAMP, a INT)")
        connection.execute("INSERT INTO d.t VALUES (1, 1)")
        connection.execute("CREATE FUNCTION fetch AS 'fetch.py' OUTPUTTYPE BIGINT LANGUAGE 'Python'")
        connection.execute("SELECT fetch(a) FROM d.t").fetchall()


def load_class(home: Path, network: str) -> None:
    with create("iotdb", home, network) as connection:
        connection.execute("CREATE FUNCTION fetch AS 'loads.Loads'")


def fire_trigger(home: Path, network: str) -> None:
    with create("iotdb", home, network) as connection:
        connection.execute("CREATE STATELESS TRIGGER fetch AFTER INSERT ON root.a.** AS 'hooks.Hook'")
        connection.execute("INSERT INTO root.a.b(time, s) VALUES (1, 1)")


def create_pipe(home: Path, network: str) -> None:
    with create("iotdb", home, network) as connection:
        connection.execute("CREATE PIPEPLUGIN fetch AS 'sinks.Sink'")
        connection.execute("CREATE PIPE p WITH SINK ('sink'='fetch')")


Call = Callable[[Path, str], None]
CALLS: tuple[Call, ...] = (call_function, load_class, fire_trigger, create_pipe)


@pytest.mark.parametrize("call", CALLS)
def test_code_without_a_grant_has_no_network_and_the_error_names_the_setting(
    tmp_path: Path, server: socket.socket, call: Call
) -> None:
    for network in ("", "*/other", "another/fetch"):
        home = tmp_path / f"home{len(network)}"
        write_code(home, server.getsockname()[1])
        with pytest.raises(Error) as failure:
            call(home, network)
        assert "HEADRACE_CODE_NETWORK" in f"{failure.value.message} {failure.value.hint}"
    assert not was_reached(server)


@pytest.mark.parametrize("call", CALLS)
def test_code_with_a_grant_has_the_network(tmp_path: Path, server: socket.socket, call: Call) -> None:
    write_code(tmp_path, server.getsockname()[1])
    call(tmp_path, f"{load(home=tmp_path).login}/fetch")
    assert was_reached(server)


def polyglot() -> bytes:
    """Return a library that is also a zip, which may have anything before its files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("module.py", "")
    return LIBRARY + content.getvalue()


@pytest.mark.parametrize(("name", "content"), [("module.py", LIBRARY), ("module.zip", polyglot()), ("module.whl", LIBRARY)])
def test_no_library_becomes_an_artifact(tmp_path: Path, name: str, content: bytes) -> None:
    folder = tmp_path / "ext" / "udf"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(content)
    with closing(create("iotdb", tmp_path, "")) as connection:
        with pytest.raises(InvalidCodeError, match=f"{name} is not"):
            connection.execute(f"CREATE FUNCTION f AS 'module.F' USING URI 'file:{folder / name}'")
        assert not list(Path(connection.session.context.settings.tables_uri).rglob(name))


def test_artifacts_and_their_copies_are_for_their_owner_alone(tmp_path: Path, server: socket.socket) -> None:
    write_code(tmp_path, server.getsockname()[1])
    call_function(tmp_path, "*")
    artifacts = list(tmp_path.rglob("*/fetch.py"))
    artifacts.remove(tmp_path / "ext" / "udf" / "fetch.py")
    assert len(artifacts) == 2
    assert {(path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) for path in artifacts} == {(0o600, 0o700)}
