"""Tokens by which programs act as a user. The catalog has only a hash of each."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

from sqlalchemy import delete, select

from headrace.catalog.access import require
from headrace.catalog.revisions import RevisionKind, count_up
from headrace.catalog.rows.access import TOKENS
from headrace.catalog.store import Repository, insert
from headrace.errors import NotFoundError
from headrace.model.access import ADMINISTRATOR, TOKEN_PREFIX, GranteeKind, Token

ID_BYTES: Final = 4
SECRET_BYTES: Final = 24


class Tokens(Repository):
    """Tokens of users."""

    def all(self) -> list[Token]:
        """Return every token, expired ones included, in the order of their creation."""
        return self._all(Token, select(TOKENS).order_by(TOKENS.c.created, TOKENS.c.id))

    def create(self, user: str, purpose: str, *, expires: int | None = None, reads_only: bool = False) -> str:
        """Return a new token of a user, which is not stored; raise `NotFoundError` if there is no such user.

        `expires` is in epoch milliseconds.
        """
        id_, secret = secrets.token_hex(ID_BYTES), TOKEN_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        with self._store.write() as connection:
            if user != ADMINISTRATOR:
                require(connection, GranteeKind.USER, user)
            values = {"id": id_, "user": user, "hash": digest(secret), "purpose": purpose, "reads_only": reads_only}
            values |= {"created": self._store.now(connection), "expires": expires}
            connection.execute(insert(connection, TOKENS).values(values))
            count_up(connection, RevisionKind.ACCESS)
        return secret

    def find(self, secret: str) -> Token | None:
        """Return the token that a program has sent, unless it was revoked or has expired."""
        with self._store.read() as connection:
            now = self._store.now(connection)
        tokens = self._all(Token, select(TOKENS).where(TOKENS.c.hash == digest(secret)))
        return next((token for token in tokens if token.is_valid(now)), None)

    def revoke(self, id_: str) -> None:
        """Revoke a token; raise `NotFoundError` if there is none."""
        with self._store.write() as connection:
            if connection.scalar(delete(TOKENS).where(TOKENS.c.id == id_).returning(TOKENS.c.id)) is None:
                raise NotFoundError(f"there is no token {id_}", hint="`headrace user tokens` lists them")
            count_up(connection, RevisionKind.ACCESS)

    def forget(self, before: int) -> int:
        """Forget the tokens that have expired before an instant (epoch ms), and return their number."""
        with self._store.write() as connection:
            return connection.execute(delete(TOKENS).where(TOKENS.c.expires < before)).rowcount


def digest(secret: str) -> str:
    """Return the hash of a token, which no one can guess, so that it needs no salt."""
    return hashlib.sha256(secret.encode()).hexdigest()
