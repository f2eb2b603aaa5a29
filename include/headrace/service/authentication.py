"""Who a client is: a user who knows the password."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.errors import AuthenticationError
from headrace.runtime.credentials import are_equal

if TYPE_CHECKING:
    from headrace.context import Context

ADMINISTRATOR = "root"


def authenticator(context: Context) -> Callable[[str, str], str]:
    """Return what takes a name and a password and returns the user, or raises `AuthenticationError`."""
    token = context.settings.http_token.get_secret_value()

    def authenticate(user: str, password: str) -> str:
        if user == ADMINISTRATOR and token and are_equal(password, token):
            return user
        raise AuthenticationError("wrong user or password", hint="check both; the setting HEADRACE_HTTP_TOKEN is root's password")

    return authenticate
