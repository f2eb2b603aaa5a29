"""Who a client is: a user who knows the password, or a program with a token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import AuthenticationError
from headrace.model.access import ADMINISTRATOR, TOKEN_PREFIX, Principal
from headrace.model.connections import Origin
from headrace.runtime.credentials import are_equal
from headrace.runtime.passwords import PasswordChecker
from headrace.runtime.refused_logins import RefusedLogins

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.runtime.http import Authenticate

CHECKER: Final = PasswordChecker()
"""That of this process, so that a program cannot try faster by connecting again."""
HERE: Final = Origin("python")
"""The origin of who opens the home's files."""
HINT: Final = "check both; `headrace user list` shows the users, and `headrace user password` sets a password"


def authenticator(context: Context) -> Authenticate:
    """Return what takes a name, a password and an origin, and returns the principal, or raises `AuthenticationError`.

    A token may replace the password.
    """
    http_token = context.settings.http_token.reveal()
    access, tokens, refused = context.catalog.access, context.catalog.tokens, RefusedLogins()

    def authenticate(user: str, password: str, origin: Origin = HERE) -> Principal:
        if user == ADMINISTRATOR and http_token and are_equal(password, http_token):
            return Principal(user, origin=str(origin))
        token = tokens.find(password) if password.startswith(TOKEN_PREFIX) else None
        if token is not None and user in ("", token.user):
            return Principal(token.user, token.id, origin=str(origin))
        stored = access.find_user(user)
        hashed = stored.password if stored is not None and stored.is_enabled else ""
        try:
            if CHECKER.check(user, password, hashed, origin.host) and stored is not None:
                return Principal(user, credentials=stored.credentials, origin=str(origin))
            error = AuthenticationError("wrong user or password", hint=HINT)
        except AuthenticationError as paused:
            error = paused
        refused.record(context.catalog.audit_log, user, origin, error.message)
        raise error

    return authenticate
