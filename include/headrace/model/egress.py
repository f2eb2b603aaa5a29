"""What definitions of users may name outside of Headrace: endpoints, and the rules that allow them.

A rule of the setting `HEADRACE_EGRESS` is `host`, `host:port`, a network such as `10.0.0.0/8`, or the beginning of a URI. `*` in a
host matches any characters. A kind before it, as in `kafka=*.example.com:9092`, limits it to endpoints of that kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from socket import inet_aton
from typing import Final
from urllib.parse import unquote, urlsplit

from headrace.model.masking import masked

IpAddress = IPv4Address | IPv6Address
DEFAULT_PORTS: Final = {"ws": 80, "http": 80, "wss": 443, "https": 443, "s3": 443}
"""The schemes of URIs, and their ports."""
NAT64: Final = IPv6Network("64:ff9b::/96")
NONE: Final = "none"
"""The value of the setting that allows nothing."""


class EndpointKind(StrEnum):
    """What leads to an endpoint."""

    NOTIFY = "notify"
    IOTDB = "iotdb"
    KAFKA = "kafka"
    MQTT = "mqtt"
    WEBSOCKET = "websocket"
    """An address at which a `websocket-sink` listens."""
    OAUTH = "oauth"
    """A server from which a client of Kafka gets tokens."""
    CODE = "code"
    """A URI from which user code is read. A rule for it names its kind, or the beginning of the URI."""
    LOCATION = "location"
    """A file or folder: a path of this machine or a URI of an object store."""


NETWORK_KINDS: Final = tuple(kind for kind in EndpointKind if kind is not EndpointKind.LOCATION)


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """Something outside that a definition names: a URI, `host:port`, or the path of a file or folder."""

    kind: EndpointKind
    target: str

    @classmethod
    def at(cls, kind: EndpointKind, host: str, port: int) -> Endpoint:
        """Return the endpoint of a host, which may be an IPv6 address, and a port."""
        return cls(kind, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    def __str__(self) -> str:
        return masked(f"{self.kind} {self.target}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where an endpoint is.

    Attributes:
        scheme: The scheme of a URI; empty for `host:port`.
        host: The host in lower case; an IP address in its canonical spelling.
        port: The port.
        nodes: The nodes of a URI's path.
    """

    scheme: str
    host: str
    port: int
    nodes: tuple[str, ...] = ()

    @property
    def ip(self) -> IpAddress | None:
        """The address, if the host is one rather than a name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None


def address_of(target: str) -> Address:
    """Return the address of a URI or of `host:port`; raise `ValueError` for anything else, or a path that leads upwards."""
    if "://" not in target:
        host, port = split_host(target)
        if port is None:
            raise ValueError(f"{masked(target)} has no port")
        return Address("", canonical_host(host), port)
    parts = urlsplit(target)
    scheme = {"s3a": "s3"}.get(parts.scheme, parts.scheme)
    if scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"{masked(target)} is not a valid URI")
    nodes = tuple(node for node in unquote(parts.path).split("/") if node not in ("", "."))
    if ".." in nodes:
        raise ValueError(f"the path of {masked(target)} leads upwards")
    return Address(scheme, canonical_host(parts.hostname), parts.port or DEFAULT_PORTS[scheme], nodes)


def split_host(text: str) -> tuple[str, int | None]:
    """Return host and port of `host`, `host:port` or `[IPv6]:port`; raise `ValueError` if the port is none."""
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):
        return text.strip("[]"), None
    number = int(port) if port.isascii() and port.isdecimal() else 0
    if not host or not 0 < number < 1 << 16:
        raise ValueError(f"{text} is no host with a port")
    return host.strip("[]"), number


def canonical_host(host: str) -> str:
    """Return a host in lower case without a final dot; an IP address, in any spelling that resolvers accept, in its usual one."""
    name = host.lower().rstrip(".")
    try:
        return str(as_ipv4(ip_address(name)))
    except ValueError:
        pass
    try:
        return str(IPv4Address(inet_aton(name)))
    except OSError:
        return name


def as_ipv4(address: IpAddress) -> IpAddress:
    """Return the IPv4 address that an IPv6 address embeds, or the address."""
    if isinstance(address, IPv4Address):
        return address
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


@dataclass(frozen=True, slots=True)
class EgressRule:
    """A rule that allows endpoints.

    Attributes:
        kind: The kind of the endpoints; None for any.
        host: A pattern of hosts; empty if the rule names a network.
        network: The network; None if the rule names hosts.
        port: The port; None for any.
        scheme: The scheme of the URIs; empty for endpoints with and without one.
        nodes: The first nodes of the paths of the URIs.
    """

    kind: EndpointKind | None
    host: str
    network: IPv4Network | IPv6Network | None = None
    port: int | None = None
    scheme: str = ""
    nodes: tuple[str, ...] = ()

    def is_for(self, kind: EndpointKind) -> bool:
        """Return whether the rule is about endpoints of a kind. Rules for code say so, as code does more than take data."""
        return self.kind is kind or (self.kind is None and (kind is not EndpointKind.CODE or bool(self.scheme)))

    def allows(self, kind: EndpointKind, address: Address) -> bool:
        """Return whether the rule allows an address as it is written; names are not resolved."""
        if not self.is_for(kind) or (self.port is not None and self.port != address.port):
            return False
        if self.scheme and (self.scheme != address.scheme or self.nodes != address.nodes[: len(self.nodes)]):
            return False
        if self.network is not None:
            return address.ip is not None and address.ip in self.network
        return fnmatchcase(address.host, self.host)


def parse_rules(text: str) -> tuple[EgressRule, ...]:
    """Return the rules that commas separate; raise `ValueError` for one that is not valid."""
    entries = [entry.strip() for entry in text.split(",")]
    return tuple(parse_rule(entry) for entry in entries if entry and entry != NONE)


def parse_locations(text: str) -> tuple[str, ...]:
    """Return the paths and URIs that commas separate; raise `ValueError` for a URI that is none of a file or of S3."""
    entries = [entry.strip() for entry in text.split(",")]
    for entry in entries:
        if "://" in entry and not entry.lower().startswith(("file://", "s3://", "s3a://")):
            raise ValueError(f"{entry} is neither a path nor a URI of S3")
    return tuple(entry for entry in entries if entry and entry != NONE)


def parse_rule(text: str) -> EgressRule:
    """Return the rule of a text; raise `ValueError` if it is not valid."""
    prefix, separator, pattern = text.partition("=")
    if separator and prefix not in NETWORK_KINDS:
        raise ValueError(f"{text}: {prefix} is none of {', '.join(NETWORK_KINDS)}")
    kind = EndpointKind(prefix) if separator else None
    pattern = pattern.strip() if separator else text
    if "://" in pattern:
        return _uri_rule(kind, pattern)
    try:
        return EgressRule(kind, "", ip_network(pattern, strict=False))
    except ValueError:
        host, port = split_host(pattern)
    if not host or "/" in host:
        raise ValueError(f"{text} is neither a host nor a network nor the beginning of a URI")
    return EgressRule(kind, canonical_host(host), port=port)


def _uri_rule(kind: EndpointKind | None, text: str) -> EgressRule:
    parts = urlsplit(text)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError(f"{masked(text)} has more than a scheme, a host and a path")
    address = address_of(text)
    return EgressRule(kind, address.host, port=address.port, scheme=address.scheme, nodes=address.nodes)
