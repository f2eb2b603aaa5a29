"""Who sends a request: basic authentication, TDengine's tokens, and the ways of InfluxDB's clients."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.errors import AuthenticationError
from headrace.model.access import Principal
from headrace.model.connections import Origin
from headrace.secrets import signing_keys

if TYPE_CHECKING:
    from starlette.requests import Request

    from headrace.runtime.http import Authenticate
    from headrace.settings import Settings

NAME: Final = "tdengine"
VERIFIED_S: Final = 10.0
"""Seconds for which a password that was right is not checked again: a client sends it with each request, and checking is slow."""
MAX_VERIFIED: Final = 10_000
TOKEN_S: Final = 86_400
"""Seconds for which a token replaces a name and a password."""
PURPOSE: Final = "tokens of taosd"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request carries: a name and a password, or a token that is genuine and has not expired, which has a principal."""

    user: str
    password: str
    principal: Principal | None = None


class Access:
    """Authenticates requests. Thread-safe."""

    def __init__(self, authenticate: Authenticate, settings: Settings) -> None:
        """Create it; `authenticate` checks names and passwords."""
        self._authenticate = authenticate
        self._settings = settings
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._verified: dict[bytes, tuple[Principal, float]] = {}

    def verified(self, credentials: Credentials) -> Principal | None:
        """Return who has a token, or the password of whom was right a short time ago; None if it has to be checked.

        A principal whose password has changed has ended, and may do nothing.
        """
        if credentials.principal is not None:
            return credentials.principal
        principal, until = self._verified.get(self._digest(credentials), (None, 0.0))
        return principal if until > time.monotonic() else None

    def principal(self, credentials: Credentials, origin: Origin) -> Principal:
        """Return who has a name and a password. Takes as long as the check of a password.

        Raises:
            AuthenticationError: There is no such user, or the password is wrong.
        """
        principal = self._authenticate(credentials.user, credentials.password, origin)
        with self._lock:
            if len(self._verified) >= MAX_VERIFIED:
                self._verified.clear()
            self._verified[self._digest(credentials)] = (principal, time.monotonic() + VERIFIED_S)
        return principal

    def token(self, user: str, password: str, origin: Origin) -> str:
        """Return a token that replaces a name and a password for `TOKEN_S`, as long as the user has this password.

        Raises:
            AuthenticationError: There is no such user, or the password is wrong.
        """
        principal = self.principal(Credentials(user, password), origin)
        content = json.dumps([principal.user, principal.token, principal.credentials, int(time.time()) + TOKEN_S]).encode()
        return f"{base64.urlsafe_b64encode(content).decode()}.{self._signatures(content)[0]}"

    def credentials(self, authorization: str, query: Mapping[str, str]) -> Credentials:
        """Return what a request carries in its header or in the parameters `u` and `p`, or `token`.

        Raises:
            AuthenticationError: It carries nothing, or what cannot be read, or a token that is not genuine or has expired.
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
                return Credentials(query["u"], query.get("p", ""))
        raise refusal()

    def _token_credentials(self, token: str) -> Credentials:
        text, _, signature = token.partition(".")
        try:
            content = base64.b64decode(text, altchars="-_", validate=True)
        except ValueError:
            raise refusal() from None
        if not any(hmac.compare_digest(signature.encode(), own.encode()) for own in self._signatures(content)):
            raise refusal()
        user, token_id, credentials, expires = json.loads(content)
        if time.time() >= expires:
            raise refusal()
        return Credentials(user, "", Principal(user, token_id, credentials))

    def _signatures(self, content: bytes) -> list[str]:
        """Return the signatures of a token by the keys that there are, the one that is used first."""
        return [hmac.digest(key, content, hashlib.sha256).hex() for key in signing_keys(PURPOSE, self._settings)]

    def _digest(self, credentials: Credentials) -> bytes:
        """Return what represents credentials in memory."""
        return hmac.digest(self._key, json.dumps([credentials.user, credentials.password]).encode(), hashlib.sha256)


def origin_of(request: Request) -> Origin:
    """Return where a request comes from."""
    client = request.client
    return Origin(NAME, "" if client is None else f"{client.host}:{client.port}")


def basic_text(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        raise refusal() from None


def split(text: str) -> Credentials:
    user, colon, password = text.partition(":")
    if not colon:
        raise refusal()
    return Credentials(user, password)


def refusal() -> AuthenticationError:
    return AuthenticationError("authentication failed", hint="send a name and a password: Authorization: Basic …")
