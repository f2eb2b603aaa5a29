"""Queries that a client sends to an snode, or runs itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pyarrow as pa
import pytest

from headrace.errors import NotFoundError
from headrace.model.spans import Span
from headrace.runtime.credentials import Identity
from headrace.runtime.http import Guard, Health, StatementResult, create_app
from headrace.runtime.http_server import Endpoint
from headrace.runtime.snode_client import SnodeEndpoint
from headrace.service.remote import query_snode

TOKEN = "opens everything"
EPOCH = 3
HEALTHY = Health(True, {})


def run_sql(sql: str, *_: object, **__: object) -> StatementResult:
    if sql == "missing":
        raise NotFoundError("table x does not exist", hint="did you mean y?", span=Span(2, 4))
    if sql == "inner":
        raise NotFoundError("column v is gone", span=Span(7, 8), sql="select v from t")
    return StatementResult(pa.table({"n": [1]}))


@pytest.fixture
def snode() -> Iterator[SnodeEndpoint]:
    """Return an snode's heartbeat, with its endpoint running."""
    served: Endpoint
    app = create_app(Guard(TOKEN, "", lambda: Identity(EPOCH, served.address)), run_sql, lambda: HEALTHY, str)
    served = Endpoint(app)
    served.start()
    yield SnodeEndpoint("default", EPOCH, served.address, TOKEN)
    served.stop()


class Recorder(BaseHTTPRequestHandler):
    """Answers every request, and records what it receives."""

    heard: ClassVar[list[str]] = []
    relay: ClassVar[str] = ""

    def do_GET(self) -> None:
        import httpx

        self.heard.extend([self.path, *map(str, self.headers.values())])
        body = httpx.get(self.relay + self.path, trust_env=False).content if self.relay else b'{"proof": "trust me"}'
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def impostor() -> Iterator[str]:
    """Return the address of a process that uses the port of a dead snode."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Recorder.heard.clear()
    Recorder.relay = ""
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_genuine_snode_answers(snode: SnodeEndpoint) -> None:
    result = query_snode(snode, "rows", "tdengine", None)
    assert result is not None
    assert list(result.tuples()) == [(1,)]


def test_an_error_keeps_its_class_hint_and_span(snode: SnodeEndpoint) -> None:
    with pytest.raises(NotFoundError) as refused:
        query_snode(snode, "missing", "tdengine", None)
    error = refused.value
    assert (error.message, error.hint, error.span, error.sql) == (
        "table x does not exist",
        "did you mean y?",
        Span(2, 4),
        "missing",
    )
    with pytest.raises(NotFoundError, match="column v") as refused:
        query_snode(snode, "inner", "tdengine", None)
    assert (refused.value.span, refused.value.sql) == (Span(7, 8), "select v from t")


@pytest.mark.parametrize("relays", [False, True])
def test_an_impostor_at_a_stale_address_learns_neither_token_nor_statement(
    snode: SnodeEndpoint, impostor: str, relays: bool
) -> None:
    Recorder.relay = str(snode.address) if relays else ""
    stale = SnodeEndpoint("default", EPOCH, impostor, TOKEN)
    assert query_snode(stale, "select secret", "tdengine", None) is None
    assert Recorder.heard
    assert not any(word in text for text in Recorder.heard for word in (TOKEN, "Bearer", "secret"))


def test_an_snode_of_another_epoch_is_not_asked(snode: SnodeEndpoint) -> None:
    assert query_snode(SnodeEndpoint("default", EPOCH + 1, snode.address, TOKEN), "rows", "tdengine", None) is None


def test_an_snode_that_cannot_be_reached_leaves_the_query_to_the_client() -> None:
    nobody = SnodeEndpoint("default", EPOCH, "http://127.0.0.1:9", TOKEN)
    assert query_snode(nobody, "rows", "tdengine", None) is None
    unknown = SnodeEndpoint("default", EPOCH, "http://no-such-host.invalid:80", TOKEN)
    assert query_snode(unknown, "rows", "tdengine", None) is None
