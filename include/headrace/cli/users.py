"""`headrace user`: users, their passwords, and tokens for programs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.console import out
from headrace.cli.options import Home, format_example, open_connection
from headrace.cli.output import show_table

if TYPE_CHECKING:
    from headrace.catalog import Catalog
    from headrace.service.connection import Connection

DAY_MS: Final = 86_400_000

app = typer.Typer(name="user", help="Manage users, their passwords, and tokens for programs.", no_args_is_help=True)


def catalog_of(connection: Connection) -> Catalog:
    """Return the catalog if the user is the administrator."""
    from headrace.errors import PermissionDeniedError

    context = connection.session.context
    if not context.permissions().is_administrator:
        raise PermissionDeniedError(
            "Only the admin user can perform this operation", hint="set HEADRACE_USER=root and its password"
        )
    return context.catalog


@app.command(name="list", epilog=format_example("headrace user list"))
def list_users(home: Home = None) -> None:
    """List the users with their roles."""
    with open_connection(home) as connection:
        access = catalog_of(connection).access
        rows = [(user.name, "yes" if user.is_enabled else "no", ", ".join(access.roles(user.name))) for user in access.users()]
    show_table(("user", "may log in", "roles"), rows)


@app.command(epilog=format_example("headrace user create vera"))
def create(name: Annotated[str, typer.Argument(help="Name of the user.")], home: Home = None) -> None:
    """Create a user with a new password, which is shown once. The user may do nothing yet: use GRANT."""
    from headrace.model.access_statements import CreateUser
    from headrace.runtime.passwords import generate_password
    from headrace.service.dispatch import plan

    with open_connection(home) as connection:
        catalog_of(connection)
        password = generate_password()
        connection.session.run(plan(CreateUser(name, password), connection.session))
    out.print(f"password of {name}: {password}", soft_wrap=True)


@app.command(epilog=format_example("headrace user password root"))
def password(name: Annotated[str, typer.Argument(help="Name of the user, or root.")], home: Home = None) -> None:
    """Give a user, or the administrator root, a new password, which is shown once."""
    from headrace.model.access_statements import AlterUser
    from headrace.runtime.passwords import generate_password
    from headrace.service.dispatch import plan

    with open_connection(home) as connection:
        catalog_of(connection)
        new = generate_password()
        connection.session.run(plan(AlterUser(name, new), connection.session))
    out.print(f"password of {name}: {new}", soft_wrap=True)


@app.command(epilog=format_example("headrace user token vera --purpose dashboard --days 90 --read-only"))
def token(
    name: Annotated[str, typer.Argument(help="Name of the user as whom the program acts.")],
    purpose: Annotated[str, typer.Option("--purpose", help="What the token is for.")] = "",
    days: Annotated[int | None, typer.Option("--days", min=1, help="Days until it expires. Default: never.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Give it only the user's rights to read.")] = False,
    home: Home = None,
) -> None:
    """Create a token, which is shown once. A program sends it as the password of the user."""
    with open_connection(home) as connection:
        catalog = catalog_of(connection)
        expires = None if days is None else catalog.now() + days * DAY_MS
        secret = catalog.tokens.create(name, purpose, expires=expires, reads_only=read_only)
    out.print(f"token of {name}: {secret}", soft_wrap=True)


@app.command(epilog=format_example("headrace user tokens"))
def tokens(home: Home = None) -> None:
    """List the tokens, without what they are."""
    with open_connection(home) as connection:
        rows = [
            (one.id, one.user, one.purpose, "read" if one.reads_only else "all", day(one.expires))
            for one in catalog_of(connection).tokens.all()
        ]
    show_table(("token", "user", "purpose", "rights", "expires"), rows)


@app.command(epilog=format_example("headrace user revoke 3f2a9c01"))
def revoke(
    id_: Annotated[str, typer.Argument(metavar="TOKEN", help="The token, as `headrace user tokens` names it.")], home: Home = None
) -> None:
    """Revoke a token at once."""
    with open_connection(home) as connection:
        catalog_of(connection).tokens.revoke(id_)


def day(time_ms: int | None) -> str:
    """Return the day of an instant."""
    return "never" if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC).date().isoformat()
