"""How an snode and its clients know each other: who knows the token proves it without showing it to a stranger.

The address in the catalog may be stale, and whoever listens there by now must not learn the token. So a client asks for a proof
first, and then sends a session token that only the snode of that epoch at that address takes.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """An snode as its lease names it."""

    epoch: int
    address: str


def proof(token: str, nonce: str, identity: Identity) -> str:
    """Return what only a holder of the token can answer to a nonce; a proof of another address or epoch is worth nothing."""
    return _signed(token, "proof", nonce, identity)


def session_token(token: str, identity: Identity) -> str:
    """Return a bearer token for one epoch at one address, from which the token itself cannot be computed."""
    return _signed(token, "session", "", identity)


def is_same(one: str, other: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())


def _signed(token: str, purpose: str, nonce: str, identity: Identity) -> str:
    message = "\n".join(("headrace", purpose, nonce, str(identity.epoch), identity.address))
    return hmac.new(token.encode(), message.encode(), hashlib.sha256).hexdigest()
