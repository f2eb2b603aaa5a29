"""Mutual authentication of an snode and its clients, without showing the token to an unknown process.

The address in the catalog may be stale, and another process that listens there must not learn the token. So a client first asks
for a proof, and then sends a session token that only the snode of that epoch at that address accepts.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """An snode as identified by its lease."""

    epoch: int
    address: str


def identity_proof(token: str, nonce: str, identity: Identity) -> str:
    """Return the answer to a nonce that only a holder of the token can compute. It is valid for one epoch at one address only."""
    return _signed(token, "proof", nonce, identity)


def session_token(token: str, identity: Identity) -> str:
    """Return a bearer token for one epoch at one address, from which the token itself cannot be computed."""
    return _signed(token, "session", "", identity)


def are_equal(first: str, second: str) -> bool:
    """Compare two strings in constant time."""
    return hmac.compare_digest(first.encode(), second.encode())


def _signed(token: str, purpose: str, nonce: str, identity: Identity) -> str:
    message = "\n".join(("headrace", purpose, nonce, str(identity.epoch), identity.address))
    return hmac.new(token.encode(), message.encode(), hashlib.sha256).hexdigest()
