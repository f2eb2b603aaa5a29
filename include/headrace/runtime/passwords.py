"""Hashes of passwords by scrypt, and pauses after failed tries."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import os
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

from headrace.errors import AuthenticationError
from headrace.model.access import ADMINISTRATOR

if TYPE_CHECKING:
    from headrace.catalog import Catalog

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Keys = tuple[tuple[str, str], tuple[str]]
"""What tries are counted by: a name with a client, and a client."""

COST: Final = 2**14
BLOCK_SIZE: Final = 8
SALT_BYTES: Final = 16
MAX_MEMORY_BYTES: Final = 64 * 1024 * 1024
MAX_REMEMBERED: Final = 10_000
"""Users whose latest right password is remembered, as a hash with a key of this process, as each check takes about 50 ms; and as
many names and hosts whose tries have failed."""
MAX_CHECKS: Final = 4
"""Checks at the same time: each takes 16 MB."""
FREE_TRIES: Final = 3
"""Failed tries of a name from a host that cost nothing. Each further one doubles the pause."""
FREE_TRIES_OF_HOST: Final = 100
"""Failed tries of any names from a host that cost nothing. Several clients may come through one proxy."""
FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 30.0
FORGET_SECONDS: Final = 600.0
"""Failed tries are forgotten after so long without another."""
IPV6_PREFIX: Final = 64
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


class LoginPausedError(AuthenticationError, code=AuthenticationError.code):
    """Too many passwords were wrong: the next one is not looked at before a pause is over."""


@dataclass(slots=True)
class Failures:
    """Wrong passwords in a row, and when the next one is looked at, and they are forgotten (monotonic seconds)."""

    count: int = 0
    until: float = 0.0
    forgotten: float = 0.0


class PasswordChecker:
    """Checks passwords, remembers right ones, and turns away those that guess. Thread-safe.

    A pause concerns the tries of one name from one host, and after many all new logins from that host: others log in meanwhile, and
    so do programs there whose password was right before. No thread waits for it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a checker that has seen no try; `clock` returns seconds."""
        self._clock = clock
        self._key = os.urandom(32)
        self._right: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._failures: OrderedDict[tuple[str, ...], Failures] = OrderedDict()
        self._running: dict[tuple[str, str, bytes], Future[bool]] = {}
        self._slots = threading.BoundedSemaphore(MAX_CHECKS)
        self._lock = threading.Lock()

    def check(self, user: str, password: str, hashed: str, host: str = "") -> bool:
        """Return whether the password of a user has a hash.

        Raises:
            LoginPausedError: The latest tries of the user, or many tries, from the host have failed.
        """
        digest, client = hmac.digest(self._key, f"{user}\n{password}".encode(), "sha256"), prefix_of(host)
        keys, same = ((user, client), (client,)), (client, hashed, digest)
        with self._lock:
            remembered = self._right.get(user)
            if remembered is not None and remembered[0] == hashed and hmac.compare_digest(remembered[1], digest):
                return True
            running = self._running.get(same)
            if running is None:
                self._note_tries(keys)
                own = self._running[same] = Future()
        if running is not None:  # many connections of one program begin at once
            return running.result()
        try:
            with self._slots:
                own.set_result(is_password(password, hashed))
        except BaseException as error:
            own.set_exception(error)
        with self._lock:
            del self._running[same]
            if own.exception() is None and own.result():
                self._forget_tries(keys)
                _remember(self._right, user, (hashed, digest))
        return own.result()

    def _note_tries(self, keys: Keys) -> None:
        """Count a try as failed until it is known to be right, so that many at once are not free."""
        now = self._clock()
        remembered = [self._failures.get(key) or Failures() for key in keys]
        current = [one if now < one.forgotten else Failures() for one in remembered]
        until = max(one.until for one in current)
        if now < until:
            hint = f"wait {math.ceil(until - now)} s, and check user and password"
            raise LoginPausedError("too many wrong passwords", hint=hint)
        for key, one, free in zip(keys, current, (FREE_TRIES, FREE_TRIES_OF_HOST), strict=True):
            count = one.count + 1
            until = now + pause_seconds(count, free)
            _remember(self._failures, key, Failures(count, until, until + FORGET_SECONDS))

    def _forget_tries(self, keys: Keys) -> None:
        """Take a try back that was right. Other tries from the host remain."""
        own, host = keys
        self._failures.pop(own, None)
        of_host = self._failures.get(host)
        if of_host is not None:
            of_host.count, of_host.until = max(0, of_host.count - 1), 0.0


def pause_seconds(failures: int, free: int = FREE_TRIES) -> float:
    """Return how long the next try has to wait after failed ones in a row."""
    return 0.0 if failures < free else min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(failures - free, 20))


def prefix_of(host: str) -> str:
    """Return the name of all addresses that one client may have: an IPv4 address, or the network of an IPv6 address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, IPV6_PREFIX), strict=False))


def _remember(values: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    values[key] = value
    values.move_to_end(key)
    if len(values) > MAX_REMEMBERED:
        values.popitem(last=False)
