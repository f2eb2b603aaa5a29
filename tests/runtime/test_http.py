"""The snode's HTTP endpoint."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from decimal import Decimal

import httpx
import pyarrow as pa
import pytest

from headrace.errors import AuthenticationError, ConfigurationError, OperationalError, SqlSyntaxError
from headrace.model.access import Principal
from headrace.model.connections import Origin
from headrace.model.spans import Span
from headrace.runtime.credentials import Identity, identity_proof, session_token
from headrace.runtime.http import NO_OPTIONS, Guard, Health, StatementOptions, StatementResult, create_app
from headrace.runtime.http_server import Endpoint, with_port
from headrace.runtime.snode_client import ARROW
from tests.support.waiting import MAX_WAIT_S, wait_until

ROWS = pa.table(
    {
        "ts": pa.array([datetime(2026, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        "n": pa.array([1, 2]),
        "v": pa.array([0.5, float("nan")]),
        "d": pa.array([Decimal("18446744073709551615"), None], pa.decimal128(20, 0)),
        "b": pa.array([b"\x00\xff", b""]),
        "s": pa.array(["ä", None]),
    }
)

WAITING: list[int] = []
"""The threads that run the statement `wait`."""
LEFT = threading.Event()


def abandon(thread: int) -> bool:
    if thread in WAITING:
        LEFT.set()
    return LEFT.is_set()


def run_sql(
    sql: str, dialect: str, database: str | None = None, principal: Principal | None = None, options: StatementOptions = NO_OPTIONS
) -> StatementResult:
    match sql:
        case "rows":
            return StatementResult(ROWS)
        case "large":
            return StatementResult(pa.table({"s": ["x" * 1_000] * 20_000}))
        case "none":
            return StatementResult(None, affected=3)
        case "wrong\nhere":
            raise SqlSyntaxError("this is wrong", hint="write it otherwise", span=Span(6, 10))
        case "busy":
            raise OperationalError("busy")
        case "wait":
            WAITING.append(threading.get_ident())
            assert LEFT.wait(MAX_WAIT_S)
            raise OperationalError("the client is gone")
        case "context":
            return StatementResult(pa.table({"dialect": [dialect], "database": pa.array([database], pa.string())}))
        case "options":
            origin = "" if principal is None else principal.origin
            return StatementResult(pa.table({"origin": [origin], "label": [options.label]}))
        case "user":
            return StatementResult(pa.table({"user": pa.array([principal and principal.name], pa.string())}))
        case _:
            raise ZeroDivisionError("nobody foresaw this")


def authenticate(user: str, password: str, origin: Origin) -> Principal:
    if (user, password) != ("vera", "se:cret"):
        raise AuthenticationError("wrong user or password")
    return Principal(user, origin=str(origin))


IDENTITY = Identity(7, "http://snode:1")


class State:
    healthy = True
    is_slow = False


@pytest.fixture(scope="module")
def state() -> State:
    return State()


@pytest.fixture(scope="module")
def endpoint(state: State) -> Iterator[Endpoint]:
    app = create_app(
        Guard("secret", "seeing", lambda: IDENTITY),
        run_sql,
        lambda: Health(state.healthy, {"epoch": 7}, state.is_slow),
        lambda: "headrace_up 1\n",
        lambda body: body,
        authenticate=authenticate,
        cancel=lambda user, label: (user, label) == ("vera", "mine"),
        abandon=abandon,
    )
    served = Endpoint(app)
    served.start()
    yield served
    served.stop()


@pytest.fixture
def http(endpoint: Endpoint) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=endpoint.address, headers={"Authorization": "Bearer secret"}, trust_env=False) as client:
        yield client


@pytest.fixture
def stranger(endpoint: Endpoint) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=endpoint.address, trust_env=False) as client:
        yield client


def test_rows_are_returned_as_json_without_loss(http: httpx.Client) -> None:
    body = http.post("/sql", json={"sql": "rows"}).json()
    assert body["columns"][:2] == [{"name": "ts", "type": "timestamp[us, tz=UTC]"}, {"name": "n", "type": "int64"}]
    assert body["rows"] == [
        ["2026-01-01T00:00:00+00:00", 1, 0.5, "18446744073709551615", "AP8=", "ä"],
        [None, 2, "nan", None, "", None],
    ]


def test_rows_are_returned_as_arrow_if_accepted(http: httpx.Client) -> None:
    response = http.post("/sql", json={"sql": "rows"}, headers={"Accept": ARROW})
    assert response.headers["content-type"] == ARROW
    assert pa.ipc.open_stream(response.content).read_all().schema == ROWS.schema


def test_rows_are_sent_in_parts(http: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = http.post("/sql", json={"sql": "rows"}).json()
    monkeypatch.setattr("headrace.runtime.http.BATCH_ROWS", 1)
    assert http.post("/sql", json={"sql": "rows"}).json() == whole
    response = http.post("/sql", json={"sql": "rows"}, headers={"Accept": ARROW})
    batches = list(pa.ipc.open_stream(response.content))
    assert len(batches) == len(whole["rows"]) > 1
    assert str(pa.Table.from_batches(batches).to_pydict()) == str(ROWS.to_pydict())


def test_a_statement_without_rows_returns_the_number_it_changed(http: httpx.Client) -> None:
    assert http.post("/sql", json={"sql": "none"}).json() == {"columns": [], "rows": [], "affected": 3}


def test_dialect_and_database_are_passed_on(http: httpx.Client) -> None:
    assert http.post("/sql", json={"sql": "context"}).json()["rows"] == [["tdengine", None]]
    given = {"sql": "context", "dialect": "iotdb", "database": "db"}
    assert http.post("/sql", json=given).json()["rows"] == [["iotdb", "db"]]


def test_a_statement_has_the_user_that_the_token_holder_names_or_who_logs_in(http: httpx.Client, stranger: httpx.Client) -> None:
    assert http.post("/sql", json={"sql": "user"}).json()["rows"] == [["http"]]
    assert http.post("/sql", json={"sql": "user", "user": "otto"}).json()["rows"] == [["otto"]]
    body = {"sql": "user", "user": "otto"}
    assert stranger.post("/sql", json=body, auth=("vera", "se:cret")).json()["rows"] == [["vera"]]
    for authorization in ("Basic !", "Basic", "Basic dmVyYTp4", "Bearer vera"):
        assert stranger.post("/sql", json=body, headers={"Authorization": authorization}).status_code == 401


def test_the_first_rows_are_returned_if_asked_and_whether_there_are_more(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = http.post("/sql", json={"sql": "rows", "max_rows": 1}).json()
    assert (len(first["rows"]), first["has_more"]) == (1, True)
    whole = http.post("/sql", json={"sql": "rows", "max_rows": 2}).json()
    assert (len(whole["rows"]), whole["has_more"]) == (2, False)
    assert http.post("/sql", json={"sql": "rows", "max_rows": 0}).status_code == 422
    monkeypatch.setattr("headrace.runtime.http.MAX_SHOWN_BYTES", 1)
    assert http.post("/sql", json={"sql": "rows", "max_rows": 2}).json()["has_more"] is True


def test_only_holders_of_the_token_say_where_a_statement_comes_from(http: httpx.Client, stranger: httpx.Client) -> None:
    body = {"sql": "options", "origin": "page vera", "label": "mine"}
    assert http.post("/sql", json=body).json()["rows"] == [["page vera", "mine"]]
    ((origin, label),) = stranger.post("/sql", json=body, auth=("vera", "se:cret")).json()["rows"]
    assert (origin.rpartition(":")[0], label) == ("http 127.0.0.1", "mine")


def test_a_query_is_canceled_by_its_user(http: httpx.Client, stranger: httpx.Client) -> None:
    assert http.post("/sql/cancel", json={"label": "mine", "user": "vera"}).json() == {"canceled": True}
    assert http.post("/sql/cancel", json={"label": "mine"}).json() == {"canceled": False}
    body = {"label": "mine", "user": "otto"}
    assert stranger.post("/sql/cancel", json=body, auth=("vera", "se:cret")).json() == {"canceled": True}
    assert stranger.post("/sql/cancel", json=body).status_code == 401


def test_an_error_has_code_message_hint_and_position(http: httpx.Client) -> None:
    response = http.post("/sql", json={"sql": "wrong\nhere"})
    assert response.status_code == 400
    expected = {"code": "SYNTAX", "message": "this is wrong", "hint": "write it otherwise"}
    assert response.json() == expected | {"line": 2, "column": 1, "span": [6, 10], "sql": "wrong\nhere"}


def test_transient_errors_have_another_status_than_permanent_ones(http: httpx.Client) -> None:
    assert http.post("/sql", json={"sql": "busy"}).status_code == 503


def test_an_unexpected_error_is_an_internal_error_without_a_trace(http: httpx.Client) -> None:
    response = http.post("/sql", json={"sql": "?"})
    assert (response.status_code, response.json()["code"]) == (500, "INTERNAL")
    assert "Traceback" not in response.text


@pytest.mark.parametrize(
    "header", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic secret"}, {"Authorization": "secret"}]
)
def test_only_the_status_is_visible_without_the_token(stranger: httpx.Client, header: dict[str, str]) -> None:
    assert stranger.post("/sql", json={"sql": "rows"}, headers=header).status_code == 401
    assert stranger.get("/metrics", headers=header).status_code == 401
    response = stranger.get("/health", headers=header)
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_health_tells_details_with_the_token_and_503_when_it_fails(http: httpx.Client, state: State) -> None:
    assert http.get("/health").json() == {"status": "ok", "epoch": 7}
    state.healthy = False
    try:
        response = http.get("/health")
        assert (response.status_code, response.json()["status"]) == (503, "failing")
    finally:
        state.healthy = True


def test_a_slow_batch_shows_in_the_status_that_anyone_may_ask_for(stranger: httpx.Client, state: State) -> None:
    state.is_slow = True
    try:
        response = stranger.get("/health")
        assert (response.status_code, response.json()) == (200, {"status": "slow"})
    finally:
        state.is_slow = False


def test_the_read_token_gives_access_to_health_and_metrics_only(endpoint: Endpoint) -> None:
    with httpx.Client(base_url=endpoint.address, headers={"Authorization": "Bearer seeing"}, trust_env=False) as viewer:
        assert viewer.get("/metrics").status_code == 200
        assert viewer.get("/health").json() == {"status": "ok", "epoch": 7}
        assert viewer.post("/sql", json={"sql": "rows"}).status_code == 401


def test_without_a_read_token_an_empty_one_is_rejected() -> None:
    assert not Guard("secret").may_read("")


@pytest.mark.parametrize(("identity", "status"), [(IDENTITY, 200), (Identity(6, IDENTITY.address), 401), (Identity(7, "x"), 401)])
def test_a_session_token_opens_the_snode_of_its_epoch_and_address(stranger: httpx.Client, identity: Identity, status: int) -> None:
    headers = {"Authorization": f"Bearer {session_token('secret', identity)}"}
    assert stranger.post("/sql", json={"sql": "none"}, headers=headers).status_code == status


def test_anyone_may_ask_the_snode_to_prove_who_it_is(stranger: httpx.Client) -> None:
    nonce = "n" * 16
    assert stranger.get("/identity", params={"nonce": nonce}).json() == {"proof": identity_proof("secret", nonce, IDENTITY)}
    assert stranger.get("/identity", params={"nonce": "short"}).status_code == 422


@pytest.mark.parametrize(
    ("host", "expected"),
    [("db1", "db1:80"), ("db1:9", "db1:9"), ("::1", "[::1]:80"), ("[::1]", "[::1]:80"), ("[::1]:9", "[::1]:9")],
)
def test_an_address_is_advertised_with_its_port(host: str, expected: str) -> None:
    assert with_port(host, 80) == expected


def test_the_endpoint_binds_one_address_and_advertises_another() -> None:
    served = Endpoint(
        create_app(Guard("secret"), run_sql, lambda: Health(True, {}), str), host="0.0.0.0", advertise="snode.example"
    )
    served.start()
    try:
        assert served.address == f"http://snode.example:{served.port}"
        name = socket.gethostbyname(socket.gethostname())
        assert httpx.get(f"http://{name}:{served.port}/health", trust_env=False).json() == {"status": "ok"}
    finally:
        served.stop()


def test_metrics_are_returned_as_prometheus_text(http: httpx.Client) -> None:
    response = http.get("/metrics")
    assert response.text == "headrace_up 1\n"
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")


def test_only_the_loopback_interface_listens(endpoint: Endpoint) -> None:
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in addresses:
        with socket.socket() as probe:
            assert probe.connect_ex((address, endpoint.port)) != 0


def test_a_taken_port_is_an_error_that_names_it(endpoint: Endpoint) -> None:
    with pytest.raises(ConfigurationError, match=f"port {endpoint.port}"):
        Endpoint(create_app(Guard("secret"), run_sql, lambda: Health(True, {}), str), endpoint.port)


def send_head(endpoint: Endpoint, head: str) -> socket.socket:
    """Return a connection on which a head was sent."""
    connection = socket.create_connection(("127.0.0.1", endpoint.port), 30)
    connection.sendall(head.encode())
    return connection


@pytest.mark.parametrize("path", ["/sql", "/sql/cancel", "/triggers"])
def test_a_body_without_credentials_is_not_waited_for(endpoint: Endpoint, path: str) -> None:
    with send_head(endpoint, f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {150 << 20}\r\n\r\n{{") as connection:
        assert connection.recv(1024).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("path", ["/sql", "/sql/cancel", "/triggers"])
def test_bodies_have_a_largest_size(endpoint: Endpoint, path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n"
    with send_head(endpoint, f"{head}Content-Length: {65 << 20}\r\n\r\n{{") as connection:
        assert connection.recv(1024).startswith(b"HTTP/1.1 413 ")
    with send_head(endpoint, f"{head}Transfer-Encoding: chunked\r\n\r\n") as connection:
        part = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
        for _ in range(65):
            connection.sendall(part)
        assert connection.recv(1024).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "sent", ["", "POST /sql HTTP/1.1\r\nHost", "POST /sql HTTP/1.1\r\nContent-Length: 5\r\n\r\n{", "GET /health HTTP/1.1\r\n\r\n"]
)
def test_clients_that_send_no_more_are_cut_off(endpoint: Endpoint, sent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.http_server.TIMEOUT_S", 0.01)
    with send_head(endpoint, sent) as connection:
        while connection.recv(1024):
            pass


def test_a_body_that_does_not_arrive_in_time_is_refused(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.http_limits.TIMEOUT_S", 0.01)
    head = "POST /sql HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: 5\r\n\r\n{"
    with send_head(endpoint, head) as connection:
        assert connection.recv(1024).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("head", ["POST /{} HTTP/1.1\r\n", "POST /sql HTTP/1.1\r\nX: {}\r\n"])
def test_a_head_has_a_largest_size(endpoint: Endpoint, head: str) -> None:
    with send_head(endpoint, "") as connection, suppress(ConnectionError):
        connection.sendall(head.format("x" * (1 << 20)).encode())
        assert connection.recv(1024) == b""


@pytest.mark.parametrize("sent", ["POST /sql HTTP/1.1\r\n" + "a:b\r\n" * 1_000, "GET /health HTTP/1.1\r\n\r\n" * 10_000])
def test_small_things_are_not_sent_without_end(endpoint: Endpoint, sent: str) -> None:
    with send_head(endpoint, sent) as connection, suppress(ConnectionError):
        while connection.recv(1 << 20):
            pass


def test_requests_that_are_sent_at_once_are_answered_in_order(endpoint: Endpoint) -> None:
    with send_head(endpoint, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 50) as connection:
        answers = b""
        while answers.count(b"HTTP/1.1 200 OK") < 50:
            answers += connection.recv(1 << 20)


def test_clients_that_do_not_read_are_cut_off(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.runtime.http_server.TIMEOUT_S", 0.05)
    body = '{"sql":"large"}'
    head = f"POST /sql HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    connections = endpoint._server.server_state.connections
    with send_head(endpoint, head):
        wait_until(lambda: connections, "the connection")
        wait_until(lambda: not connections, "its end")


def test_a_client_that_goes_within_a_body_leaves_no_trace(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    connections = endpoint._server.server_state.connections
    head = "POST /sql HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: 100\r\n\r\nhalf"
    with send_head(endpoint, head):
        wait_until(lambda: connections, "the connection")
    wait_until(lambda: not connections and not endpoint._server.server_state.tasks, "the end of the request")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_the_query_of_a_client_that_is_gone_is_abandoned(endpoint: Endpoint) -> None:
    body = '{"sql":"wait"}'
    head = f"POST /sql HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    with send_head(endpoint, head):
        wait_until(lambda: WAITING, "the statement to run")
        assert not LEFT.is_set()
    assert LEFT.wait(MAX_WAIT_S)


def test_connections_beyond_the_limit_take_the_place_of_idle_ones() -> None:
    app = create_app(Guard("secret"), run_sql, lambda: Health(True, {}), lambda: "")
    served = Endpoint(app, max_connections=5)
    served.start()
    with ExitStack() as stack:
        idle = [stack.enter_context(send_head(served, "GET /health HTTP/1.1\r\n")) for _ in range(20)]
        assert httpx.get(f"{served.address}/health", trust_env=False).status_code == 200
        assert any(is_closed(one) for one in idle)
    served.stop()


def is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
