"""Who opens a connection, and what decides what they may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import AuthenticationError
from headrace.model.access import ADMINISTRATOR
from headrace.runtime.authentication import authenticator

if TYPE_CHECKING:
    from headrace.context import Context
    from headrace.service.rights import Authorizer

__all__ = ["ADMINISTRATOR", "authenticator", "identify"]

PASSWORD_HINT: Final = "pass user and password to headrace.connect, or set HEADRACE_USER and HEADRACE_PASSWORD"


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
