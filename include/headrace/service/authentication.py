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
    from headrace.service.rights import Authorizer

__all__ = ["ADMINISTRATOR", "authenticator", "identify"]

logger = logging.getLogger(__name__)
CHECKER: Final = PasswordChecker()
"""That of this process, so that a program cannot try faster by connecting anew."""
PASSWORD_HINT: Final = "pass user and password to headrace.connect, or set HEADRACE_USER and HEADRACE_PASSWORD"
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


def identify(context: Context, user: str | None, password: str | None) -> tuple[str, Authorizer]:
    """Return who opens a connection to the home's files, and what decides what they may do.

    Who names no user is the administrator, as they may read the files anyway, unless the setting `auth` is `required`. A name alone
    is taken on trust until there are users.

    Raises:
        AuthenticationError: A password is wrong, or needed.
    """
    settings = context.settings
    name, secret = user or settings.user, password if password is not None else settings.password.get_secret_value()
    if secret or password is not None:
        from headrace.service.authorization import CatalogAuthorizer

        return authenticator(context)(name or ADMINISTRATOR, secret), CatalogAuthorizer(context.catalog)
    if settings.auth == "required" or (name and context.catalog.access.has_users()):
        raise AuthenticationError(f"user {name or ADMINISTRATOR} needs a password", hint=PASSWORD_HINT)
    from headrace.service.rights import AllowAll

    return name or settings.login, AllowAll()
