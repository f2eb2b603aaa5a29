"""Who sends a request: basic authentication, TDengine's tokens, and the ways of InfluxDB's clients."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from headrace.errors import AuthenticationError, ConfigurationError
from headrace.secrets import ENCRYPTED, encrypt, reveal

if TYPE_CHECKING:
    from headrace.settings import Settings

KNOWN_S: Final = 10.0
"""Seconds for which a password that was right is not checked again: a client sends it with each request, and checking is slow."""
MAX_KNOWN: Final = 10_000
Credentials = tuple[str, str]


class Access:
    """Authenticates requests. Thread-safe."""

    def __init__(self, authenticate: Callable[[str, str], str], settings: Settings) -> None:
        """Create it; `authenticate` takes a name and a password and returns the user."""
        self._authenticate = authenticate
        self._settings = settings
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[str, float]] = {}

    def known_user(self, credentials: Credentials) -> str | None:
        """Return the user whose password was right a short time ago; None if it has to be checked."""
        user, until = self._known.get(self._digest(credentials), ("", 0.0))
        return user if until > time.monotonic() else None

    def user(self, credentials: Credentials) -> str:
        """Return the user of a name and a password. Takes as long as the check of a password.

        Raises:
            AuthenticationError: There is no such user, or the password is wrong.
        """
        user = self._authenticate(*credentials)
        with self._lock:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[self._digest(credentials)] = (user, time.monotonic() + KNOWN_S)
        return user

    def token(self, user: str, password: str) -> str:
        """Return a token that replaces a name and a password, as long as these are right.

        Raises:
            AuthenticationError: There is no such user, or the password is wrong.
        """
        self.user((user, password))
        return encrypt(json.dumps([user, password]), self._settings).removeprefix(ENCRYPTED)

    def credentials(self, authorization: str, query: Mapping[str, str]) -> Credentials:
        """Return the name and the password that a request carries, in its header or in the parameters `u` and `p`, or `token`.

        Raises:
            AuthenticationError: It has none, or they cannot be read.
        """
        scheme, _, text = authorization.strip().partition(" ")
        text = text.strip()
        match scheme.lower():
            case "basic":
                return split(basic_text(text))
            case "taosd":
                return self._token_credentials(text)
            case "token":  # of InfluxDB's clients, for servers of version 1
                return split(text)
            case "" if "token" in query:
                return self._token_credentials(query["token"])
            case "" if "u" in query:
                return query["u"], query.get("p", "")
        raise refusal()

    def _token_credentials(self, token: str) -> Credentials:
        try:
            user, password = json.loads(reveal(ENCRYPTED + token, self._settings))
        except (ConfigurationError, ValueError):
            raise refusal() from None
        return user, password

    def _digest(self, credentials: Credentials) -> bytes:
        """Return what represents credentials in memory."""
        return hmac.digest(self._key, json.dumps(credentials).encode(), hashlib.sha256)


def basic_text(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        raise refusal() from None


def split(text: str) -> Credentials:
    user, colon, password = text.partition(":")
    if not colon:
        raise refusal()
    return user, password


def refusal() -> AuthenticationError:
    return AuthenticationError("authentication failed", hint="send a name and a password: Authorization: Basic …")
