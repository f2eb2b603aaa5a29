"""Wrong passwords: whom they turn away, what they cost others, and what the audit log has of them."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow.flight as flight
import pytest
from fastapi.testclient import TestClient

import headrace
from headrace.catalog import Catalog, audit
from headrace.context import Context
from headrace.doors.flight import FlightDoor
from headrace.doors.flight import logins as logins_of_flight
from headrace.doors.flight.logins import Logins, TooManyLoginsError
from headrace.doors.gate import DoorConnection, Gate
from headrace.doors.options import DoorOptions
from headrace.errors import AuthenticationError, ConfigurationError
from headrace.model.access import Principal
from headrace.model.addresses import client_address, parse_networks
from headrace.model.connections import Origin
from headrace.runtime import authentication, passwords
from headrace.runtime.flight_sql import encode_command
from headrace.runtime.http import Guard, Health, create_app
from headrace.runtime.http_server import Endpoint
from headrace.runtime.passwords import (
    FREE_TRIES,
    FREE_TRIES_OF_HOST,
    MAX_PAUSE_SECONDS,
    LoginPausedError,
    PasswordChecker,
    hash_password,
    prefix_of,
)
from headrace.runtime.refused_logins import MAX_ENTRIES, MAX_OF_HOST, SEVERAL, WINDOW_S, RefusedLogins
from headrace.service.authentication import authenticator
from headrace.service.endpoint import sql_runner
from headrace.settings import load

HOST, ELSEWHERE = "10.0.0.7", "10.0.0.8"
CATALOGS = flight.FlightDescriptor.for_command(encode_command("CommandGetCatalogs"))


class Clock:
    """A clock that is set by hand."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog.open(load(home=tmp_path / "home").catalog) as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def checker(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> PasswordChecker:
    """Return a checker to which each hash is the password, so that tries cost nothing."""
    monkeypatch.setattr(passwords, "is_password", lambda password, hashed: password == hashed)
    return PasswordChecker(clock)


def fail(checker: PasswordChecker, count: int, user: str = "vera", host: str = HOST) -> None:
    for number in range(count):
        assert not checker.check(user, f"wrong{number}", "right", host)


def test_a_name_is_turned_away_at_one_address_and_lets_others_in(checker: PasswordChecker, clock: Clock) -> None:
    fail(checker, FREE_TRIES)
    for password in ("another", "right"):
        with pytest.raises(LoginPausedError, match="too many wrong passwords"):
            checker.check("vera", password, "right", HOST)
    assert checker.check("vera", "right", "right", ELSEWHERE)
    assert checker.check("vera", "right", "right", HOST), "who is known is let in"
    assert checker.check("otto", "right", "right", HOST)
    clock.now += MAX_PAUSE_SECONDS
    assert checker.check("vera", "new", "new", HOST)


def test_pauses_grow_and_a_right_password_ends_them(checker: PasswordChecker, clock: Clock) -> None:
    for _ in range(20):
        clock.now += MAX_PAUSE_SECONDS
        fail(checker, 1)
    clock.now += MAX_PAUSE_SECONDS - 1
    with pytest.raises(LoginPausedError):
        checker.check("vera", "right", "right", HOST)
    clock.now += 1
    assert checker.check("vera", "right", "right", HOST)
    fail(checker, FREE_TRIES)


def test_who_guesses_names_is_turned_away_by_address(checker: PasswordChecker) -> None:
    assert checker.check("known", "right", "right", HOST)
    for number in range(FREE_TRIES_OF_HOST):
        fail(checker, 1, f"user{number}")
    with pytest.raises(LoginPausedError):
        checker.check("vera", "right", "right", HOST)
    assert checker.check("known", "right", "right", HOST)
    assert checker.check("vera", "right", "right", ELSEWHERE)


@pytest.mark.parametrize(
    ("host", "prefix"),
    [("10.0.0.7", "10.0.0.7"), ("2001:db8::1", "2001:db8::/64"), ("::ffff:10.0.0.7", "10.0.0.7"), ("", ""), ("client", "client")],
)
def test_a_client_is_known_by_what_it_cannot_change(host: str, prefix: str) -> None:
    assert prefix_of(host) == prefix


@pytest.fixture
def context(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    """Provide a home with the user vera, in which pauses last."""
    monkeypatch.setattr(authentication, "CHECKER", PasswordChecker(clock))
    with headrace.connect(load(home=tmp_path / "home").home, dialect="iotdb") as connection:
        connection.session.context.catalog.access.create_user("vera", hash_password("secret12"))
        yield connection.session.context


def test_a_paused_name_costs_no_check_and_the_error_says_to_wait(context: Context) -> None:
    authenticate, origin = authenticator(context), Origin("http", f"{HOST}:1")
    for _ in range(FREE_TRIES):
        with pytest.raises(AuthenticationError, match="wrong user or password"):
            authenticate("ghost", "x", origin)
    with pytest.raises(AuthenticationError, match="too many wrong passwords") as paused:
        authenticate("ghost", "x", origin)
    assert "wait 1 s" in paused.value.hint
    assert authenticate("vera", "secret12", origin).name == "vera"


def test_refused_logins_cannot_fill_the_audit_log(catalog: Catalog, clock: Clock) -> None:
    refused, log = RefusedLogins(clock), catalog.audit_log
    for number in range(1_000):
        refused.record(log, f"user{number}", Origin("http", f"{HOST}:{number}"), "wrong")
    for number in range(1_000):
        refused.record(log, "vera", Origin("http", f"10.1.{number // 250}.{number % 250}:1"), "wrong")
    assert len(log.entries()) == MAX_ENTRIES
    assert len([one for one in log.entries() if HOST in one.address]) == MAX_OF_HOST
    clock.now += WINDOW_S
    refused.record(log, "vera", Origin("http", f"{ELSEWHERE}:1"), "wrong")
    added = log.entries()[:-MAX_ENTRIES]
    assert added[0].user == "vera"
    counts = {one.address: one.reason for one in added[1:]}
    assert counts[HOST] == f"{1_000 - MAX_OF_HOST} more refused logins"
    assert {one.user for one in added[1:]} == {SEVERAL}
    assert sum(int(reason.split()[0]) for reason in counts.values()) == 2_000 - MAX_ENTRIES


def test_entries_of_logins_do_not_push_others_out(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MAX_ENTRIES", 5), ("MAX_LOGINS", 3), ("PRUNE_EVERY", 1)):
        monkeypatch.setattr(audit, name, value)
    log = catalog.audit_log
    log.record("root", "", "GRANT", "grant", is_allowed=True)
    for _ in range(8):
        log.record("vera", "", "LOGIN", "", is_allowed=False)
        log.record("vera", "", "SELECT", "select", is_allowed=False)
    kept = [(one.action, one.is_allowed) for one in log.entries()]
    assert {kind: kept.count(kind) for kind in kept} == {("GRANT", True): 1, ("LOGIN", False): 3, ("SELECT", False): 5}


def test_a_forwarded_address_counts_if_a_trusted_proxy_says_it() -> None:
    proxies = parse_networks("10.0.0.0/8, ::1")
    assert client_address("203.0.113.9:5", "198.51.100.1", proxies) == "203.0.113.9:5"
    assert client_address("10.0.0.1:5", "198.51.100.1", proxies) == "198.51.100.1:0"
    assert client_address("[::1]:5", "made-up, 198.51.100.1, 10.0.0.2", proxies) == "198.51.100.1:0"
    assert client_address("10.0.0.1:5", "", proxies) == "10.0.0.1:5"
    assert client_address("10.0.0.1:5", "2001:db8::1", proxies) == "[2001:db8::1]:0"
    assert client_address("10.0.0.1:5", "198.51.100.1", ()) == "10.0.0.1:5"
    with pytest.raises(ConfigurationError):
        load(trusted_proxies="10.0.0.0/8,proxy.example")


@pytest.mark.parametrize(("proxies", "expected"), [("", "127.0.0.1"), ("127.0.0.0/8", "10.9.8.7")])
def test_flight_knows_the_address_of_the_connection(context: Context, proxies: str, expected: str) -> None:
    settings = context.settings.replace({"trusted_proxies": proxies})
    gate = Gate(replace(context, settings=settings), authenticator(context))
    door = FlightDoor(gate, DoorOptions("127.0.0.1", 0))
    door.start()
    forwarded = (b"x-forwarded-for", b"10.9.8.7")
    try:
        with flight.connect(f"grpc://{door.address}") as client:
            token = client.authenticate_basic_token("vera", "secret12", flight.FlightCallOptions(headers=[forwarded]))
            client.get_flight_info(CATALOGS, flight.FlightCallOptions(headers=[token, forwarded]))
            (opened,) = gate.connections()
            assert opened.address.rpartition(":")[0] == expected
            wrong = flight.FlightCallOptions(headers=[(b"authorization", b"Basic b3R0bzp4"), forwarded])
            with pytest.raises(flight.FlightUnauthenticatedError):
                client.get_flight_info(CATALOGS, wrong)
        (entry,) = [one for one in context.catalog.audit_log.entries() if one.action == "LOGIN"]
        assert entry.address.rpartition(":")[0] == f"flight {expected}"
    finally:
        door.stop()


def test_few_calls_of_flight_wait_for_the_check_of_a_password(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins_of_flight, "MAX_CHECKS", 8)
    entered, leave = threading.Semaphore(0), threading.Event()

    def slowly(*arguments: Any) -> Principal:
        entered.release()
        leave.wait()
        return authenticator(context)(*arguments)

    logins = Logins(Gate(context, slowly))
    basic = {"authorization": ["Basic " + base64.b64encode(b"vera:secret12").decode()]}

    def enter(host: str) -> DoorConnection:
        return logins.enter(logins.begin(basic, is_handshake=False), f"{host}:1", "")

    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(enter, host) for host in ("192.0.2.1", "192.0.2.1", "192.0.2.2")]
        for _ in waiting:
            entered.acquire()
        with pytest.raises(TooManyLoginsError):
            enter("192.0.2.1")
        leave.set()
        assert {one.result().user for one in waiting} == {"vera"}
    assert enter("192.0.2.1").user == "vera"
    logins.close_all()


def test_a_handshake_in_a_pause_is_decided_by_the_next_call(context: Context) -> None:
    gate = Gate(context, authenticator(context))
    door = FlightDoor(gate, DoorOptions("127.0.0.1", 0))
    door.start()
    try:
        with flight.connect(f"grpc://{door.address}") as client:
            for _ in range(FREE_TRIES):
                with pytest.raises(flight.FlightUnauthenticatedError):
                    client.authenticate_basic_token("vera", "wrong")
            for password, is_right in (("wrong", False), ("secret12", True)):
                options = flight.FlightCallOptions(headers=[client.authenticate_basic_token("vera", password)])
                if is_right:
                    client.get_flight_info(CATALOGS, options)
                else:
                    with pytest.raises(flight.FlightUnauthenticatedError):
                        client.get_flight_info(CATALOGS, options)
    finally:
        door.stop()


@pytest.mark.parametrize(("proxies", "expected"), [("", "127.0.0.1"), ("127.0.0.1", "10.9.8.7")])
def test_http_knows_the_address_of_the_connection(context: Context, proxies: str, expected: str) -> None:
    run = sql_runner(context)
    app = create_app(Guard("token"), run, lambda: Health(True, {}), str, None, authenticator(context), run.cancel, run.vouch)
    endpoint = Endpoint(app, trusted_proxies=proxies)
    endpoint.start()
    try:
        with httpx.Client(base_url=endpoint.address, trust_env=False, auth=("vera", "secret12")) as client:
            refused = client.post("/sql", json={"sql": "create database x"}, headers={"X-Forwarded-For": "10.9.8.7"})
            assert refused.status_code == 400
        (entry, *_) = context.catalog.audit_log.entries()
        assert entry.address.rpartition(":")[0] == f"http {expected}"
    finally:
        endpoint.stop()


def test_logins_of_http_leave_threads_to_others(context: Context) -> None:
    """However many wait for their password to be looked at, health is told."""
    run = sql_runner(context)
    app = create_app(Guard("token"), run, lambda: Health(True, {}), str, None, authenticator(context), run.cancel, run.vouch)
    client = TestClient(app)
    for _ in range(FREE_TRIES + 3):
        assert client.post("/sql", json={"sql": "select 1"}, auth=("ghost", "x")).status_code == 401
    assert client.get("/health").status_code == 200
    assert client.post("/sql", json={"sql": "show databases"}, auth=("vera", "secret12")).status_code == 200
