"""Webhooks of NOTIFY: which answers are followed by another attempt, and which stop the stream."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from urllib.error import URLError

import pytest

from headrace.egress import EgressPolicy
from headrace.errors import NotificationRejectedError
from headrace.model.jobs import DesiredState, JobState
from headrace.model.notifications import EventType, FailurePolicy, Notification
from headrace.settings import load
from headrace.storage.delta.outbox import Message
from headrace.streams.notifications import webhook
from headrace.streams.notifications.sender import NotificationSender
from headrace.streams.notifications.webhook import BusyServerError, retry_after
from tests.streams.environment import StreamEnvironment
from tests.streams.test_notifications import EXPECTED, QUERY, WRITES, brief, notify, wait_for_failure
from tests.streams.webhook_server import Answer, WebhookServer
from tests.support.certificates import make_certificate
from tests.support.waiting import wait_until

MESSAGES = [Message("s", 1, number, f'{{"number": {number}}}'.encode()) for number in range(3)]
TEXTS = [message.payload.decode() for message in MESSAGES]
NOW: Answer = (429, {"Retry-After": "0"})


@pytest.fixture
def server() -> Iterator[WebhookServer]:
    made = WebhookServer()
    made.start()
    yield made
    made.stop()


def sender(url: str, policy: FailurePolicy = FailurePolicy.PAUSE) -> NotificationSender:
    return NotificationSender(
        Notification((url,), (EventType.WINDOW_OPEN,), policy), EgressPolicy(load(egress="127.0.0.1"), lambda: False)
    )


@pytest.mark.spark
def test_a_server_that_fails_for_a_while_gets_all_events_in_order(env: StreamEnvironment, server: WebhookServer) -> None:
    server.answers = [(500, {}), (500, {}), NOW, (408, {})]
    plan = env.create(f"create stream s into t as {QUERY}" + notify(server))
    for write in WRITES:
        env.insert(write)
        env.settle()
    wait_for_failure(env, plan.id)
    wait_until(lambda: len(server.events()) == len(EXPECTED), "the events")
    assert [brief(event) for event in server.events()] == EXPECTED
    assert len(server.requests) == 4 + len(server.received)


@pytest.mark.spark
@pytest.mark.parametrize("status", [404, 302])
def test_a_stream_whose_message_is_rejected_is_stopped_until_it_is_resumed(
    env: StreamEnvironment, server: WebhookServer, status: int
) -> None:
    target = WebhookServer()
    target.start()
    server.answers = [(status, {"Location": target.url})]
    plan = env.create(f"create stream s into t as {QUERY}" + notify(server))
    env.insert(WRITES[0])
    env.settle()

    def is_stopped() -> bool:
        env.settle()
        return env.record(plan).state is JobState.STOPPED

    wait_until(is_stopped, "the stream to be stopped")
    target.stop()
    reason = env.record(plan).reason
    assert reason is not None
    assert reason.code == "NOTIFY_REJECTED"
    assert reason.message == f"the webhook of NOTIFY at http://127.0.0.1:{server.port}/********** answers with HTTP {status}"
    assert "RESUME STREAM" in reason.hint
    assert target.requests == []
    for write in WRITES[1:]:
        env.insert(write)
    env.catalog.jobs.set_desired(plan.id, DesiredState.RUNNING)
    env.catalog.jobs.set_state(plan.id, JobState.CREATED)
    env.settle()
    wait_until(lambda: len(server.events()) == len(EXPECTED), "the events")
    assert [brief(event) for event in server.events()] == EXPECTED


def test_of_messages_that_may_be_dropped_only_the_rejected_one_is(server: WebhookServer) -> None:
    server.answers = [(400, {})]
    sender(server.url, FailurePolicy.DROP)(MESSAGES)
    assert server.received == TEXTS[1:]


def test_a_message_that_was_delivered_is_not_sent_again_because_a_later_one_fails(server: WebhookServer) -> None:
    send = sender(server.url)
    send(MESSAGES[:1])
    server.answers = [(503, {})]
    with pytest.raises(BusyServerError, match="HTTP 503"):
        send(MESSAGES)
    send(MESSAGES)
    assert server.received == TEXTS


def test_a_server_is_left_alone_for_as_long_as_it_asks_within_a_bound(
    server: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "MAX_RETRY_AFTER_S", 0.3)
    send = sender(server.url)
    server.answers = [(503, {"Retry-After": "3600"})]
    with pytest.raises(BusyServerError):
        send(MESSAGES)
    with pytest.raises(ConnectionError, match="just failed"):
        send(MESSAGES)
    assert len(server.requests) == 1
    time.sleep(0.3)
    send(MESSAGES)
    assert server.received == TEXTS


@pytest.mark.parametrize(("text", "seconds"), [("7", 7), ("86400", 300), ("", 0), ("soon", 0), ("-1", 0), ("²", 0)])
def test_the_pause_that_a_header_asks_for_is_bounded(text: str, seconds: float) -> None:
    assert retry_after(text) == seconds


def test_a_pause_may_end_at_a_date() -> None:
    assert 50 < retry_after(formatdate(time.time() + 60, usegmt=True)) <= 60
    assert retry_after(formatdate(0, usegmt=True)) == 0


def test_a_request_has_the_login_of_the_address_and_the_type_of_its_content(server: WebhookServer) -> None:
    sender(server.url.replace("http://", "http://vera:p%40ss@") + "#here")(MESSAGES[:1])
    ((path, headers),) = server.requests
    assert path == "/hook?key=1"
    assert headers["Authorization"] == "Basic dmVyYTpwQHNz"
    assert headers["Content-Type"] == "application/json"


def test_the_certificate_of_a_server_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = make_certificate(tmp_path / "tls")
    server = WebhookServer((certificate, key))
    server.start()
    try:
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            sender(server.url)(MESSAGES)
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        sender(server.url)(MESSAGES)
    finally:
        server.stop()
    assert server.received == TEXTS


@pytest.mark.parametrize("part", [b"", b"H"])
def test_a_server_that_answers_too_slowly_has_failed(part: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "REPLY_TIMEOUT_S", 0.5)
    ended = threading.Event()

    def trickle(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            while not ended.wait(0.1):
                connection.sendall(part)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        began = time.monotonic()
        with pytest.raises(Exception, match=r".") as raised:
            sender(f"http://127.0.0.1:{listener.getsockname()[1]}/")(MESSAGES[:1])
        took = time.monotonic() - began
        ended.set()
        thread.join()
    assert took < 10
    assert not isinstance(raised.value, NotificationRejectedError)
