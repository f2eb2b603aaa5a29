"""The sink that is a WebSocket server: a client receives frames with rows, and acknowledges each.

One client receives at a time; others that are connected take over when it leaves. A frame that is not acknowledged then is sent to
the next client. While there is no client, a transfer waits, and so does the pipe.
"""

from __future__ import annotations

import hmac
import json
import threading
from collections import deque
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from headrace.egress import EgressPolicy, Endpoint, EndpointKind, is_loopback_host
from headrace.errors import OperationalError
from headrace.pipes.attributes import PipeAttributes, pipe_error, timeout_seconds
from headrace.pipes.events import DeleteEvent, Event, StatementEvent
from headrace.pipes.formats.json_rows import JsonEncoder
from headrace.pipes.formats.messages import FormatOptions, listed
from headrace.pipes.plugins import Delivery, PipeContext, Sink

if TYPE_CHECKING:
    from websockets.sync.server import Server, ServerConnection

__all__ = ["create", "endpoints", "validate"]

LOCAL: Final = "127.0.0.1"
ROWS_PER_FRAME: Final = 1_000
MAX_CLIENTS: Final = 100
"""Clients that are connected at once; each has a thread."""
MAX_UNACKNOWLEDGED: Final = 8
"""Frames that are sent before the first of them is acknowledged."""
SERVER: Final = "headrace-websocket-sink"
PROBE_S: Final = 5.0


def validate(attributes: PipeAttributes) -> None:
    """Check the attributes of a sink."""
    port = attributes.integer("websocket.port", default=8080)
    if not 0 < port < 65_536:
        raise pipe_error(f"websocket.port must be between 1 and 65535, but got {port}")
    host = attributes.text("websocket.host", default=LOCAL)
    if not is_loopback_host(host) and not attributes.text("password"):
        raise pipe_error(f"a websocket-sink that listens on {host} needs a password", hint="set sink.password")
    timeout_seconds(attributes)


def endpoints(attributes: PipeAttributes) -> tuple[Endpoint, ...]:
    """Return where a sink with some attributes listens."""
    host, port = attributes.text("websocket.host", default=LOCAL), attributes.integer("websocket.port", default=8080)
    return (Endpoint.at(EndpointKind.WEBSOCKET, host, port),)


class WebSocketSink(Sink):
    """Serves one client at a time."""

    def __init__(self, attributes: PipeAttributes, timeout_ms: int, egress: EgressPolicy) -> None:
        """Read the settings; listen later."""
        self._egress = egress
        (self._endpoint,) = endpoints(attributes)
        self._port = attributes.integer("websocket.port", default=8080)
        self._origins = (None, *listed(attributes.text("websocket.origins")))
        self._password = attributes.text("password")
        self._timeout_s = timeout_seconds(attributes, timeout_ms)
        self._encoder = JsonEncoder(FormatOptions("json"))
        self._server: Server | None = None
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()
        self._clients: deque[ServerConnection] = deque()
        self._acknowledged: set[str] = set()
        self._is_closed = False

    def handshake(self) -> None:
        """Listen on the port, unless another process already does so for a pipe with the same sink."""
        try:
            self._listen()
        except OperationalError:
            if not self._is_served_elsewhere():
                raise

    def heartbeat(self) -> None:
        """Listen on the port."""
        self._listen()

    def transfer(self, delivery: Delivery) -> None:
        """Send frames; return when all are acknowledged."""
        self._listen()
        frames = self._frames(delivery)
        waiting: dict[str, str] = {}
        receiver: ServerConnection | None = None
        while True:
            while len(waiting) < MAX_UNACKNOWLEDGED and (frame := next(frames, None)) is not None:
                waiting[frame[0]] = frame[1]
                if receiver is not None:
                    self._send(receiver, frame[1])
            if not waiting:
                return
            receiver = self._progress(waiting, receiver)

    def _progress(self, waiting: dict[str, str], receiver: ServerConnection | None) -> ServerConnection | None:
        """Wait for an acknowledgment or for another client, which is sent all that waits; return the client."""
        with self._changed:
            is_changed = self._changed.wait_for(
                lambda: self._is_closed or self._current() is not receiver or self._acknowledged & waiting.keys(), self._timeout_s
            )
            if self._is_closed:
                raise OperationalError("the websocket-sink has been closed")
            current = self._current()
            for frame in self._acknowledged & waiting.keys():
                del waiting[frame]
            self._acknowledged.clear()
        if not is_changed:
            raise self._timed_out(current)
        if current is not None and current is not receiver:
            for text in waiting.values():
                self._send(current, text)
        return current

    def _timed_out(self, client: ServerConnection | None) -> OperationalError:
        if client is None:
            return OperationalError(
                f"no client has connected to the websocket-sink on port {self._port}",
                hint="start a client that acknowledges frames",
            )
        return OperationalError(
            f"the client of the websocket-sink on port {self._port} acknowledges nothing",
            hint='let it send {"ack": id} with the id of each frame',
        )

    def close(self) -> None:
        """Disconnect the clients, and free the port."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            for client in list(self._clients):
                client.close()
            self._thread.join()
            self._server = None

    def _current(self) -> ServerConnection | None:
        """Return the client that receives."""
        return self._clients[0] if self._clients else None

    def _frames(self, delivery: Delivery) -> Iterator[tuple[str, str]]:
        """Yield frames with their ids."""
        index = 0
        for event in delivery.events:
            for content in self._contents(event):
                frame_id = f"{delivery.pipe_id}/{delivery.batch}/{index}"
                yield frame_id, f'{{"id": {json.dumps(frame_id)}, {content}}}'
                index += 1

    def _contents(self, event: Event) -> Iterator[str]:
        """Yield what frames say of an event, as members of an object."""
        if isinstance(event, StatementEvent):
            yield f'"kind": "statement", "category": {json.dumps(event.category)}, "sql": {json.dumps(event.sql)}'
            return
        kind = "delete" if isinstance(event, DeleteEvent) else "insert"
        for start in range(0, event.data.rows.num_rows, ROWS_PER_FRAME):
            part = event.data.with_rows(event.data.rows.slice(start, ROWS_PER_FRAME))
            rows = ",".join(self._encoder.encode(part).texts.to_pylist())
            if rows:
                yield f'"kind": "{kind}", "precision": "{event.data.precision.value}", "rows": [{rows}]'

    def _send(self, client: ServerConnection, text: str) -> None:
        """Send a frame; if the client has left, its thread notes that."""
        from websockets.exceptions import ConnectionClosed

        try:
            client.send(text)
        except ConnectionClosed:
            self._leave(client)

    def _listen(self) -> None:
        """Start the server, if it does not run."""
        if self._server is not None:
            return
        from websockets.sync.server import serve

        try:
            host = self._address()
            options: dict[str, Any] = {"process_request": self._check, "origins": self._origins, "server_header": SERVER}
            self._server = serve(self._serve, host, self._port, **options)
        except OSError as error:
            raise OperationalError(
                f"the websocket-sink cannot listen on {self._endpoint.target}: {error.strerror}",
                hint="choose another websocket.port, or give pipes the same sink attributes to share one",
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="websocket-sink", daemon=True)
        self._thread.start()

    def _address(self) -> str:
        """Return the address to listen on, which has to be allowed."""
        return str(self._egress.resolve(self._endpoint)[0][4][0])

    def _is_served_elsewhere(self) -> bool:
        """Return whether a sink like this one listens on the port."""
        import httpx

        try:
            host = self._address()
            url = f"http://[{host}]:{self._port}/" if ":" in host else f"http://{host}:{self._port}/"
            answer = httpx.get(url, timeout=PROBE_S, trust_env=False)
        except (httpx.HTTPError, OSError):
            return False
        return str(answer.headers.get("Server")) == SERVER

    def _check(self, client: ServerConnection, request: Any) -> Any:
        """Refuse a client that does not know the password, if there is one, and more clients than there may be."""
        credentials = request.headers.get("Authorization", "")
        if self._password and not hmac.compare_digest(credentials.encode(), f"Bearer {self._password}".encode()):
            return client.respond(HTTPStatus.UNAUTHORIZED, "send the password of the sink as a bearer token\n")
        if len(self._clients) >= MAX_CLIENTS:
            return client.respond(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_CLIENTS} clients are connected\n")
        return None

    def _serve(self, client: ServerConnection) -> None:
        """Receive the acknowledgments of a client until it leaves."""
        with self._changed:
            self._clients.append(client)
            self._changed.notify_all()
        try:
            for text in client:
                self._acknowledge(client, text)
        finally:
            self._leave(client)

    def _acknowledge(self, client: ServerConnection, text: str | bytes) -> None:
        """Note an acknowledgment; disconnect a client that sends something else."""
        try:
            frame_id = str(json.loads(text)["ack"])
        except (ValueError, KeyError, TypeError, RecursionError):
            client.close(1008, 'send {"ack": id}')
            return
        with self._changed:
            if client is self._current():
                self._acknowledged.add(frame_id)
                self._changed.notify_all()

    def _leave(self, client: ServerConnection) -> None:
        with self._changed:
            if client in self._clients:
                self._clients.remove(client)
            self._changed.notify_all()


def create(attributes: PipeAttributes, pipe: PipeContext) -> Sink:
    """Return the sink, whose time limit is that of the settings unless an attribute says otherwise."""
    return WebSocketSink(attributes, pipe.context.settings.pipe_sink_timeout_ms, pipe.context.egress)
