"""Servers that do not encrypt are closed to other machines, unless a setting says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.cli.doctor import check_listening
from headrace.errors import ConfigurationError
from headrace.runtime.context import open_context
from headrace.runtime.credentials import Identity
from headrace.runtime.http import Guard, Health, StatementResult, create_app
from headrace.runtime.http_server import Endpoint
from headrace.runtime.listening import check_endpoint, endpoint_context
from headrace.runtime.snode import run_snode
from headrace.runtime.snode_client import JSON, SnodeEndpoint, send_statement
from headrace.runtime.tls import server_context
from headrace.service.endpoint import sql_runner
from headrace.settings import load
from tests.support.certificates import make_certificate


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "plant.example.com", ""])
def test_an_endpoint_beyond_this_machine_has_to_be_wanted(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigurationError, match="would be open to other machines") as failure:
        check_endpoint(load(home=tmp_path, http_host=host))
    assert "HEADRACE_HTTP_WITHOUT_TLS" in str(failure.value.hint)
    check_endpoint(load(home=tmp_path, http_host=host, http_without_tls=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_an_endpoint_of_this_machine_is_open(tmp_path: Path, host: str) -> None:
    check_endpoint(load(home=tmp_path, http_host=host))


def test_an_endpoint_beyond_this_machine_encrypts_with_a_certificate(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path / "tls")
    files = {"tls_certificate": str(certificate), "tls_key": str(key)}
    check_endpoint(load(home=tmp_path, http_host="0.0.0.0", **files))
    assert endpoint_context(load(home=tmp_path, http_host="0.0.0.0", **files)) is not None
    assert endpoint_context(load(home=tmp_path, http_host="0.0.0.0", http_without_tls=True, **files)) is None
    assert endpoint_context(load(home=tmp_path, **files)) is None
    with pytest.raises(ConfigurationError, match="its key"):
        check_endpoint(load(home=tmp_path, http_host="0.0.0.0", tls_certificate=str(certificate)))
    key.write_text("no key")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        endpoint_context(load(home=tmp_path, http_host="0.0.0.0", **files))


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[SnodeEndpoint]:
    """An endpoint with TLS, at an address that its certificate names."""
    certificate, key = make_certificate(tmp_path / "tls")
    guard = Guard("token", identity=lambda: Identity(1, served.address))
    app = create_app(guard, lambda *_: StatementResult(pa.table({"a": [1]})), lambda: Health(True, {}), str)
    served = Endpoint(app, host="127.0.0.1", tls=server_context(str(certificate), str(key)))
    served.start()
    yield SnodeEndpoint("default", 1, served.address, "token", str(certificate))
    served.stop()


def test_a_client_verifies_the_certificate_of_an_snode(encrypted: SnodeEndpoint, tmp_path: Path) -> None:
    statement = {"sql": "SELECT 1"}
    assert encrypted.address.startswith("https://")
    assert send_statement(encrypted, statement, JSON) is not None
    other, _ = make_certificate(tmp_path / "other")
    for trusted in (str(other), "", str(tmp_path / "missing")):
        assert send_statement(replace(encrypted, trusted=trusted), statement, JSON) is None
    port = encrypted.address.rpartition(":")[2]
    assert send_statement(replace(encrypted, address=f"https://localhost:{port}"), statement, JSON) is None
    assert send_statement(replace(encrypted, address=f"http://127.0.0.1:{port}"), statement, JSON) is None


def test_the_doctor_says_who_reaches_servers(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path / "tls")
    files = {"tls_certificate": str(certificate), "tls_key": str(key)}
    assert check_listening(load(home=tmp_path)) == "HTTP endpoint of this machine in clear"
    opened = check_listening(load(home=tmp_path, http_host="0.0.0.0", doors="flight", door_host="0.0.0.0", **files))
    assert opened.startswith(
        "HTTP endpoint open to others with TLS, doors open to others with TLS; the certificate is valid until "
    )
    make_certificate(tmp_path / "tls", days=-1)
    with pytest.raises(ConfigurationError, match="has expired"):
        check_listening(load(home=tmp_path, **files))
    with pytest.raises(ConfigurationError, match="door flight would be open"):
        check_listening(load(home=tmp_path, doors="flight", door_host="0.0.0.0"))


def test_an_snode_does_not_start_with_an_endpoint_that_is_open_unasked(tmp_path: Path) -> None:
    context = open_context(load(home=tmp_path, http_host="0.0.0.0"))
    with closing(context.catalog):
        with pytest.raises(ConfigurationError, match="without TLS"):
            run_snode(context, "default", sql_runner(context))
        lease = context.catalog.leases.acquire("default", "another:1", 1_000)
        assert lease is not None
        assert lease.epoch == 1, "it has taken the lease"
