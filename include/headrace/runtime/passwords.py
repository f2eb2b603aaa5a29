"""Hashes of passwords by scrypt, and a pause after failed tries."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import threading
import time
from collections import OrderedDict
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.model.access import ADMINISTRATOR

if TYPE_CHECKING:
    from headrace.catalog import Catalog

Value = TypeVar("Value")

COST: Final = 2**14
BLOCK_SIZE: Final = 8
SALT_BYTES: Final = 16
MAX_MEMORY_BYTES: Final = 64 * 1024 * 1024
MAX_REMEMBERED: Final = 1000
"""Users whose latest right password is remembered, as a hash with a key of this process, as each check takes about 50 ms."""
FREE_TRIES: Final = 3
"""Failed tries of a user that cost nothing. Each further one doubles the pause."""
FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 5.0
GENERATED_BYTES: Final = 15


def hash_password(password: str) -> str:
    """Return a salted hash of a password, with its parameters."""
    salt = os.urandom(SALT_BYTES)
    return f"scrypt${COST}${salt.hex()}${_digest(password, salt, COST).hex()}"


def is_password(password: str, hashed: str) -> bool:
    """Return whether a password has a hash. Takes as long if there is none."""
    _, cost, salt, digest = (hashed or _no_password()).split("$")
    matches = hmac.compare_digest(_digest(password, bytes.fromhex(salt), int(cost)), bytes.fromhex(digest))
    return matches and bool(hashed)


def generate_password() -> str:
    """Return a new password that no one can guess."""
    return secrets.token_urlsafe(GENERATED_BYTES)


def set_first_password(catalog: Catalog) -> str | None:
    """Give the administrator a password unless there is one, and return it: only its hash is kept."""
    password = generate_password()
    is_set = catalog.access.create_user(ADMINISTRATOR, hash_password(password), if_not_exists=True)
    return password if is_set else None


def _digest(password: str, salt: bytes, cost: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=BLOCK_SIZE, p=1, maxmem=MAX_MEMORY_BYTES)


@cache
def _no_password() -> str:
    return hash_password(generate_password())


class PasswordChecker:
    """Checks passwords, remembers right ones, and pauses after wrong ones. Thread-safe."""

    def __init__(self) -> None:
        """Create a checker that has seen no try."""
        self._key = os.urandom(32)
        self._right: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._failures: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, user: str, password: str, hashed: str) -> bool:
        """Return whether the password of a user has a hash, after a pause if their latest tries have failed."""
        digest = hmac.digest(self._key, f"{user}\n{password}".encode(), "sha256")
        with self._lock:
            remembered, failures = self._right.get(user), self._failures.get(user, 0)
        if remembered is not None and remembered[0] == hashed and hmac.compare_digest(remembered[1], digest):
            return True
        time.sleep(pause_seconds(failures))
        is_right = is_password(password, hashed)
        with self._lock:
            if is_right:
                self._failures.pop(user, None)
                _remember(self._right, user, (hashed, digest))
            else:
                _remember(self._failures, user, failures + 1)
        return is_right


def pause_seconds(failures: int) -> float:
    """Return how long a user waits after failed tries in a row."""
    return 0.0 if failures < FREE_TRIES else min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - FREE_TRIES, 10))


def _remember(values: OrderedDict[str, Value], user: str, value: Value) -> None:
    values[user] = value
    values.move_to_end(user)
    if len(values) > MAX_REMEMBERED:
        values.popitem(last=False)
