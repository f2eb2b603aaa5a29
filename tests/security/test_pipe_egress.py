"""What pipes may reach: servers, files and folders that their attributes name, when they are stated and when they are used."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deltalake import DeltaTable
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import headrace
from headrace.code.downloads import download
from headrace.egress import EgressPolicy
from headrace.errors import EgressDeniedError, Error, ProgrammingError
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.builtin import BY_NAME, PLUGINS
from headrace.pipes.iotdb.connection import BrokenConnectionError
from headrace.pipes.plugins import PipeContext
from headrace.runtime.processes import find_free_port
from headrace.settings import load
from headrace.storage.delta.outbox import Message
from headrace.streams.notifications import webhook, websocket
from tests.pipes.formats.samples import device_rows
from tests.pipes.running import created, delivery
from tests.security.names import Names
from tests.support.waiting import wait_until

MESSAGES = [Message("s", 1, 0, b"{}")]
NO_SOURCE = "WITH SOURCE ('source'='do-nothing-source')"


class Receiver:
    """A server that accepts connections, and closes each after its first bytes."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.received: list[bytes] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._server.accept()
            with connection:
                first = connection.recv(4096)
                if first == b"end":
                    return
                self.received.append(first)

    def close(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            last.sendall(b"end")
        self._thread.join()
        self._server.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with closing(Receiver()) as receiver:
        yield receiver


def sinks(port: int) -> dict[str, str]:
    """Return sinks whose receiver listens on a port."""
    return {
        "iotdb-thrift-sink": f"'sink.node-urls'='127.0.0.1:{port}'",
        "kafka-sink": f"'bootstrap.servers'='127.0.0.1:{port}', 'topic'='t', 'topic.create'='true'",
        "mqtt-sink": f"'host'='127.0.0.1', 'port'='{port}'",
    }


@pytest.fixture
def users(tmp_path: Path) -> Iterator[tuple[headrace.Connection, headrace.Connection]]:
    """Connections of root and of a user who may use pipes and nothing else."""
    with headrace.connect(tmp_path / "home", dialect="iotdb") as root:
        root.execute("CREATE USER pipe1 'secret12'")
        root.execute("GRANT USE_PIPE ON root.** TO USER pipe1")
        with headrace.connect(tmp_path / "home", dialect="iotdb", user="pipe1", password="secret12") as user:
            yield root, user


def test_pipes_connect_to_nothing_that_is_not_listed(users: tuple[headrace.Connection, ...], receiver: Receiver) -> None:
    for connection in users:
        for name, attributes in sinks(receiver.port).items():
            with pytest.raises(EgressDeniedError, match="HEADRACE_EGRESS does not allow"):
                connection.execute(f"CREATE PIPE p {NO_SOURCE} WITH SINK ('sink'='{name}', {attributes})")
    users[1].execute(f"CREATE PIPE p {NO_SOURCE} WITH SINK ('sink'='do-nothing-sink')")
    for name, attributes in sinks(receiver.port).items():
        with pytest.raises(EgressDeniedError):
            users[0].execute(f"ALTER PIPE p REPLACE SINK ('sink'='{name}', {attributes})")
    for source in ("'source'='kafka-source', 'topics'='t', 'bootstrap.servers'", "'source'='iotdb-session-source', 'node-urls'"):
        named = f"{source}='127.0.0.1:{receiver.port}'"
        with pytest.raises(EgressDeniedError):
            users[1].execute(f"CREATE PIPE q WITH SOURCE ({named}) WITH SINK ('sink'='do-nothing-sink')")
    assert receiver.received == []


def test_pipes_connect_to_what_is_listed(tmp_path: Path, receiver: Receiver) -> None:
    settings = load(home=tmp_path, egress=f"iotdb=127.0.0.1:{receiver.port}")
    with headrace.connect(settings=settings, dialect="iotdb") as connection:
        connection.execute("CREATE USER user1 'secret12'")
        listed, other = list(sinks(receiver.port).items())[:2]
        with pytest.raises(Error, match="are not available"):
            connection.execute(f"CREATE PIPE p {NO_SOURCE} WITH SINK ('sink'='{listed[0]}', {listed[1]})")
        with pytest.raises(EgressDeniedError):
            connection.execute(f"CREATE PIPE p {NO_SOURCE} WITH SINK ('sink'='{other[0]}', {other[1]})")
    assert len(receiver.received) >= 1


@pytest.mark.parametrize("name", ["iotdb-thrift-sink", "kafka-sink", "mqtt-sink"])
def test_drivers_ask_again_when_they_connect(name: str, receiver: Receiver) -> None:
    attributes = {
        "iotdb-thrift-sink": {"sink.node-urls": f"localhost:{receiver.port}"},
        "kafka-sink": {"bootstrap.servers": f"localhost:{receiver.port}", "topic": "t"},
        "mqtt-sink": {"host": "localhost", "port": str(receiver.port)},
    }[name]
    is_open = [True]
    settings = load()
    context = cast(Any, SimpleNamespace(settings=settings, egress=EgressPolicy(settings, lambda: is_open[0])))
    with closing(BY_NAME[name].create()(PipeAttributes(attributes), PipeContext(context, "pipe-1", "p"))) as sink:
        is_open[0] = False
        with pytest.raises(EgressDeniedError):
            sink.handshake()
    assert receiver.received == []


def open_pipe(name: str, port: int, egress: EgressPolicy) -> None:
    attributes = {
        "iotdb-thrift-sink": {"sink.node-urls": f"a.example.com:{port}"},
        "kafka-sink": {"bootstrap.servers": f"a.example.com:{port}", "topic": "t"},
        "mqtt-sink": {"host": "a.example.com", "port": str(port)},
    }
    with closing(created(name, attributes[name], egress=egress)) as sink:
        sink.handshake()


OPENERS: dict[str, Callable[[int, EgressPolicy], Any]] = {
    "notify": lambda port, egress: websocket.connect(f"ws://a.example.com:{port}/", egress),
    "webhook": lambda port, egress: list(webhook.WebhookChannel(f"http://a.example.com:{port}/", egress).send(MESSAGES)),
    "code": lambda port, egress: download(f"https://a.example.com:{port}/double.py", egress),
    **{name: partial(open_pipe, name) for name in ("iotdb-thrift-sink", "kafka-sink", "mqtt-sink")},
}


@pytest.mark.parametrize("name", OPENERS)
def test_a_listed_name_that_begins_to_resolve_to_this_machine_leads_nowhere(
    name: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names)
    monkeypatch.setenv("no_proxy", "*")
    listed = EgressPolicy(load(egress=f"*.example.com, https://a.example.com:{receiver.port}/"), lambda: False)
    for address in ("127.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"):
        names.addresses["a.example.com"] = (address,)
        with pytest.raises(EgressDeniedError, match=r"which is|does not allow"):
            OPENERS[name](receiver.port, listed)
    assert receiver.received == []


def test_an_iotdb_client_of_a_user_is_not_limited(receiver: Receiver) -> None:
    from headrace.pipes.iotdb.connection import Connection, Login, Node

    with pytest.raises(BrokenConnectionError):
        Connection(Node("127.0.0.1", receiver.port), Login("root", "root"))
    wait_until(lambda: receiver.received, "the client to connect")


def test_every_plugin_that_leads_outside_says_where_to() -> None:
    inside = {"iotdb-source", "table-source", "write-back-sink"}
    for plugin in PLUGINS:
        is_inside = plugin.name in inside or "do-nothing" in plugin.name or plugin.stage == "processor"
        assert (plugin.endpoints is None) is is_inside, plugin.name


# Options of native libraries


@pytest.mark.parametrize(
    "key",
    [
        *("producer.plugin.library.paths", "sink.producer.plugin.library.paths", "consumer.plugin.library.paths"),
        *("sasl.kerberos.kinit.cmd", "sasl.kerberos.keytab", "producer.sasl.kerberos.kinit.cmd", "sasl.kerberos.principal"),
        *("ssl.engine.location", "ssl.providers", "ssl.engine.id", "sasl.oauthbearer.assertion.private.key.file"),
        *("sasl.oauthbearer.assertion.file", "sasl.oauthbearer.metadata.authentication.type", "sasl.oauthbearer.config"),
        *("producer.bootstrap.servers", "producer.metadata.broker.list", "producer.debug", "producer.log_level"),
        *("producer.request.required.acks", "producer.transactional.id", "producer.nonsense", "security.nonsense"),
    ],
)
def test_only_known_settings_reach_the_client_of_kafka(key: str) -> None:
    sink = {"bootstrap.servers": "h:1", "topic": "t", key: "x"}
    source = {"bootstrap.servers": "h:1", "topics": "t", key: "x"}
    for name, attributes in {"kafka-sink": sink, "kafka-source": source}.items():
        with pytest.raises(ProgrammingError, match="is not supported"):
            BY_NAME[name].validate()(PipeAttributes(attributes))


def test_servers_of_kafka_are_read_as_its_client_reads_them(receiver: Receiver) -> None:
    del receiver
    from headrace.pipes.kafka_settings import servers_of

    targets = [endpoint.target for endpoint in servers_of(" A.example.com , SASL_SSL://b:1,[::1]:9,127.1:2,")]
    assert targets == ["A.example.com:9092", "b:1", "[::1]:9", "127.1:2"]
    for text in ("h:0", "h:x", "a b:1", ":9092"):
        with pytest.raises(ProgrammingError):
            servers_of(text)


def test_a_server_that_hands_out_tokens_has_to_be_listed(tmp_path: Path) -> None:
    attributes = (
        "'bootstrap.servers'='h:1', 'topic'='t', 'security.protocol'='SASL_PLAINTEXT', 'sasl.mechanism'='OAUTHBEARER', "
        "'sasl.oauthbearer.method'='oidc', 'sasl.oauthbearer.token.endpoint.url'='https://169.254.169.254/token'"
    )
    with headrace.connect(tmp_path, dialect="iotdb") as connection, pytest.raises(EgressDeniedError, match="oauth at https://169"):
        connection.execute(f"CREATE PIPE p {NO_SOURCE} WITH SINK ('sink'='kafka-sink', {attributes})")


# Files and folders


@pytest.mark.parametrize(
    "attributes",
    [
        "'sink'='iotdb-thrift-ssl-sink', 'sink.node-urls'='h:1', 'sink.ssl.trust-store-path'='{0}', 'sink.ssl.trust-store-pwd'='x'",
        "'sink'='mqtt-sink', 'ssl.enable'='true', 'ssl.trust-store-path'='{0}'",
        "'sink'='kafka-sink', 'bootstrap.servers'='h:1', 'topic'='t', 'ssl.ca.location'='{0}'",
        "'sink'='kafka-sink', 'bootstrap.servers'='h:1', 'topic'='t', 'producer.ssl.key.location'='{0}'",
    ],
)
def test_files_are_read_from_listed_folders_only(attributes: str, tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home", egress="*", external_locations=str(tmp_path / "certificates"))
    with headrace.connect(settings=settings, dialect="iotdb") as connection:
        for path in ("/etc/passwd", f"{tmp_path}/home/secret.key", f"{tmp_path}/certificates/../missing.pem"):
            with pytest.raises(EgressDeniedError, match="HEADRACE_EXTERNAL_LOCATIONS"):
                connection.execute(f"CREATE PIPE p {NO_SOURCE} WITH SINK ({attributes.format(path)})")


def test_folders_of_tables_are_listed_and_never_those_of_the_home(users: tuple[headrace.Connection, ...], tmp_path: Path) -> None:
    root, user = users
    with headrace.connect(tmp_path / "home", dialect="tdengine") as tables:
        tables.execute("CREATE DATABASE ops")
        tables.execute("CREATE STABLE ops.alarms (ts TIMESTAMP, eur INT) TAGS (k INT)")
    (rows,) = (tmp_path / "home/tables/ops/alarms").glob("rows*")
    os.symlink(rows, tmp_path / "link")
    before = sorted(os.listdir(rows))
    for uri in (tmp_path / "loot", rows, f"file://{rows}", tmp_path / "link", tmp_path / "home/tables/new"):
        for connection in (user, root):
            with pytest.raises(EgressDeniedError, match="HEADRACE_EXTERNAL_LOCATIONS"):
                connection.execute(f"CREATE PIPE leak {NO_SOURCE} WITH SINK ('sink'='delta-sink', 'sink.uri'='{uri}')")
    assert sorted(os.listdir(rows)) == before
    assert not (tmp_path / "loot").exists()


def test_a_folder_that_becomes_a_link_is_not_written(tmp_path: Path) -> None:
    settings = load(home=tmp_path / "home", external_locations=str(tmp_path / "lake"))
    context = cast(Any, SimpleNamespace(settings=settings, egress=EgressPolicy(settings, lambda: False)))
    attributes = PipeAttributes({"sink.uri": str(tmp_path / "lake/plant"), "sink.partition-by-day": "false"})
    sink = BY_NAME["delta-sink"].create()(attributes, PipeContext(context, "pipe-1", "p"))
    sink.handshake()
    rows = device_rows([1], ["root.sg.d1"], s1=[0.5])
    sink.transfer(delivery(rows))
    (tmp_path / "lake/plant").rename(tmp_path / "elsewhere")
    (tmp_path / "lake/plant").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EgressDeniedError):
        sink.transfer(delivery(rows, batch=1))
    assert DeltaTable(str(tmp_path / "elsewhere")).to_pyarrow_table().num_rows == 1


# The sink that listens


def test_a_websocket_sink_beyond_this_machine_needs_a_password() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "db.example.com"):
        with pytest.raises(ProgrammingError, match="needs a password"):
            BY_NAME["websocket-sink"].validate()(PipeAttributes({"websocket.host": host}))
        BY_NAME["websocket-sink"].validate()(PipeAttributes({"websocket.host": host, "password": "secret12"}))
    for host in ("127.0.0.1", "::1", "localhost"):
        BY_NAME["websocket-sink"].validate()(PipeAttributes({"websocket.host": host}))


def test_a_websocket_sink_turns_pages_of_other_origins_away() -> None:
    port = find_free_port()
    attributes = {"websocket.port": str(port), "websocket.origins": "https://plant.example.com"}
    with closing(created("websocket-sink", attributes)) as sink:
        sink.handshake()
        url = f"ws://127.0.0.1:{port}"
        for origin in ("https://attacker.example.net", "null"):
            with pytest.raises(InvalidStatus, match="403"):
                connect(url, proxy=None, additional_headers={"Origin": origin})
        connect(url, proxy=None, additional_headers={"Origin": "https://plant.example.com"}).close()
        connect(url, proxy=None).close()


def test_addresses_to_listen_on_have_to_be_listed(users: tuple[headrace.Connection, ...]) -> None:
    for host in ("127.0.0.1", "0.0.0.0"):
        sink = f"'sink'='websocket-sink', 'websocket.host'='{host}', 'sink.password'='secret12'"
        with pytest.raises(EgressDeniedError, match="websocket at"):
            users[1].execute(f"CREATE PIPE p {NO_SOURCE} WITH SINK ({sink})")
