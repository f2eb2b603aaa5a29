"""Who a client is: a user who knows the password."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.errors import AuthenticationError
from headrace.model.access import ADMINISTRATOR, TOKEN_PREFIX
from headrace.runtime.credentials import are_equal
from headrace.runtime.passwords import PasswordChecker

if TYPE_CHECKING:
    from headrace.context import Context

logger = logging.getLogger(__name__)
MAX_LOGGED: Final = 100
"""Characters of a user's name that a failed login logs."""
CHECKER: Final = PasswordChecker()
"""That of this process, so that a program cannot try faster by connecting again."""
HINT: Final = "check both; `headrace user list` shows the users, and `headrace user password` sets a password"


def authenticator(context: Context) -> Callable[[str, str], str]:
    """Return what takes a name and a password and returns the user, or raises `AuthenticationError`.

    A token may replace the password; a program that comes with one has a name that shows it.
    """
    http_token = context.settings.http_token.get_secret_value()

    def authenticate(user: str, password: str) -> str:
        if user == ADMINISTRATOR and http_token and are_equal(password, http_token):
            return user
        token = context.catalog.tokens.find(password) if password.startswith(TOKEN_PREFIX) else None
        if token is not None and user in ("", token.user):
            return token.principal
        stored = context.catalog.access.find_user(user)
        hashed = stored.password if stored is not None and stored.is_enabled else ""
        if CHECKER.check(user, password, hashed):
            return user
        logger.warning("failed login of user %r", user)
        context.catalog.audit_log.record(user[:MAX_LOGGED], "", "LOGIN", "", is_allowed=False, reason="wrong user or password")
        raise AuthenticationError("wrong user or password", hint=HINT)

    return authenticate
