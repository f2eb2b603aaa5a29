"""Doors of clients, and addresses of those that come through proxies."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final

DOOR_NAMES: Final = ("iotdb", "tdengine", "flight")
"""Protocols of other clients, by the names that settings have."""
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_networks(text: str) -> tuple[Network, ...]:
    """Return addresses and networks that are separated by commas; raise `ValueError` if one is none."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def parse_doors(text: str) -> tuple[str, ...]:
    """Return the names of doors that are separated by commas; raise `ValueError` if one is none."""
    names = tuple(part.strip().lower() for part in text.split(",") if part.strip())
    if (unknown := next((name for name in names if name not in DOOR_NAMES), None)) is not None:
        raise ValueError(f"there is no door {unknown!r}, only {', '.join(DOOR_NAMES)}")
    return names


def client_address(peer: str, forwarded: str, proxies: Sequence[Network]) -> str:
    """Return the address of a client as host:port: that of its connection, unless this comes from a proxy that is trusted.

    Then it is the last address in the header `X-Forwarded-For` that no such proxy has, without a port. What is before it may be
    made up by the client.
    """
    if not is_within(peer.rpartition(":")[0], proxies):
        return peer
    hops = [hop.strip() for hop in forwarded.split(",") if hop.strip()]
    client = next((hop for hop in reversed(hops) if not is_within(hop, proxies)), None)
    return peer if client is None else f"[{client}]:0" if ":" in client else f"{client}:0"


def is_within(host: str, networks: Sequence[Network]) -> bool:
    """Return whether a host is an address in one of some networks."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return any(address in network for network in networks)
