"""What definitions of users may reach: one decision for all that connects to, reads or writes something outside of Headrace.

It is asked twice: about what a statement names, and about the addresses that a name has when a connection is opened, which then
goes to one of these addresses. So a name whose addresses change in between leads nowhere else. What administrators configure, such
as the receivers of alerts, is not asked about.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, ip_address
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from headrace.errors import EgressDeniedError, ProgrammingError
from headrace.model.egress import Address, Endpoint, EndpointKind, IpAddress, address_of, as_ipv4, parse_locations, parse_rules
from headrace.model.masking import masked
from headrace.settings import Settings

__all__ = [
    "AddressInfo",
    "EgressPolicy",
    "Endpoint",
    "EndpointKind",
    "canonical",
    "denied",
    "file_path",
    "is_loopback_host",
    "serves_only_this_machine",
]

SocketAddress = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, SocketAddress]
LOCALHOST: Final = "localhost"
UNSPECIFIED: Final = IPv4Network("0.0.0.0/8")
METADATA: Final = frozenset(
    map(ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")),
)
"""Addresses beyond those for links at which clouds hand out the role of a machine."""
OBJECT_STORES: Final = {"s3": "s3", "s3a": "s3"}


def is_loopback_host(host: str) -> bool:
    """Return whether a server that binds a host can be reached from this machine alone."""
    if host == LOCALHOST:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def serves_only_this_machine(settings: Settings) -> bool:
    """Return whether all servers of an snode with these settings listen on loopback alone."""
    return is_loopback_host(settings.http_host) and (not settings.doors.strip() or is_loopback_host(settings.door_host))


class EgressPolicy:
    """Decides by the settings which endpoints definitions of users may name and reach. Thread-safe."""

    def __init__(self, settings: Settings, is_open: Callable[[], bool]) -> None:
        """Create a policy.

        Args:
            settings: What is allowed.
            is_open: Whether all is allowed that no setting limits: while root is the only user, and alone with the servers.
        """
        self.settings = settings
        self._is_open = is_open
        self._rules = parse_rules(settings.egress)

    def check(self, endpoint: Endpoint) -> None:
        """Raise an error if a definition must not name an endpoint.

        Names are resolved only if networks are allowed, and not the name itself.

        Raises:
            EgressDeniedError: The settings do not allow it.
            ProgrammingError: It is no address.
        """
        if endpoint.kind is EndpointKind.LOCATION:
            self.location(endpoint.target)
            return
        address = parsed(endpoint)
        ip = address.ip
        if ip is not None:
            refuse_special(endpoint, ip)
        if self._allows_all() or self._allows(endpoint, address):
            return
        if ip is not None or not self._has_networks(endpoint):
            raise denied(endpoint)
        try:
            self.resolve(endpoint)
        except (OSError, EgressDeniedError):
            # A user who guesses names does not learn which of them there are.
            raise denied(endpoint) from None

    def resolve(self, endpoint: Endpoint, *, needs_all: bool = False) -> list[AddressInfo]:
        """Return the addresses of an endpoint to which a connection may be opened now, in the form of `socket.getaddrinfo`.

        Args:
            endpoint: A host with a port, or a URI.
            needs_all: Whether every address has to be allowed, because something else chooses among them.

        Raises:
            EgressDeniedError: The settings allow none of the addresses.
            OSError: The host has none.
        """
        address = parsed(endpoint)
        if not (self._allows_all() or self._allows(endpoint, address) or self._has_networks(endpoint)):
            raise denied(endpoint)
        infos = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        allowed: list[AddressInfo] = []
        refusal: EgressDeniedError | None = None
        for info in infos:
            try:
                self._check_resolved(endpoint, address, ip_of(info))
                allowed.append(info)
            except EgressDeniedError as error:
                refusal = error
        if refusal is not None and (needs_all or not allowed):
            raise refusal
        return allowed

    def connect(self, endpoint: Endpoint, timeout_s: float) -> socket.socket:
        """Return a socket that is connected to an allowed address of an endpoint; raise what `resolve` raises."""
        failure: OSError | None = None
        for family, kind, protocol, _, target in self.resolve(endpoint):
            opened = socket.socket(family, kind, protocol)
            try:
                opened.settimeout(timeout_s)
                opened.connect(target)
                return opened
            except OSError as error:
                opened.close()
                failure = error
        raise failure or OSError("the host has no address")

    def location(self, text: str) -> str:
        """Return the canonical form of a file or folder that a definition may name: a path without links, or an `s3:` URI.

        Raises:
            EgressDeniedError: The settings do not allow it, or it is part of the home, the warehouse or a folder of code.
            ProgrammingError: It is no path, and no URI of an object store.
        """
        endpoint, location = Endpoint(EndpointKind.LOCATION, text), canonical(text)
        for own in own_locations(self.settings):
            if is_below(location, own) or is_below(own, location):
                raise denied(endpoint, hint="use a place apart from the home, the warehouse and the folders of code")
        allowed = map(canonical, parse_locations(self.settings.external_locations))
        is_limited = bool(self.settings.external_locations.strip())
        if not any(is_below(location, prefix) for prefix in allowed) and (is_limited or not self._is_open()):
            raise denied(endpoint)
        return location

    def _allows_all(self) -> bool:
        return not self.settings.egress.strip() and self._is_open()

    def _allows(self, endpoint: Endpoint, address: Address) -> bool:
        return any(rule.allows(endpoint.kind, address) for rule in self._rules)

    def _has_networks(self, endpoint: Endpoint) -> bool:
        return any(rule.network is not None and rule.is_for(endpoint.kind) for rule in self._rules)

    def _check_resolved(self, endpoint: Endpoint, address: Address, ip: IpAddress) -> None:
        """Check an address that a host has. A name that is allowed is not for what listens on this machine only."""
        is_named = self._allows_all() or self._allows(endpoint, address)
        is_local = ip.is_loopback and address.host != LOCALHOST and not self._allows_all()
        detail = f"which is {ip} now" if is_named else ""
        refuse_special(endpoint, ip, detail)
        if (not is_named or is_local) and not self._allows(endpoint, replace(address, host=str(ip))):
            raise denied(endpoint, detail)


def parsed(endpoint: Endpoint) -> Address:
    """Return the address of an endpoint; raise `ProgrammingError` if it has none."""
    try:
        return address_of(endpoint.target)
    except ValueError as error:
        raise ProgrammingError(str(error), hint="write host:port, or a URI") from None


def ip_of(info: AddressInfo) -> IpAddress:
    return as_ipv4(ip_address(str(info[4][0]).partition("%")[0]))


def refuse_special(endpoint: Endpoint, ip: IpAddress, detail: str = "") -> None:
    """Raise `EgressDeniedError` for addresses that no setting allows."""
    if ip.is_unspecified and endpoint.kind is EndpointKind.WEBSOCKET:
        return
    is_unspecified = ip.is_unspecified or (isinstance(ip, IPv4Address) and ip in UNSPECIFIED)
    if ip.is_link_local or ip.is_multicast or is_unspecified or ip in METADATA:
        raise denied(endpoint, detail, "addresses of links and of the metadata of clouds are never allowed")


def denied(endpoint: Endpoint, detail: str = "", hint: str = "") -> EgressDeniedError:
    """Return the error for an endpoint that the settings do not allow. It does not say what they allow."""
    is_location = endpoint.kind is EndpointKind.LOCATION
    setting = "HEADRACE_EXTERNAL_LOCATIONS" if is_location else "HEADRACE_EGRESS"
    what = "files and folders" if is_location else endpoint.kind.value
    target = ", ".join(filter(None, (endpoint.target, detail)))
    return EgressDeniedError(
        masked(f"{setting} does not allow {what} at {target}"), hint=hint or f"the administrator can list it in {setting}"
    )


# Files and folders


def canonical(text: str) -> str:
    """Return the absolute path of a file or folder without links, or the URI of a place in an object store.

    Raises:
        ProgrammingError: It is another URI, or one that leads upwards.
    """
    scheme = urlsplit(text).scheme if "://" in text or text[:5].lower() == "file:" else ""
    if "\0" in text or not text:
        raise ProgrammingError("the path is empty or has a zero byte", hint="name a file or folder")
    if not scheme:
        return os.path.realpath(text)
    if scheme == "file":
        return os.path.realpath(file_path(text))
    parts = urlsplit(text)
    nodes = [node for node in unquote(parts.path).split("/") if node not in ("", ".")]
    if scheme not in OBJECT_STORES or ".." in nodes or "@" in parts.netloc or parts.query or parts.fragment:
        raise ProgrammingError(f"{masked(text)} is not supported", hint="name a folder, or s3://bucket/path")
    return "/".join([f"{OBJECT_STORES[scheme]}://{parts.netloc}", *nodes])


def file_path(uri: str) -> str:
    """Return the path of a `file:` URI; raise `ProgrammingError` if it names another machine."""
    parts = urlsplit(uri)
    if parts.netloc not in ("", LOCALHOST):
        raise ProgrammingError(f"{uri} names another machine", hint="write file: and an absolute path")
    return unquote(parts.path)


def own_locations(settings: Settings) -> list[str]:
    """Return what belongs to Headrace itself: the home, the warehouse, and the folders from which code is read."""
    folders = [str(settings.plugin_folder(kind)) for kind in ("udf", "trigger", "pipe")]
    folders += [part for part in settings.code_source_folders.split(":") if part]
    return [canonical(one) for one in (str(settings.home_path), settings.tables_uri, *map(os.path.expanduser, folders))]


def is_below(location: str, prefix: str) -> bool:
    """Return whether a canonical location is a prefix or below it."""
    if ("://" in location) != ("://" in prefix):
        return False
    return PurePosixPath(location).is_relative_to(PurePosixPath(prefix))
