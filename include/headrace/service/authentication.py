"""Who a client is: a user who knows the password."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.errors import AuthenticationError
from headrace.model.access import ADMINISTRATOR
from headrace.runtime.credentials import are_equal
from headrace.service.passwords import PasswordChecker

if TYPE_CHECKING:
    from headrace.context import Context

__all__ = ["ADMINISTRATOR", "authenticator"]

logger = logging.getLogger(__name__)
CHECKER: Final = PasswordChecker()
"""That of this process, so that a program cannot try faster by connecting anew."""
HINT: Final = "check both; `headrace user list` shows the users, and `headrace user password` sets a password"


def authenticator(context: Context) -> Callable[[str, str], str]:
    """Return what takes a name and a password and returns the user, or raises `AuthenticationError`."""
    token = context.settings.http_token.get_secret_value()

    def authenticate(user: str, password: str) -> str:
        if user == ADMINISTRATOR and token and are_equal(password, token):
            return user
        stored = context.catalog.access.find_user(user)
        hashed = stored.password if stored is not None and stored.is_enabled else ""
        if CHECKER.check(user, password, hashed):
            return user
        logger.warning("failed login of user %r", user)
        raise AuthenticationError("wrong user or password", hint=HINT)

    return authenticate
