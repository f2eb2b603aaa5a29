"""HTTP requests to addresses that definitions of users name, by `urllib`. They go where the policy allows it, and nowhere else."""

from __future__ import annotations

import socket
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from threading import Timer
from typing import Any
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from headrace.egress import EgressPolicy, Endpoint, EndpointKind


class CheckedConnection(HTTPConnection):
    """A connection to an address that is allowed. A proxy of the environment decides which addresses it reaches."""

    def __init__(self, host: str, *, endpoint: Endpoint, egress: EgressPolicy, **options: Any) -> None:
        super().__init__(host, **options)
        self._endpoint, self._egress = endpoint, egress

    def connect(self) -> None:
        """Connect, and encrypt if the address says so."""
        if self._tunnel_host is None:  # type: ignore[attr-defined]  # not in the stubs
            self._create_connection = self._connect_checked
        super().connect()

    def getresponse(self) -> HTTPResponse:
        """Return the answer. A server that sends a byte of its headers now and then does not hold the caller."""
        timer = Timer(self.timeout or 0, self._abort)
        timer.daemon = True
        timer.start()
        try:
            return super().getresponse()
        finally:
            timer.cancel()

    def _connect_checked(self, _: object, timeout_s: float, *__: object) -> socket.socket:
        return self._egress.connect(self._endpoint, timeout_s)

    def _abort(self) -> None:
        with suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)


class CheckedTlsConnection(CheckedConnection, HTTPSConnection):
    """Such a connection with TLS. The certificate of the server is verified."""


class CheckedHandler(HTTPSHandler, HTTPHandler):
    """Opens such connections for requests of one kind."""

    def __init__(self, kind: EndpointKind, egress: EgressPolicy) -> None:
        super().__init__()
        self._kind, self._egress = kind, egress

    def https_open(self, req: Request) -> HTTPResponse:
        """Send a request."""
        return self._open(CheckedTlsConnection, req)

    def http_open(self, req: Request) -> HTTPResponse:
        """Send a request."""
        return super().http_open(req) if req.has_proxy() else self._open(CheckedConnection, req)

    def _open(self, connection: type[HTTPConnection], req: Request) -> HTTPResponse:
        endpoint = Endpoint(self._kind, req.full_url)
        return self.do_open(connection, req, endpoint=endpoint, egress=self._egress)


def checked_opener(kind: EndpointKind, egress: EgressPolicy, redirects: HTTPRedirectHandler) -> OpenerDirector:
    """Return what opens requests; `redirects` decides which redirects are followed."""
    return build_opener(CheckedHandler(kind, egress), redirects)
