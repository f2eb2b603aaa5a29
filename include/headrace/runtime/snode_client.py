"""The client of an snode's HTTP endpoint. It imports little, because `headrace sql` waits for its imports."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from headrace import durable, errors
from headrace.model.spans import Span
from headrace.runtime.credentials import Identity, are_equal, identity_proof, session_token

logger = logging.getLogger(__name__)

TRIGGERS_PATH: Final = "/triggers"
JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"
# A query may take long, but a process that listens accepts connections at once.
CONNECT_SECONDS: Final = 1.0
PROOF_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class SnodeEndpoint:
    """Where a live snode serves statements, and the token that opens it.

    `trusted` is a PEM file with certificates to trust beside those of the system, empty for none.
    """

    snode: str
    epoch: int
    address: str
    token: str = field(repr=False)
    trusted: str = ""

    @property
    def identity(self) -> Identity:
        """The identity that proofs and session tokens bind."""
        return Identity(self.epoch, self.address)


def endpoint_file(home: str | os.PathLike[str], snode: str) -> str:
    return os.path.join(home, "snodes", f"{snode}.json")


def digest_catalog(url: str) -> str:
    """Return what identifies a catalog without showing its password."""
    return hashlib.sha256(url.encode()).hexdigest()


def write_endpoint(home: str | os.PathLike[str], catalog_url: str, endpoint: SnodeEndpoint) -> None:
    """Write the file of an snode, readable by its owner only. Replaces an older one at once."""
    path = endpoint_file(home, endpoint.snode)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    content = json.dumps(asdict(endpoint) | {"catalog": digest_catalog(catalog_url)})
    durable.write(Path(path), content.encode(), mode=0o600)


def read_endpoint(home: str | os.PathLike[str], catalog_url: str, snode: str) -> SnodeEndpoint | None:
    """Return what the last driver of an snode wrote; None if there is no file, or if it is about another catalog."""
    try:
        with open(endpoint_file(home, snode)) as file:
            values = json.load(file)
        return SnodeEndpoint(**values) if values.pop("catalog") == digest_catalog(catalog_url) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def send_statement(
    endpoint: SnodeEndpoint, body: dict[str, Any], accept: str, timeout_s: float | None = None
) -> tuple[str, bytes] | None:
    """Have an snode run a statement, the `body` of `POST /sql`. See `post`.

    Returns None, too, if it takes longer than `timeout_s`: set that only for a statement that can as well be run here.
    """
    try:
        return post(endpoint, "/sql", body, accept, timeout_s)
    except errors.OperationalError as error:
        if not isinstance(error.__cause__, TimeoutError) or timeout_s is None:
            raise
        logger.warning("snode %s has not answered for %.0f s, running the statement here", endpoint.snode, timeout_s)
        return None


def post(
    endpoint: SnodeEndpoint, path: str, body: dict[str, Any], accept: str, timeout_s: float | None = None
) -> tuple[str, bytes] | None:
    """Send a request to an snode, and return the content type and content of the response.

    None if the snode cannot be reached from here, or if the process at its address does not prove to be that snode.

    Raises:
        Error: The snode raised it; `OperationalError` if it died before it responded, or took longer than `timeout_s`.
    """
    connection = connect(endpoint)
    try:
        if not is_genuine(connection, endpoint):
            return None
        bearer = session_token(endpoint.token, endpoint.identity)
        headers = {"Authorization": f"Bearer {bearer}", "Accept": accept, "Content-Type": JSON}
        try:
            response, content = request(connection, timeout_s, "POST", path, json.dumps(body), headers)
        except (OSError, HTTPException) as error:
            raise errors.OperationalError(
                f"snode {endpoint.snode} at {endpoint.address} did not answer: {error}",
                hint="try again; see SHOW SNODES, and its log",
            ) from error
    finally:
        connection.close()
    if response.status != 200:
        raise rebuild_error(content)
    return response.headers.get_content_type(), content


def connect(endpoint: SnodeEndpoint) -> HTTPConnection:
    """Return a connection to an snode, which is opened by the first request. TLS verifies the certificate and the host."""
    address = urlsplit(endpoint.address)
    if address.scheme != "https":
        return HTTPConnection(address.netloc, timeout=CONNECT_SECONDS)
    import ssl
    from http.client import HTTPSConnection

    context = ssl.create_default_context()
    if endpoint.trusted:
        with suppress(OSError):  # is another machine's file, or gone: the system's certificates have to do
            context.load_verify_locations(endpoint.trusted)
    return HTTPSConnection(address.netloc, timeout=PROOF_SECONDS, context=context)


def is_genuine(connection: HTTPConnection, endpoint: SnodeEndpoint) -> bool:
    """Return True if the process at the snode's address proves to know its token, address and epoch. Does not send the token."""
    nonce = secrets.token_urlsafe(32)
    try:
        response, content = request(connection, PROOF_SECONDS, "GET", f"/identity?nonce={nonce}")
        received = str(json.loads(content)["proof"]) if response.status == 200 else ""
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        logger.warning("snode %s cannot be reached at %s, running the query here: %s", endpoint.snode, endpoint.address, error)
        return False
    if not are_equal(received, identity_proof(endpoint.token, nonce, endpoint.identity)):
        logger.warning("another process than snode %s answers at %s: running the query here", endpoint.snode, endpoint.address)
        return False
    return True


def request(connection: HTTPConnection, timeout_s: float | None, *arguments: Any) -> tuple[HTTPResponse, bytes]:
    """Send a request, and return the response with its content. Connecting has a time limit of its own."""
    if connection.sock is None:
        connection.connect()
    connection.sock.settimeout(timeout_s)
    connection.request(*arguments)
    response = connection.getresponse()
    return response, response.read()


def rebuild_error(content: bytes) -> errors.Error:
    """Rebuild the error that the snode raised: its class, message, hint and span."""
    try:
        body: dict[str, Any] = json.loads(content)
    except ValueError:
        body = {}
    # Of classes with one code, which a process imports or not, the most general is meant.
    classes: dict[str, type[errors.Error]] = {}
    for error_class in subclasses(errors.Error):
        classes.setdefault(error_class.code, error_class)
    code = str(body.get("code") or errors.OperationalError.code)
    span = Span(*body["span"]) if body.get("span") else None
    message = str(body.get("message", content.decode(errors="replace")))
    error = classes.get(code, errors.OperationalError)(message, hint=str(body.get("hint") or ""), span=span, sql=body.get("sql"))
    error.code = code  # also of a class that this process has not imported
    return error


def subclasses(kind: type[errors.Error]) -> list[type[errors.Error]]:
    direct = kind.__subclasses__()
    return direct + [descendant for child in direct for descendant in subclasses(child)]
