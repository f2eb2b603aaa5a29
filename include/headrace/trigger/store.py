"""The durable key-value store of a stateful trigger."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_STORE_BYTES: Final = 1 << 20
"""The maximum size of all keys and values of a trigger, as JSON in UTF-8."""


class StoreFullError(ValueError):
    """The store would exceed its maximum size."""


class TriggerStore:
    """A small durable key-value store of a STATEFUL trigger. Keys are texts, values are whatever JSON can represent.

    What a call of `on_create`, `fire` or `restore` puts or removes is written to the catalog when the call has ended, before the
    statement that caused it continues: all of it or nothing, and nothing if the call raises an exception or its process ends. A
    trigger that another process takes over finds what the last successful call has written. The rows of the statement are not part
    of that transaction: a BEFORE trigger may have stored something about rows that were not written in the end.

    A STATELESS trigger has an instance in each process that writes. Its store is empty, and writing to it fails.
    """

    def __init__(self, entries: Mapping[str, str] | None = None, *, writable: bool = False) -> None:
        """Create a store that holds JSON texts by key."""
        self._entries = dict(entries or {})
        self._changes: dict[str, str | None] = {}
        self._writable = writable

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default`."""
        text = self._text(key)
        return default if text is None else json.loads(text)

    def put(self, key: str, value: Any) -> None:
        """Set the value of a key.

        Raises:
            TypeError: JSON cannot represent the value.
            StoreFullError: There would be more than 1 MiB in the store.
            RuntimeError: The trigger is stateless.
        """
        text = json.dumps(value)
        if self._size_without(key) + len(key.encode()) + len(text.encode()) > MAX_STORE_BYTES:
            raise StoreFullError(f"the store holds {MAX_STORE_BYTES} bytes at most")
        self._change(key, text)

    def remove(self, key: str) -> None:
        """Remove a key, if it exists."""
        self._change(key, None)

    def __contains__(self, key: str) -> bool:
        """Return whether a key has a value."""
        return self._text(key) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys in order."""
        return (key for key in sorted({*self._entries, *self._changes}) if key in self)

    def take_changes(self) -> dict[str, str | None]:
        """Return what has changed since the last call, as JSON texts, None for a removed key. For hosts of triggers."""
        changes, self._changes = self._changes, {}
        for key, text in changes.items():
            if text is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = text
        return changes

    def discard_changes(self) -> None:
        """Forget what has changed since `take_changes`. The host of the trigger calls this when a call has failed."""
        self._changes.clear()

    def _text(self, key: str) -> str | None:
        return self._changes[key] if key in self._changes else self._entries.get(key)

    def _change(self, key: str, text: str | None) -> None:
        if not self._writable:
            raise RuntimeError("a stateless trigger has no store; create it with CREATE STATEFUL TRIGGER")
        if not isinstance(key, str):
            raise TypeError("keys of the store are texts")
        self._changes[key] = text

    def _size_without(self, key: str) -> int:
        entries = self._entries | self._changes
        return sum(len(name.encode()) + len(text.encode()) for name, text in entries.items() if text is not None and name != key)
