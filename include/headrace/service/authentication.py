"""Who opens a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import AuthenticationError
from headrace.model.access import ADMINISTRATOR, Principal
from headrace.runtime.authentication import HERE, authenticator

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.context import Context

__all__ = ["ADMINISTRATOR", "authenticator", "identify", "taken_on_trust"]

PASSWORD_HINT: Final = "pass user and password to headrace.connect, or set HEADRACE_USER and HEADRACE_PASSWORD"


def identify(context: Context, user: str | None, password: str | None) -> Principal:
    """Return who opens a connection to the home's files.

    Who names no user is trusted, as they may read the files anyway, unless the setting `auth` is `required`. A name alone is taken
    on trust until there are users.

    Raises:
        AuthenticationError: A password is wrong, or needed.
    """
    settings = context.settings
    name, secret = user or settings.user, password if password is not None else settings.password.reveal()
    if secret or password is not None:
        return authenticator(context)(name or ADMINISTRATOR, secret, HERE)
    if settings.auth == "required" or (name and context.catalog.access.has_users()):
        raise AuthenticationError(f"user {name or ADMINISTRATOR} needs a password", hint=PASSWORD_HINT)
    return Principal(name or settings.login, is_trusted=True, origin=str(HERE))


def taken_on_trust(catalog: Catalog, name: str, origin: str) -> Principal:
    """Return the principal of a name that who speaks for all users gives, without a password: the page, or who has the token.

    As long as the catalog has no users, there are no grants to go by: it may do everything. Then it has the rights of the user of
    that name. Beside `identify`, no other place gives rights because there are no users.
    """
    return Principal.named(name, origin) if catalog.access.has_users() else Principal(name, is_trusted=True, origin=origin)
