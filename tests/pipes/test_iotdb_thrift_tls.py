"""The sink to IoTDB with TLS, by trust stores of all formats. The server has times in microseconds."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.errors import ConfigurationError, OperationalError
from headrace.model.time import Precision
from headrace.model.types import DOUBLE
from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.events import DeviceRows, InsertEvent, Measurement
from headrace.pipes.iotdb.connection import Connection, Login, Node
from headrace.pipes.iotdb.queries import query
from headrace.pipes.iotdb.tls import client_context, read_trust_store
from headrace.pipes.plugins import Delivery
from tests.pipes.thrift import sink
from tests.support.iotdb_server import required_libraries, running_server

PASSWORD = "changeit"
pytestmark = [pytest.mark.timeout(600), pytest.mark.skipif(shutil.which("keytool") is None, reason="there is no keytool")]


@dataclass(frozen=True)
class Stores:
    """The keys of a server, and trust stores with its certificate by format."""

    keys: Path
    trusted: dict[str, Path]
    foreign: Path


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments, "-storepass", PASSWORD], check=True, capture_output=True)


def generate(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the files of a new key and of its certificate."""
    keys, certificate = folder / f"{name}.p12", folder / f"{name}.pem"
    subject = ("-dname", "CN=server.example", "-keypass", PASSWORD, "-validity", "3650")
    keytool("-genkeypair", "-alias", name, "-keyalg", "EC", "-keystore", str(keys), *subject)
    keytool("-exportcert", "-rfc", "-alias", name, "-keystore", str(keys), "-file", str(certificate))
    return keys, certificate


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    folder = tmp_path_factory.mktemp("stores")
    keys, certificate = generate(folder, "server")
    _, foreign = generate(folder, "other")
    trusted = {"PEM": certificate}
    for kind in ("JKS", "PKCS12"):
        trusted[kind] = folder / f"trusted.{kind}"
        importing = ("-importcert", "-noprompt", "-alias", "server", "-file", str(certificate), "-storetype", kind)
        keytool(*importing, "-keystore", str(trusted[kind]))
    return Stores(keys, trusted, foreign)


def test_stores_of_all_formats_have_the_same_certificate(stores: Stores) -> None:
    contents = [read_trust_store(str(path), PASSWORD) for path in stores.trusted.values()]
    assert len(contents) == 3
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) == 1


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_wrong_password_of_a_store_is_an_error_that_does_not_show_it(stores: Stores, kind: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read") as caught:
        client_context(str(stores.trusted[kind]), "hidden123")
    assert "hidden123" not in str(caught.value)


def test_a_missing_or_damaged_store_is_an_error(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"\xfe\xed\xfe\xed\x00")
    for path in (damaged, tmp_path / "missing"):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            client_context(str(path), PASSWORD)


@pytest.fixture(scope="module")
def port(stores: Stores) -> Iterator[int]:
    settings = f"enable_thrift_ssl=true\nkey_store_path={stores.keys}\nkey_store_pwd={PASSWORD}\ntimestamp_precision=us\n"
    with running_server(required_libraries(), settings) as server:
        yield server.port


def attributes(port: int, store: Path) -> PipeAttributes:
    names = {"sink": "iotdb-thrift-ssl-sink", "sink.node-urls": f"127.0.0.1:{port}"}
    return PipeAttributes(names | {"sink.ssl.trust-store-path": str(store), "sink.ssl.trust-store-pwd": PASSWORD})


@pytest.mark.parametrize("kind", ["PEM", "JKS", "PKCS12"])
def test_rows_arrive_at_a_server_with_tls(port: int, stores: Stores, kind: str) -> None:
    one = sink(attributes(port, stores.trusted[kind]))
    one.handshake()
    table = pa.table({"time": [1], "device": [f"root.tls.{kind}"], "v": [1.5]})
    data = DeviceRows(table, {"v": Measurement("v", DOUBLE)}, Precision.MILLISECOND)
    one.transfer(Delivery("pipe", 0, [InsertEvent(data)]))
    one.close()
    connection = Connection(Node("127.0.0.1", port), Login("root", "root", client_context(str(stores.trusted[kind]), PASSWORD)))
    assert query(connection, f"SELECT v FROM root.tls.{kind}").to_pydict() == {"Time": [1000], f"root.tls.{kind}.v": [1.5]}
    connection.close()


def test_a_server_that_is_not_in_the_store_is_not_trusted(port: int, stores: Stores) -> None:
    one = sink(attributes(port, stores.foreign))
    with pytest.raises(OperationalError, match="are not available") as caught:
        one.handshake()
    assert "certificate" in caught.value.hint


def test_a_server_with_tls_does_not_serve_plain_connections(port: int) -> None:
    one = sink(PipeAttributes({"sink.node-urls": f"127.0.0.1:{port}"}))
    with pytest.raises(OperationalError, match="are not available"):
        one.handshake()
