"""Addresses of clients that come through proxies."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def parse_networks(text: str) -> tuple[Network, ...]:
    """Return addresses and networks that are separated by commas; raise `ValueError` if one is none."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


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
