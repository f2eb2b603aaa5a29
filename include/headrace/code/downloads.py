"""Downloads of user code over HTTPS and from the object store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO, Final
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request

from headrace.code.permitted import limited
from headrace.egress import EgressPolicy, Endpoint, EndpointKind
from headrace.egress_http import checked_opener
from headrace.errors import ProgrammingError, StorageError
from headrace.settings import Settings

PART_BYTES: Final = 65_536


class AllowedRedirects(HTTPRedirectHandler):
    """Follows redirects to the same host, if the settings allow the new address."""

    def __init__(self, egress: EgressPolicy) -> None:
        self._egress = egress

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """Return the request of the new address.

        Raises:
            ProgrammingError: It is not allowed.
        """
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if (old.scheme, old.netloc) != (new.scheme, new.netloc):
            raise ProgrammingError(f"{req.full_url} redirects to {newurl}, which is not allowed", hint="name the last address")
        self._egress.check(Endpoint(EndpointKind.CODE, newurl))
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(uri: str, egress: EgressPolicy) -> bytes:
    """Return the content at an `https:` URI.

    Raises:
        StorageError: It cannot be downloaded, or not in time.
        LimitError: It is too large.
        ProgrammingError: It redirects to an address that is not allowed.
    """
    settings = egress.settings
    deadline = time.monotonic() + settings.code_download_timeout_s
    opener = checked_opener(EndpointKind.CODE, egress, AllowedRedirects(egress))
    try:
        with _open(opener, uri, settings.code_download_timeout_s) as response:
            return limited(_parts(response, uri, deadline), uri, settings.code_max_bytes)
    except (OSError, HTTPException) as error:
        raise StorageError(
            f"{uri} cannot be downloaded: {error}", hint="check the address, and whether the server is up"
        ) from error


def read_object(uri: str, settings: Settings) -> bytes:
    """Return the content of an object at an `s3:` URI, in the object store of the settings.

    Raises:
        StorageError: It cannot be read.
        LimitError: It is too large.
    """
    from headrace.storage.object_store import ObjectStore, normalize

    path = normalize(uri).removeprefix("s3://")
    try:
        with ObjectStore.of(settings).file_system().open_input_stream(path) as file:
            return limited(iter(lambda: file.read(1 << 20), b""), uri, settings.code_max_bytes)
    except OSError as error:
        raise StorageError(f"{uri} cannot be read: {error}", hint="check the URI and the credentials") from error


def _open(opener: OpenerDirector, uri: str, timeout_s: float) -> HTTPResponse:
    response: HTTPResponse = opener.open(Request(uri, headers={"User-Agent": "headrace"}), timeout=timeout_s)
    return response


def _parts(response: HTTPResponse, uri: str, deadline: float) -> Iterator[bytes]:
    """Yield what arrives. A server that sends a byte now and then does not hold the statement."""
    while part := response.read1(PART_BYTES):
        if time.monotonic() > deadline:
            raise StorageError(
                f"{uri} takes too long to download", hint="use another server, or raise HEADRACE_CODE_DOWNLOAD_TIMEOUT_S"
            )
        yield part
