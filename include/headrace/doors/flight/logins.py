"""Who calls: a user with a password (Basic), who gets a token for further calls (Bearer), as clients of Flight SQL expect."""

from __future__ import annotations

import base64
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow.flight as flight

from headrace.doors.gate import DoorConnection, Gate
from headrace.errors import AuthenticationError, Error, OperationalError
from headrace.model.addresses import client_address, parse_networks
from headrace.model.connections import Origin
from headrace.runtime.budget import Budget
from headrace.runtime.passwords import LoginPausedError
from headrace.sql import check_dialect

DOOR: Final = "flight"
IDLE_S: Final = 3600.0
"""A connection that is not used for so long is closed: Flight does not say when a client is gone."""
MAX_WAITING: Final = 1_000
"""Handshakes whose password has yet to be looked at; of more, the oldest are forgotten."""
MAX_CHECKS: Final = 256
"""Calls that wait for the check of a password, each with a thread of Arrow's; a quarter of them from one host."""
Headers = Mapping[str, Sequence[str]]


class TooManyLoginsError(OperationalError, code=OperationalError.code):
    """As many passwords wait for their check as may."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a client has said of itself when it came with a password: who it is, and the language and database of its statements."""

    user: str
    password: str = field(repr=False)
    dialect: str = ""
    database: str | None = None
    digest: str = ""


@dataclass
class Login:
    """An open connection with its token; or the greeting of a client whose password has not been looked at yet."""

    token: str
    used: float
    greeting: Greeting
    connection: DoorConnection | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


def header(headers: Headers, *names: str) -> str:
    """Return the first value of the first of some headers that is there; empty if none is."""
    return next((str(headers[name][0]) for name in names if headers.get(name)), "")


class Logins:
    """The connections of clients by token. Thread-safe.

    Arrow does not say from where a call comes before it is handled, so that passwords are looked at then. Only the handshake is
    never handled: its password is looked at when it begins, and is at the next call if it has to wait.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._proxies = parse_networks(gate.context.settings.trusted_proxies)
        self._lock = threading.Lock()
        self._secret = secrets.token_bytes(32)
        self._checks = Budget(MAX_CHECKS, MAX_CHECKS // 4)
        self._by_token: OrderedDict[str, Login] = OrderedDict()
        self._by_header: dict[str, str] = {}

    def begin(self, headers: Headers, *, is_handshake: bool) -> Login:
        """Return the login of a call, which may have yet to be checked; see `enter`.

        Raises:
            AuthenticationError: The call has neither a token nor a user with a password.
        """
        self._close_idle()
        scheme, _, value = header(headers, "authorization").partition(" ")
        login = None
        if scheme.lower() == "bearer":
            login = self._by_token.get(value)
        elif scheme.lower() == "basic":
            digest = self._digest(value, headers)
            login = self._by_token.get(self._by_header.get(digest, "")) or self._greet(value, headers, digest)
            if is_handshake and login.connection is None:
                with suppress(LoginPausedError, TooManyLoginsError):
                    self._open(login, Origin(DOOR))
                self._keep(login)
        if login is None:
            raise AuthenticationError("the call has no valid token", hint="send user and password, as by Basic authentication")
        login.used = time.monotonic()
        return login

    def enter(self, login: Login, address: str, forwarded: str) -> DoorConnection:
        """Return the connection of a call that comes from an address, as host:port, and open it if it is not yet.

        Raises:
            AuthenticationError: The password is wrong, or another one by now, or the user is gone.
            TooManyLoginsError: Too many clients log in.
        """
        origin = Origin(DOOR, client_address(address, forwarded, self._proxies))
        with login.lock:
            if login.connection is None:
                try:
                    self._open(login, origin)
                except AuthenticationError:
                    self.close(login.token)
                    raise
                self._keep(login)
            connection = login.connection
        assert connection is not None
        if connection.origin != origin:
            connection.move(origin)
        try:
            connection.check()
        except AuthenticationError:
            self.close(login.token)
            raise
        return connection

    def close(self, token: str) -> None:
        """Close a connection. Idempotent."""
        with self._lock:
            login = self._by_token.pop(token, None)
            self._by_header = {digest: other for digest, other in self._by_header.items() if other != token}
        if login is not None and login.connection is not None:
            self._gate.close(login.connection)

    def is_open(self, token: str) -> bool:
        """Return whether a connection is open."""
        return token in self._by_token

    def close_all(self) -> None:
        """Close all connections."""
        for token in list(self._by_token):
            self.close(token)

    def _greet(self, value: str, headers: Headers, digest: str) -> Login:
        user, password = read_basic(value)
        dialect = (header(headers, "dialect", "x-headrace-dialect") or self._gate.context.settings.dialect).lower()
        check_dialect(dialect)
        database = header(headers, "database", "x-headrace-database") or None
        return Login(secrets.token_urlsafe(32), time.monotonic(), Greeting(user, password, dialect, database, digest))

    def _open(self, login: Login, origin: Origin) -> None:
        greeting, error = login.greeting, TooManyLoginsError("too many clients log in", hint="try again later")
        with self._checks.at_once(origin.host, 1, error):
            login.connection = self._gate.open(origin, greeting.user, greeting.password, greeting.dialect, greeting.database)
        login.greeting = replace(greeting, password="")

    def _keep(self, login: Login) -> None:
        """Let the client come again with the token, or with the same headers if it has been checked."""
        with self._lock:
            self._by_token[login.token] = login
            if login.connection is not None:
                self._by_header[login.greeting.digest] = login.token
            waiting = [token for token, other in self._by_token.items() if other.connection is None]
            for token in waiting[: -MAX_WAITING or None]:
                del self._by_token[token]

    def _digest(self, value: str, headers: Headers) -> str:
        """Return what a client that sends its password with each call is known by, until users change.

        The password itself is not kept.
        """
        revision = str(self._gate.context.catalog.access.revision())
        options = [header(headers, name) for name in ("dialect", "x-headrace-dialect", "database", "x-headrace-database")]
        return hmac.new(self._secret, "\0".join([value, revision, *options]).encode(), "sha256").hexdigest()

    def _close_idle(self) -> None:
        oldest = time.monotonic() - IDLE_S
        logins = [(login, login.connection) for login in list(self._by_token.values())]
        ended = [login.token for login, own in logins if login.used < oldest or (own is not None and own.is_killed)]
        for token in ended:
            self.close(token)


def read_basic(value: str) -> tuple[str, str]:
    """Return user and password of Basic authentication."""
    padded = value + "=" * (-len(value) % 4)  # some clients leave the padding out
    try:
        user, separator, password = base64.b64decode(padded, validate=True).decode().partition(":")
    except ValueError:
        separator = ""
    if not separator:
        raise AuthenticationError("the authorization header cannot be read", hint="send base64 of user:password")
    return user, password


class CallLogin(flight.ServerMiddleware):  # type: ignore[misc]
    """The login of one call, which sends the token to the client."""

    def __init__(self, login: Login, forwarded: str) -> None:
        self.login, self.forwarded = login, forwarded

    def sending_headers(self) -> dict[str, str]:
        """Return the headers of the response."""
        return {"authorization": f"Bearer {self.login.token}"}


class LoginFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Finds the login of each call."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    def start_call(self, info: Any, headers: Headers) -> CallLogin:
        """Return the login of a call, or reject the call."""
        try:
            login = self._logins.begin(headers, is_handshake=info.method == flight.FlightMethod.HANDSHAKE)
            return CallLogin(login, ",".join(map(str, headers.get("x-forwarded-for", ()))))
        except AuthenticationError as error:
            raise flight.FlightUnauthenticatedError(str(error)) from None
        except Error as error:
            raise flight.FlightServerError(str(error)) from None


class NoHandshake(flight.ServerAuthHandler):  # type: ignore[misc]
    """Answers the handshake of clients that ask for a token with it; the middleware checks the password."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Do nothing: the header has been checked."""

    def is_valid(self, token: bytes) -> bytes:  # noqa: ARG002
        """Accept what the middleware has accepted."""
        return b""
