"""Names that resolve to addresses of the test's choice, as the name servers of an attacker would have it."""

from __future__ import annotations

import socket
from typing import Any


class Names:
    """Takes the place of `socket.getaddrinfo`. Names that it does not have are resolved as they are."""

    def __init__(self) -> None:
        self.addresses: dict[str, tuple[str, ...]] = {}
        self._resolve = socket.getaddrinfo

    def __call__(self, host: str, port: Any, *arguments: Any, **options: Any) -> Any:
        found = self.addresses.get(host, (host,))
        return [info for one in found for info in self._resolve(one, port, *arguments, **options)]
