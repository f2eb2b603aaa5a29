"""Sending of messages to webhooks: each message is the body of a POST."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request

from headrace.egress import EgressPolicy, Endpoint, EndpointKind
from headrace.egress_http import checked_opener
from headrace.errors import NotificationRejectedError
from headrace.model.masking import masked
from headrace.storage.delta.outbox import Message

REPLY_TIMEOUT_S: Final = 10.0
"""A server that takes longer to take a message, or to answer, has failed."""
MAX_RETRY_AFTER_S: Final = 300.0
"""A server that asks for a longer pause is tried again after this one."""
RETRIED: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
"""Statuses below 500 with which a server asks for another attempt."""


class BusyServerError(ConnectionError):
    """A server cannot take a message now, and may ask for a pause."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NoRedirects(HTTPRedirectHandler):
    """Follows no redirect, which would send the messages elsewhere."""

    def redirect_request(self, *_: object) -> None:
        """Leave the redirect as the answer."""


class WebhookChannel:
    """Posts messages to one address. A server has a message once it answers with a status from 200 to 299."""

    def __init__(self, url: str, egress: EgressPolicy) -> None:
        self._endpoint = Endpoint(EndpointKind.NOTIFY, url)
        self._egress = egress
        self._opener = checked_opener(EndpointKind.NOTIFY, egress, NoRedirects())
        self._url, self._headers = request_of(url)

    def send(self, messages: Sequence[Message]) -> Iterator[Message]:
        """See `Channel`."""
        for message in messages:
            self._egress.check(self._endpoint)
            try:
                self._opener.open(Request(self._url, message.payload, self._headers), timeout=REPLY_TIMEOUT_S).close()
            except HTTPError as answer:
                with answer:
                    raise self._failure(answer) from None
            yield message

    def close(self) -> None:
        """See `Channel`. A connection ends with its answer."""

    def _failure(self, answer: HTTPError) -> Exception:
        text = masked(f"the webhook of NOTIFY at {self._endpoint.target} answers with HTTP {answer.code}")
        if answer.code in RETRIED or answer.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return BusyServerError(text, retry_after(answer.headers.get("Retry-After", "")))
        is_redirect = answer.code < HTTPStatus.BAD_REQUEST
        what = (
            "redirects are not followed: name the last address in NOTIFY" if is_redirect else "correct the address or the receiver"
        )
        return NotificationRejectedError(text, hint=f"{what}, then run RESUME STREAM")


def request_of(url: str) -> tuple[str, dict[str, str]]:
    """Return an address without user and fragment, and the headers of its requests."""
    headers = {"Content-Type": "application/json", "User-Agent": "headrace"}
    parts = urlsplit(url)
    user, separator, host = parts.netloc.rpartition("@")
    if separator:
        credentials = base64.b64encode(unquote(user if ":" in user else f"{user}:").encode()).decode()
        headers["Authorization"] = f"Basic {credentials}"
    return parts._replace(netloc=host, fragment="").geturl(), headers


def retry_after(text: str) -> float:
    """Return the pause that a header asks for, in seconds or until a date; 0 if it is not valid."""
    try:
        seconds = float(text) if text.isascii() and text.isdigit() else parsedate_to_datetime(text).timestamp() - time.time()
    except ValueError:
        return 0.0
    return min(max(0.0, seconds), MAX_RETRY_AFTER_S)
