"""`headrace.connect`: opens a home, or a connection to an snode on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headrace.model.access import Principal
from headrace.model.clock import Clock, SystemClock
from headrace.runtime.context import open_context
from headrace.service.authentication import identify
from headrace.service.connection import Connection
from headrace.service.rights import Authorizer
from headrace.service.session import Session
from headrace.settings import Settings, load
from headrace.sql import check_dialect

REMOTE_SCHEMES: Final = ("grpc", "grpc+tls")


def connect(
    home: str | Path | None = None,
    *,
    dialect: str | None = None,
    database: str | None = None,
    user: str | None = None,
    password: str | None = None,
    clock: Clock | None = None,
    settings: Settings | None = None,
    principal: Principal | None = None,
    authorizer: Authorizer | None = None,
) -> Connection:
    """Open a home; create it if it is missing.

    Args:
        home: Folder of the catalog, tables and state. Defaults to the setting `home`. Or the address of the door `flight` of an
            snode on another machine, `grpc://host:port` or `grpc+tls://host:port`.
        dialect: Language of the statements, `tdengine` or `iotdb`. Defaults to the setting `dialect`.
        database: Current database, as after `USE`.
        user: User whose rights apply. Defaults to the setting `user`, else to the operating system's login, who is administrator.
        password: Password of the user. Defaults to the setting `password`; needed once the catalog has users.
        clock: What `now` means. Defaults to the machine's clock.
        settings: All settings; `home` overrides theirs.
        principal: Who acts, for a program that has found out itself, in place of user and password.
        authorizer: Decides what the principal may do. Defaults to one that goes by the catalog's grants.

    Raises:
        AuthenticationError: There is no such user, or the password is wrong, or needed.
        ProgrammingError: The dialect is unknown.
    """
    effective = settings or load()
    if isinstance(home, str) and home.partition("://")[0] in REMOTE_SCHEMES:
        from headrace.service.remote_connection import open_remote

        return open_remote(home, effective, dialect, database, user, password)
    if home is not None:
        effective = effective.replace({"home": Path(home)})
    language = (dialect or effective.dialect).lower()
    check_dialect(language)
    context = open_context(effective, clock or SystemClock())
    if principal is None:
        try:
            principal = identify(context, user, password)
        except BaseException:
            context.catalog.close()
            raise
    return Connection(Session(context, language, database, principal=principal, authorizer=authorizer))
