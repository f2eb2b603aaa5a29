"""What the Kafka source and sink share: settings of clients, errors, and topics."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

from headrace.egress import EgressPolicy, Endpoint, EndpointKind
from headrace.errors import ConfigurationError, DatabaseError, OperationalError, TerminalError
from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.kafka_settings import SERVERS, check_server, checked_settings, settings_of

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException

LOG: Final = logging.getLogger(__name__)
REQUEST_S: Final = 10.0
"""How long a request to the brokers may take before they count as unreachable, in seconds."""
TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")

HEADER_KIND: Final = "kind"
HEADER_ID: Final = "id"
"""The id of the pipe, the number of the batch and the index of the message, with slashes between them."""
HEADER_CATEGORY: Final = "category"
HEADER_PRECISION: Final = "precision"
INSERT: Final = "insert"
DELETE: Final = "delete"
STATEMENT: Final = "statement"
KINDS: Final = (INSERT, DELETE, STATEMENT)
PRODUCER_FIXED: Final = {"acks": "all", "enable.idempotence": "true"}
"""Settings of producers that attributes cannot change."""


def require(attributes: PipeAttributes, *keys: str) -> None:
    """Raise `ProgrammingError` with status 1107 if one of some keys has no value."""
    for key in keys:
        if not attributes.text(key):
            raise pipe_error(f"{key} must be specified")


def client_settings(attributes: PipeAttributes, prefix: str, fixed: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a client: those for all clients, those with a prefix, and some that may not be changed.

    Raises:
        ProgrammingError: An attribute is not supported, or contradicts one of the fixed settings.
    """
    settings = {SERVERS: attributes.text(SERVERS), **settings_of(attributes, prefix)}
    for key, value in fixed.items():
        if settings.setdefault(key, value) != value:
            raise pipe_error(f"{prefix}{key} cannot be {settings[key]}: it is always {value}")
    return settings


def checked_client(create: Any, settings: Mapping[str, Any], egress: EgressPolicy) -> Any:
    """Return a client with some settings.

    Raises:
        EgressDeniedError: It must not connect to one of its servers, or read one of its files.
        ConfigurationError: The settings are invalid.
    """
    from confluent_kafka import KafkaException

    try:
        return create({**checked_settings(dict(settings), egress), "logger": LOG})
    except KafkaException as error:
        raise ConfigurationError(f"Kafka's client cannot be created: {message_of(error)}", hint="check the settings") from None


def message_of(error: KafkaException | KafkaError) -> str:
    """Return the text of an error, without its code."""
    first = getattr(error, "args", None)
    inner = first[0] if first else error
    return str(inner.str()) if hasattr(inner, "str") else str(error)


def translated(error: KafkaError, what: str) -> DatabaseError:
    """Return an error of Kafka as one that may be retried, or as one that a user has to act on."""
    text = f"{what}: {error.str()}"
    if is_refusal(error):
        return TerminalError(text, hint="check the user, the password and the certificates")
    if error.code() in terminal_codes():
        return TerminalError(text, hint="check the topic, the rights of the user and the size of messages")
    return OperationalError(text, hint="check that the brokers run and can be reached")


def terminal_codes() -> frozenset[int]:
    """Return the codes of errors that another try does not overcome."""
    from confluent_kafka import KafkaError

    names = (
        "MSG_SIZE_TOO_LARGE",
        "INVALID_MSG",
        "INVALID_RECORD",
        "TOPIC_EXCEPTION",
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "POLICY_VIOLATION",
        "UNSUPPORTED_VERSION",
        "_AUTHENTICATION",
        "_SSL",
        "SASL_AUTHENTICATION_FAILED",
    )
    return frozenset(getattr(KafkaError, name) for name in names)


def raise_unreachable(servers: str, error: KafkaException) -> NoReturn:
    """Raise the error of brokers that do not answer."""
    raise OperationalError(
        f"Kafka at {servers} cannot be reached: {message_of(error)}", hint="check bootstrap.servers, and that the brokers run"
    ) from None


def is_refusal(error: KafkaError) -> bool:
    """Return whether a client and a broker do not accept each other: a password is wrong, or a certificate is not trusted."""
    from confluent_kafka import KafkaError

    is_certificate = error.code() == KafkaError._SSL and "certificate" in error.str()
    return is_certificate or error.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED)


def partitions_of(client: Any, servers: str, egress: EgressPolicy, timeout_s: float = REQUEST_S) -> dict[str, list[int]]:
    """Return the partitions of all topics, by their names.

    Raises:
        OperationalError: No broker answers.
        EgressDeniedError: A broker sends the client to another one that it must not connect to.
    """
    from confluent_kafka import KafkaException

    try:
        metadata = client.list_topics(timeout=timeout_s)
    except KafkaException as error:
        raise_unreachable(servers, error)
    for broker in metadata.brokers.values():
        check_server(Endpoint.at(EndpointKind.KAFKA, broker.host, broker.port), egress)
    return {name: sorted(topic.partitions) for name, topic in metadata.topics.items() if topic.error is None}
