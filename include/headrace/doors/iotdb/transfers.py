"""The receiving side of pipes of IoTDB: handshakes, tablets in their forms, and compressed or sliced requests."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headrace.doors.iotdb.pipe_tablets import read_insert_node, read_logged_node, read_raw_tablet
from headrace.doors.iotdb.statuses import (
    NOT_LOGGED_IN,
    PIPE_HANDSHAKE_ERROR,
    PIPE_TYPE_ERROR,
    PIPE_UNAVAILABLE,
    PIPE_USER_CONFLICT,
    PIPE_VERSION_ERROR,
    as_error,
    failure,
    success,
)
from headrace.doors.iotdb.tablets import Tablet
from headrace.doors.iotdb.transfer_memory import MAX_BODY_BYTES, MAX_SLICES, SlicedRequest
from headrace.errors import (
    AuthenticationError,
    ConfigurationError,
    DataError,
    Error,
    InternalError,
    NotSupportedError,
    TransientError,
)
from headrace.pipes.iotdb import messages
from headrace.pipes.iotdb.content import Content
from headrace.pipes.iotdb.requests import CODECS, COMPRESSED, HANDSHAKE, LZMA2, TABLET_BATCH, VERSION
from headrace.trees.databases import databases_of
from headrace.trees.expiry import limits_of

if TYPE_CHECKING:
    from headrace.doors.iotdb.client import Client

OLD_HANDSHAKE: Final = 1
INSERT_NODE: Final = 2
RAW_TABLET: Final = 3
LOGGED_NODE: Final = 7
SLICE: Final = 400
FILES: Final = frozenset({4, 5, 8, 9})
"""Pieces of TsFiles, and their ends."""
MAX_LZMA_BYTES: Final = 80 << 20
"""Memory with which LZMA decompresses: that of its highest level."""
UNSIZED: Final = ("snappy", "gzip", "lz4_raw")
"""Codecs with which Arrow does not say that content is shorter than its buffer, whose rest is memory of others."""
PRECISION: Final = "ms"


def receive(client: Client, request: messages.Transfer) -> messages.Message:
    """Take what a pipe sends, and answer with a status that says whether it is worth another try."""
    if request.version != VERSION:
        return pipe_status(PIPE_VERSION_ERROR, f"Unsupported pipe version {request.version}")
    try:
        status = dispatch(client, request.type, request.body or b"")
    except Exception as error:  # whatever a request raises is the pipe's answer
        status = pipe_failure(as_error(error))
    return messages.TransferAnswer(status=status)


def dispatch(client: Client, kind: int, body: bytes) -> messages.Status:
    """Do what a request asks for."""
    if kind == HANDSHAKE:
        return introduce(client, Content(body))
    if kind == OLD_HANDSHAKE:
        return introduce_without_login(client, Content(body))
    client.connection.check()
    if kind == COMPRESSED:
        return dispatch_compressed(client, Content(body))
    if kind == SLICE:
        return join_slice(client, Content(body))
    if kind in TABLETS:
        return write(client, TABLETS[kind](Content(body)))
    raise unsupported(kind)


def unsupported(kind: int) -> Error:
    """Return the error of a request that is not supported; the pipe tries it again until a person acts."""
    if kind in FILES:
        message, hint = "TsFiles are not supported", "create the pipe with 'sink.format'='tablet'"
    else:
        message, hint = f"Unsupported pipe request type {kind}", "create the pipe with 'source.inclusion'='data.insert'"
    return NotSupportedError(message, hint=hint).with_status(PIPE_TYPE_ERROR)


def pipe_status(code: int, message: str) -> messages.Message:
    return messages.TransferAnswer(status=messages.Status(code=code, message=message))


def pipe_failure(error: Error) -> messages.Status:
    """Return the status of an error: whether it may pass, or what is sent contradicts what is here."""
    status = failure(error)
    if isinstance(error, AuthenticationError) or status.code in (NOT_LOGGED_IN, PIPE_TYPE_ERROR, PIPE_HANDSHAKE_ERROR, 803):
        return status
    # A pipe drops what conflicts for long. What may be a bug here is no reason for that.
    status.code = PIPE_UNAVAILABLE if isinstance(error, TransientError | InternalError) else PIPE_USER_CONFLICT
    return status


def introduce(client: Client, content: Content) -> messages.Status:
    """Take the handshake of a pipe, which names its user."""
    settings = {content.text(): content.text() for _ in range(content.count())}
    check_precision(settings.get("timestampPrecision"))
    user, password = settings.get("username"), settings.get("password")
    if user is not None and password is not None:
        client.log_in(user, password)
    client.connection.check()
    return success()


def introduce_without_login(client: Client, content: Content) -> messages.Status:
    """Take the older handshake, which has no user: the client has to be logged in."""
    check_precision(content.text())
    client.connection.check()
    return success()


def check_precision(precision: str | None) -> None:
    """Raise `ConfigurationError` if instants of a pipe have another unit."""
    if precision != PRECISION:
        raise ConfigurationError(
            f"IoTDB receiver's timestamp precision {PRECISION}, connector's timestamp precision {precision}. Validation fails.",
            hint=f"send from a cluster whose times are in {PRECISION}",
        ).with_status(PIPE_HANDSHAKE_ERROR)


def write(client: Client, tablets: Sequence[Tablet]) -> messages.Status:
    """Write tablets, all or none. Rows that are older than their time to live count as written, as with IoTDB."""
    context = client.connection.session.context
    names = databases_of([tablet.path for tablet in tablets], context)
    databases = {path: context.catalog.databases.get(name) for path, name in names.items()}
    first = {path: tick for limits in limits_of(context, databases).values() for path, tick in limits.first.items()}
    live = [tablet.since(first[tablet.path]) if tablet.path in first else tablet for tablet in tablets]
    client.write(f"pipeTransfer of {len(tablets)} tablets", [tablet for tablet in live if len(tablet.times)])
    return success()


def read_raw(content: Content) -> list[Tablet]:
    return [read_raw_tablet(content)]


def read_batch(content: Content) -> list[Tablet]:
    """Read a batch: logged rows, then rows as plans, then tablets."""
    tablets: list[Tablet] = []
    for _ in range(content.count()):
        tablets += read_logged_node(Content(content.binary()))
    for _ in range(content.count()):
        tablets += read_insert_node(content)
    return tablets + [read_raw_tablet(content) for _ in range(content.count())]


TABLETS: Final[dict[int, Callable[[Content], list[Tablet]]]] = {
    INSERT_NODE: read_insert_node,
    RAW_TABLET: read_raw,
    TABLET_BATCH: read_batch,
    LOGGED_NODE: read_logged_node,
}
"""What reads tablets from a request, by its type."""


def dispatch_compressed(client: Client, content: Content) -> messages.Status:
    """Do what a compressed request asks for."""
    methods = [(content.byte(), content.int32()) for _ in range(content.take(1)[0])]
    sizes = [size for _, size in methods]
    if min(sizes, default=0) < 0 or sum(sizes) > MAX_BODY_BYTES:
        raise DataError(f"a request of {sum(sizes)} bytes is too large", hint=f"send at most {MAX_BODY_BYTES} bytes")
    needed = sum(size + (MAX_LZMA_BYTES if method == LZMA2 else 0) for method, size in methods)
    with client.requests.expanded(client.owner, needed):
        return dispatch(client, *decompressed(methods, content.rest()))


def decompressed(methods: Sequence[tuple[int, int]], body: bytes) -> tuple[int, bytes]:
    """Return the type and body of a request. Of its methods and the sizes they lead to, that which was applied last comes last."""
    for method, size in reversed(methods):
        body = decompress(method, body, size)
    inner = Content(body)
    inner.byte()
    kind = inner.int16()
    if kind == COMPRESSED:
        raise DataError("a compressed request is in a compressed request", hint="name the methods in one request")
    return kind, inner.rest()


def decompress(method: int, body: bytes, size: int) -> bytes:
    """Return content of a size."""
    name = next((name for number, name in CODECS.values() if number == method), None)
    if name is None and method != LZMA2:
        raise NotSupportedError(f"{method} is no code of a compression", hint="use snappy, gzip, lz4, zstd or lzma2")
    try:
        if name is None:
            content = lzma.LZMADecompressor(memlimit=MAX_LZMA_BYTES).decompress(body, max_length=size)
        else:
            content = bytes(pa.Codec(name).decompress(body, size, asbytes=True))
        is_shorter = len(content) < size or (name in UNSIZED and fits(name, body, size - 1))
    except (OSError, EOFError, ValueError, lzma.LZMAError) as error:
        raise DataError(f"a compressed request cannot be read: {error}", hint="check the network") from error
    if is_shorter:
        raise DataError(f"a compressed request has fewer than {size} bytes", hint="check the network")
    return content


def fits(name: str, body: bytes, size: int) -> bool:
    """Return whether content is not larger than a size."""
    try:
        pa.Codec(name).decompress(body, size, asbytes=True)
    except (OSError, ValueError):
        return False
    return True


def join_slice(client: Client, content: Content) -> messages.Status:
    """Take a slice of a request, and do what it asks for once it is complete."""
    order, kind, size, part = content.int32(), content.int16(), content.int32(), content.binary()
    index, count = content.int32(), content.int32()
    if index == 0 and 0 <= size <= MAX_BODY_BYTES and 0 < count <= MAX_SLICES:
        client.requests.begin(client, SlicedRequest(client.owner, order, kind, size))
    request = client.requests.add(client, (order, kind, index), part)
    if index + 1 < count:
        return success()
    try:
        if kind == SLICE:
            raise DataError("a slice is in slices", hint="send the request again")
        body = b"".join(request.parts)
        request.parts.clear()
        return dispatch(client, kind, body)
    finally:
        client.requests.forget(client)
