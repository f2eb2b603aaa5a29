"""Receivers of notifications that do not behave: they stop reading, redirect, or are at hosts that are not allowed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import pytest
from websockets.http11 import Request, Response
from websockets.sync.client import ClientConnection
from websockets.sync.server import ServerConnection, serve

from headrace.egress import EgressPolicy
from headrace.errors import EgressDeniedError
from headrace.jobs.hosts import Driving
from headrace.model.jobs import DesiredState
from headrace.model.notifications import EventType, FailurePolicy, Notification
from headrace.model.positions import Position
from headrace.runtime.job_host import JobHost
from headrace.settings import load
from headrace.storage.delta.outbox import Message
from headrace.streams.notifications import websocket
from headrace.streams.notifications.sender import NotificationSender
from headrace.streams.notifications.websocket import WebSocketChannel
from headrace.streams.runner import StreamRunner
from headrace.streams.sinks.notifying import NotifyingSink
from tests.streams.environment import StreamEnvironment
from tests.streams.receiving import ReceivingServer
from tests.streams.test_notifications import SERVERS
from tests.streams.websocket_server import WebSocketServer
from tests.support.waiting import wait_until

MANY = [Message("s", 1, number, b"x" * 200_000) for number in range(100)]
"""More than a server takes that does not read, and than the buffers of a connection hold."""

COUNTS = "create stream s into t as select _wstart, count(*) n from readings interval(10s)"

ProcessRequest = Callable[[ServerConnection, Request], Response | None]


@contextmanager
def running(handler: Callable[[ServerConnection], None], process_request: ProcessRequest | None = None) -> Iterator[str]:
    """Yield the address of a server that handles its connections in threads."""
    server = serve(handler, "127.0.0.1", 0, process_request=process_request)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
    finally:
        server.shutdown()
        thread.join()


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never reads from them, until the test has ended."""
    ended = threading.Event()

    def wait(_: ServerConnection) -> None:
        ended.wait()

    with running(wait) as url:
        yield url
        ended.set()


@pytest.fixture
def background() -> Iterator[Callable[..., Future[Any]]]:
    """Runs a function in a thread, so that one that never ends fails the test instead of keeping it."""
    pool = ThreadPoolExecutor()
    yield pool.submit
    pool.shutdown(wait=False)


def sender(*urls: str, policy: FailurePolicy = FailurePolicy.PAUSE, hosts: str = "*") -> NotificationSender:
    egress = EgressPolicy(load(egress=hosts), lambda: False)
    return NotificationSender(Notification(urls, (EventType.WINDOW_OPEN,), policy), egress)


def test_a_receiver_that_stops_reading_fails_the_send(
    silent: str, background: Callable[..., Future[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "SEND_TIMEOUT_S", 0.2)
    sent = background(sender(silent), MANY)
    wait_until(sent.done, "the send to fail", bound_s=60)
    assert isinstance(sent.exception(), Exception)


def test_messages_do_not_follow_a_redirect() -> None:
    target = WebSocketServer()
    target.start()

    def redirect(connection: ServerConnection, request: Request) -> Response:
        del request
        response = connection.respond(HTTPStatus.FOUND, "moved")
        response.headers["Location"] = target.url
        return response

    try:
        with running(lambda _: None, redirect) as url, pytest.raises(ConnectionError, match="HTTP 302"):
            sender(url)(MANY[:1])
    finally:
        target.stop()
    assert target.received == []


@pytest.mark.parametrize("kind", SERVERS.values(), ids=SERVERS)
def test_messages_go_to_allowed_hosts_only(kind: type[ReceivingServer]) -> None:
    server = kind()
    server.start()
    try:
        with pytest.raises(EgressDeniedError, match="HEADRACE_EGRESS"):
            sender(server.url, hosts="example.com")(MANY[:1])
        sender(server.url, hosts="example.com, 127.0.0.*")(MANY[:1])
    finally:
        server.stop()
    assert len(server.received) == 1


def test_a_stream_whose_receiver_has_stopped_reading_is_paused_without_waiting(
    offline_env: StreamEnvironment, silent: str, background: Callable[..., Future[Any]]
) -> None:
    plan = offline_env.create(f"{COUNTS} notify ('{silent}') on ('window_open')")
    pollers = offline_env.pollers = JobHost(Driving(offline_env.context))
    pollers.reconcile(offline_env.catalog.jobs.all())
    wait_until(lambda: pollers.poll(0) is False, "the stream to have a state")
    sink = sink_of(pollers)
    sink._append(tuple(message.payload for message in MANY), Position(1, offline_env.record(plan).offsets or {}))
    sender = sink._outbox.deliverer._send
    assert isinstance(sender, NotificationSender)
    wait_until(lambda: is_blocked(sender), "the send to block")
    offline_env.catalog.jobs.set_desired(plan.id, DesiredState.PAUSED)
    paused = background(pollers.reconcile, offline_env.catalog.jobs.all())
    wait_until(paused.done, "the pollers to pause the stream", bound_s=60)
    assert is_blocked(sender)
    assert pollers.running == set()


@pytest.mark.parametrize("scheme", SERVERS)
def test_neither_logs_nor_events_have_the_token_of_an_address(
    offline_env: StreamEnvironment, caplog: pytest.LogCaptureFixture, scheme: str
) -> None:
    plan = offline_env.create(f"{COUNTS} notify ('{scheme}://h/pa55?token=pa55') on ('window_open')")
    settings = offline_env.context.settings.replace({"egress": "none"})
    pollers = offline_env.pollers = JobHost(Driving(replace(offline_env.context, settings=settings)))
    pollers.reconcile(offline_env.catalog.jobs.all())
    wait_until(lambda: pollers.poll(0) is False, "the stream to have a state")
    sink_of(pollers)._append((MANY[0].payload,), Position(1, offline_env.record(plan).offsets or {}))
    wait_until(lambda: "retrying delivery" in caplog.text, "the delivery to fail")
    events = offline_env.catalog.events
    wait_until(lambda: "HEADRACE_EGRESS" in str(events.all("job", plan.id)), "the failure to be recorded")
    assert "pa55" not in caplog.text + str(events.all("job", plan.id))


def sink_of(pollers: JobHost) -> NotifyingSink:
    """Return the sink of the only stream."""
    (job,) = pollers.jobs
    assert isinstance(job.runner, StreamRunner)
    assert isinstance(job.runner.sink, NotifyingSink)
    return job.runner.sink


def is_blocked(sender: NotificationSender) -> bool:
    """Return True if the sender keeps the lock of its connection, as while a write blocks."""
    (receiver,) = sender._receivers
    assert isinstance(receiver.channel, WebSocketChannel)
    connection = receiver.channel.connection
    return connection is not None and all(locked_for_a_moment(connection) for _ in range(5))


def locked_for_a_moment(connection: ClientConnection) -> bool:
    """Return True if nobody else gets the lock of a connection within a moment."""
    is_free = connection.protocol_mutex.acquire(timeout=0.05)
    if is_free:
        connection.protocol_mutex.release()
    return not is_free
