"""Sessions and tokens end with what they were opened with, and a token of reading reads, whoever the users are."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.flight as flight
import pytest
from fastapi.testclient import TestClient

import headrace
from headrace.context import Context
from headrace.doors.flight import FlightDoor
from headrace.doors.gate import Gate
from headrace.doors.iotdb.client import Client
from headrace.doors.options import DoorOptions
from headrace.doors.tdengine import access as tdengine_access
from headrace.doors.tdengine.access import Access
from headrace.doors.tdengine.app import create_app as create_rest
from headrace.errors import AuthenticationError, Error
from headrace.model.access import Principal
from headrace.model.connections import Origin
from headrace.queries.running import RunningQueries
from headrace.runtime.context import open_context
from headrace.runtime.flight_sql import encode_command
from headrace.runtime.http import Guard, Health, create_app
from headrace.runtime.passwords import set_first_password
from headrace.secrets import ENCRYPTED, reveal
from headrace.service.authentication import authenticator
from headrace.service.endpoint import sql_runner
from headrace.settings import load

OLD, NEW = "secret12", "changed1234"
CATALOGS = flight.FlightDescriptor.for_command(encode_command("CommandGetCatalogs"))
ENDINGS = {
    "password": f"alter user vera set password '{NEW}'",
    "drop": "drop user vera",
    "disabled": "",
    "created again": "drop user vera; create user vera 'secret12'",
}


@dataclass(frozen=True)
class Home:
    """A home with vera, who may read a database, and its ways in."""

    root: headrace.Connection
    context: Context
    gate: Gate
    http: TestClient
    rest: TestClient

    def end(self, way: str) -> None:
        """Have the administrator end vera's sessions."""
        if way == "disabled":
            self.context.catalog.access.change_user("vera", is_enabled=False)
            return
        for sql in ENDINGS[way].split("; "):
            self.root.execute(sql)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    settings = load(home=tmp_path / "home")
    with headrace.connect(settings=settings, dialect="iotdb") as root:
        root.execute(f"create user vera '{OLD}'")
        with headrace.connect(settings=settings) as tables:
            for sql in ("create database d", "create table d.t (ts timestamp, a int)", "grant all on d.* to vera"):
                tables.execute(sql)
        context = open_context(settings)
        gate = Gate(context, authenticator(context), RunningQueries(context))
        access = Access(gate.authenticate, settings)
        rest = TestClient(create_rest(gate, access)[0])
        yield Home(root, context, gate, TestClient(http_app(context)), rest)
        context.catalog.close()


def http_app(context: Context) -> Any:
    run = sql_runner(context)
    guard, authenticate = Guard("token of the snode"), authenticator(context)
    return create_app(guard, run, lambda: Health(True, {}), str, None, authenticate, run.cancel, run.vouch)


def test_a_token_that_only_reads_only_reads_while_root_is_the_only_user(tmp_path: Path) -> None:
    context = open_context(load(home=tmp_path / "home"))
    password = set_first_password(context.catalog)
    assert password is not None
    secret = context.catalog.tokens.create("root", "dashboard", reads_only=True)
    http = TestClient(http_app(context))

    def answer(sql: str, dialect: str = "tdengine", auth: tuple[str, str] = ("root", secret)) -> tuple[int, str]:
        response = http.post("/sql", json={"sql": sql, "dialect": dialect}, auth=auth)
        return response.status_code, response.text

    assert not context.catalog.access.has_users()
    for sql in ("create database x", "create user vera pass 'secret12'", "select * from information_schema.ins_audit_log"):
        status, text = answer(sql)
        assert status == 400 or '"rows":[]' in text, text
    status, text = answer("alter user root set password 'taken1234'", "iotdb")
    assert (status, "Only the admin user" in text) == (400, True)
    assert context.catalog.databases.all() == []
    with pytest.raises(AuthenticationError):
        authenticator(context)("root", "taken1234", Origin("http"))
    assert answer("create database x", auth=("root", password))[0] == 200
    assert http.post("/sql", json={"sql": "create database y"}, headers={"Authorization": "Bearer token of the snode"}).is_success
    by_name = {"sql": "create database z", "user": "ann"}
    assert http.post("/sql", json=by_name, headers={"Authorization": "Bearer token of the snode"}).is_success
    assert answer("show databases")[0] == 200
    context.catalog.close()


@pytest.mark.parametrize("way", ENDINGS)
def test_open_sessions_end(home: Home, way: str) -> None:
    embedded = headrace.connect(settings=home.context.settings, user="vera", password=OLD)
    rpc = Client(home.gate, Origin("iotdb", "10.0.0.7:1234"))
    rpc.log_in("vera", OLD)
    opened = home.gate.open(Origin("tdengine", "10.0.0.7:1235"), "vera", OLD, "tdengine")
    assert embedded.execute("show databases").fetchall() == [("d", "ms")]
    rpc.execute("show databases")
    home.end(way)
    for run in (
        lambda: embedded.execute("show databases"),
        lambda: embedded.execute("select 1"),
        lambda: embedded.execute("alter user vera pass 'taken1234'"),
        lambda: rpc.execute("alter user vera set password 'taken1234'"),
        lambda: rpc.connection.check(),
        lambda: opened.execute("select 1"),
        lambda: opened.apply("nothing", (), lambda _: []),
    ):
        with pytest.raises(AuthenticationError, match="the session of vera has ended"):
            run()
    embedded.close()
    home.gate.close(opened)
    rpc.log_out()


def test_the_session_that_changes_its_password_goes_on_and_the_others_end(home: Home) -> None:
    with (
        headrace.connect(settings=home.context.settings, user="vera", password=OLD) as mine,
        headrace.connect(settings=home.context.settings, user="vera", password=OLD) as other,
    ):
        mine.execute(f"alter user vera pass '{NEW}'")
        assert mine.execute("show databases").fetchall() == [("d", "ms")]
        with pytest.raises(AuthenticationError):
            other.execute("show databases")


@pytest.mark.parametrize("way", ENDINGS)
def test_tokens_of_flight_end(home: Home, way: str) -> None:
    door = FlightDoor(home.gate, DoorOptions("127.0.0.1", 0))
    door.start()
    try:
        with flight.connect(f"grpc://{door.address}") as client:
            token = client.authenticate_basic_token("vera", OLD)
            options = flight.FlightCallOptions(headers=[token])
            client.get_flight_info(CATALOGS, options)
            home.end(way)
            for _ in range(2):
                with pytest.raises(flight.FlightUnauthenticatedError):
                    client.get_flight_info(CATALOGS, options)
        assert home.gate.connections() == []
    finally:
        door.stop()


def rest_answer(home: Home, headers: dict[str, str], sql: str = "show databases") -> tuple[int, Any]:
    response = home.rest.post("/rest/sql", content=sql, headers=headers)
    return response.status_code, response.json()


def test_a_token_of_taosd_is_no_secret_and_ends(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    token = home.rest.get(f"/rest/login/vera/{OLD}").json()["desc"]
    headers = {"Authorization": f"Taosd {token}"}
    assert rest_answer(home, headers)[0] == 200
    content = base64.urlsafe_b64decode(token.partition(".")[0])
    assert OLD.encode() not in content
    with pytest.raises(Error):
        reveal(ENCRYPTED + token, home.context.settings)
    forged = json.loads(content)
    forged[0] = "root"
    changed = base64.urlsafe_b64encode(json.dumps(forged).encode()).decode()
    for wrong in (f"{changed}.{token.partition('.')[2]}", token.partition(".")[0], token + "0", f"{token}é", "", "."):
        assert home.rest.post(f"/rest/sql?token={wrong}", content="show databases").status_code == 401, wrong
    monkeypatch.setattr(tdengine_access, "TOKEN_S", 0)
    short = home.rest.get(f"/rest/login/vera/{OLD}").json()["desc"]
    assert rest_answer(home, {"Authorization": f"Taosd {short}"})[0] == 401


@pytest.mark.parametrize("way", ENDINGS)
def test_requests_with_what_was_right_before_are_refused(home: Home, way: str) -> None:
    token = home.rest.get(f"/rest/login/vera/{OLD}").json()["desc"]
    basic = {"Authorization": "Basic " + base64.b64encode(f"vera:{OLD}".encode()).decode()}
    ways: list[dict[str, str]] = [{"Authorization": f"Taosd {token}"}, basic]
    for headers in ways:
        assert rest_answer(home, headers)[0] == 200
        assert home.rest.post("/influxdb/v1/write?db=d", content="m v=1", headers=headers).status_code == 204
    home.end(way)
    for headers in ways:
        assert rest_answer(home, headers)[0] == 401
        assert home.rest.post("/influxdb/v1/write?db=d", content="m v=2", headers=headers).status_code == 401


def test_tablets_of_an_ended_session_are_not_written_with_those_of_another(home: Home) -> None:
    """Calls are written together only if they come from the same principal."""
    old = home.gate.open(Origin("iotdb", "10.0.0.7:1"), "vera", OLD, "iotdb").session.principal
    home.end("password")
    new = home.gate.open(Origin("iotdb", "10.0.0.7:2"), "vera", NEW, "iotdb").session.principal
    again = home.gate.open(Origin("iotdb", "10.0.0.7:3"), "vera", NEW, "iotdb").session.principal
    assert old != new == again
    assert {old.name, new.name} == {"vera"}


def test_only_a_principal_without_proof_is_trusted(home: Home) -> None:
    context = home.context
    assert headrace.connect(settings=context.settings).session.principal.is_trusted
    proven = authenticator(context)("vera", OLD, Origin("http", "10.0.0.7:1"))
    assert (proven.name, proven.is_trusted, proven.origin) == ("vera", False, "http 10.0.0.7:1")
    assert not sql_runner(context).vouch("vera", "page").is_trusted
    assert context.catalog.access.permissions_of(Principal("vera")) == context.catalog.access.permissions("vera")
