"""Who calls: a user with a password (Basic), who gets a token for further calls (Bearer), as clients of Flight SQL expect."""

from __future__ import annotations

import base64
import hmac
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.flight as flight

from headrace.doors.gate import DoorConnection, Gate, Origin
from headrace.errors import AuthenticationError, Error
from headrace.sql import check_dialect

DOOR: Final = "flight"
IDLE_S: Final = 3600.0
"""A connection that is not used for so long is closed: Flight does not say when a client is gone."""
Headers = Mapping[str, Sequence[str]]


@dataclass
class Login:
    """An open connection with its token."""

    token: str
    connection: DoorConnection
    used: float


def header(headers: Headers, *names: str) -> str:
    """Return the first value of the first of some headers that is there; empty if none is."""
    return next((str(headers[name][0]) for name in names if headers.get(name)), "")


class Logins:
    """The connections of clients by token. Thread-safe."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._lock = threading.Lock()
        self._secret = secrets.token_bytes(32)
        self._by_token: dict[str, Login] = {}
        self._by_header: dict[str, str] = {}

    def find(self, headers: Headers, peer: str) -> Login:
        """Return the connection of a call; open one for a user who comes with a password.

        Raises:
            AuthenticationError: The call has neither a token nor a user with the right password.
        """
        self._close_idle()
        scheme, _, value = header(headers, "authorization").partition(" ")
        login = None
        if scheme.lower() == "bearer":
            login = self._by_token.get(value)
        elif scheme.lower() == "basic":
            login = self._by_token.get(self._by_header.get(self._digest(value, headers), "")) or self._open(value, headers, peer)
        if login is None:
            raise AuthenticationError("the call has no valid token", hint="send user and password, as by Basic authentication")
        login.used = time.monotonic()
        return login

    def close(self, token: str) -> None:
        """Close a connection. Idempotent."""
        with self._lock:
            login = self._by_token.pop(token, None)
            self._by_header = {digest: other for digest, other in self._by_header.items() if other != token}
        if login is not None:
            self._gate.close(login.connection)

    def is_open(self, token: str) -> bool:
        """Return whether a connection is open."""
        return token in self._by_token

    def close_all(self) -> None:
        """Close all connections."""
        for token in list(self._by_token):
            self.close(token)

    def _open(self, value: str, headers: Headers, peer: str) -> Login:
        user, password = read_basic(value)
        dialect = (header(headers, "dialect", "x-headrace-dialect") or self._gate.context.settings.dialect).lower()
        check_dialect(dialect)
        database = header(headers, "database", "x-headrace-database") or None
        connection = self._gate.open(Origin(DOOR, peer), user, password, dialect, database)
        login = Login(secrets.token_urlsafe(32), connection, time.monotonic())
        with self._lock:
            self._by_token[login.token] = login
            self._by_header[self._digest(value, headers)] = login.token
        return login

    def _digest(self, value: str, headers: Headers) -> str:
        """Return what a client that sends its password with each call is known by, until users change.

        The password itself is not kept.
        """
        revision = str(self._gate.context.catalog.access.revision())
        options = [header(headers, name) for name in ("dialect", "x-headrace-dialect", "database", "x-headrace-database")]
        return hmac.new(self._secret, "\0".join([value, revision, *options]).encode(), "sha256").hexdigest()

    def _close_idle(self) -> None:
        oldest = time.monotonic() - IDLE_S
        for token in [login.token for login in list(self._by_token.values()) if login.used < oldest or login.connection.is_killed]:
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

    def __init__(self, login: Login) -> None:
        self.login = login

    def sending_headers(self) -> dict[str, str]:
        """Return the headers of the response."""
        return {"authorization": f"Bearer {self.login.token}"}


class LoginFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Finds the login of each call."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    def start_call(self, info: Any, headers: Headers) -> CallLogin:  # noqa: ARG002
        """Return the login of a call, or reject the call."""
        try:
            return CallLogin(self._logins.find(headers, header(headers, "x-forwarded-for")))
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
