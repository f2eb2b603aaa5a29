"""Which settings of librdkafka attributes may set, which of them name files, and the servers that they name.

Others are refused: some load shared libraries, run commands, or read files in the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from headrace.egress import EgressPolicy, Endpoint, EndpointKind
from headrace.model.spelling import did_you_mean
from headrace.pipes.attributes import PipeAttributes, pipe_error, without_prefix

SERVERS: Final = "bootstrap.servers"
SHARED_PREFIXES: Final = ("security.", "sasl.", "ssl.")
CLIENT_PREFIXES: Final = ("producer.", "consumer.")
DEFAULT_PORT: Final = 9092
TOKEN_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"
PROBE: Final = "probe"
"""The value of `ssl.ca.location` with which the client looks for the certificates of the system."""
FILES: Final = frozenset(
    {
        *("ssl.ca.location", "ssl.certificate.location", "ssl.crl.location", "ssl.key.location", "ssl.keystore.location"),
        "https.ca.location",
    }
)
SECURITY: Final = frozenset(
    {
        *("security.protocol", "enable.ssl.certificate.verification", "https.ca.pem"),
        *("sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", TOKEN_ENDPOINT),
        *(f"sasl.oauthbearer.{name}" for name in ("client.id", "client.secret", "extensions", "method", "scope")),
        *(f"ssl.{name}" for name in ("ca.pem", "certificate.pem", "key.password", "key.pem", "keystore.password")),
        *("ssl.cipher.suites", "ssl.curves.list", "ssl.endpoint.identification.algorithm", "ssl.sigalgs.list"),
    }
)
CLIENTS: Final = frozenset(
    {
        *("allow.auto.create.topics", "api.version.request.timeout.ms", "broker.address.family", "broker.address.ttl"),
        *("client.dns.lookup", "client.id", "client.rack", "connections.max.idle.ms", "enable.metrics.push"),
        *("max.in.flight", "max.in.flight.requests.per.connection", "message.max.bytes", "metadata.max.age.ms"),
        *("receive.message.max.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.max.ms"),
        *("retry.backoff.ms", "socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.max.fails"),
        *("socket.nagle.disable", "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms"),
        *("topic.metadata.refresh.fast.interval.ms", "topic.metadata.refresh.interval.ms", "topic.metadata.refresh.sparse"),
    }
)
PRODUCERS: Final = frozenset(
    {
        *("acks", "batch.num.messages", "batch.size", "compression.codec", "compression.level", "compression.type"),
        *("delivery.timeout.ms", "enable.idempotence", "linger.ms", "message.send.max.retries", "message.timeout.ms"),
        *("partitioner", "queue.buffering.backpressure.threshold", "queue.buffering.max.kbytes"),
        *("queue.buffering.max.messages", "queue.buffering.max.ms", "request.timeout.ms", "retries"),
        "sticky.partitioning.linger.ms",
    }
)
CONSUMERS: Final = frozenset(
    {
        *("auto.offset.reset", "check.crcs", "enable.auto.commit", "enable.auto.offset.store", "fetch.error.backoff.ms"),
        *("fetch.max.bytes", "fetch.message.max.bytes", "fetch.min.bytes", "fetch.queue.backoff.ms", "fetch.wait.max.ms"),
        *("heartbeat.interval.ms", "isolation.level", "max.partition.fetch.bytes", "max.poll.interval.ms"),
        *("queued.max.messages.kbytes", "queued.min.messages", "session.timeout.ms"),
    }
)
ALLOWED: Final = {
    "": frozenset(one for one in SECURITY | FILES if one.startswith(SHARED_PREFIXES)),
    "producer.": SECURITY | FILES | CLIENTS | PRODUCERS,
    "consumer.": SECURITY | FILES | CLIENTS | CONSUMERS,
}
"""The settings by what begins the keys of their attributes."""


def settings_of(attributes: PipeAttributes, client: str) -> dict[str, str]:
    """Return the settings that attributes name with the prefix of a client, or for all clients.

    Raises:
        ProgrammingError: One is not among those that may be set.
    """
    settings: dict[str, str] = {}
    for typed, value in attributes.items():
        key = without_prefix(typed)
        prefix = next((one for one in CLIENT_PREFIXES if key.startswith(one)), "")
        if not prefix and not key.startswith(SHARED_PREFIXES):
            continue
        name = key.removeprefix(prefix)
        if name not in ALLOWED[prefix]:
            raise unsupported(typed, prefix, name)
        if prefix in ("", client):
            settings[name] = value
    return settings


def unsupported(typed: str, prefix: str, name: str) -> Exception:
    """Return the error for a setting that may not be set."""
    names = (f"{prefix}{allowed}" for allowed in ALLOWED[prefix])
    hint = did_you_mean(f"{prefix}{name}", names, "use one of those that the guide on Kafka lists")
    return pipe_error(f"{typed} is not supported", hint=hint)


def servers_of(text: str) -> list[Endpoint]:
    """Return the brokers of a list; raise `ProgrammingError` for what is none."""
    entries = [entry.strip().rpartition("://")[2] for entry in text.split(",") if entry.strip()]
    endpoints = []
    for entry in entries:
        host, _, port = entry.rpartition(":") if not entry.endswith("]") and ":" in entry else (entry, "", str(DEFAULT_PORT))
        if not host or " " in entry or not (port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16):
            raise pipe_error(f"{SERVERS} has {entry}, which is no host with a port", hint="write host:port,host:port")
        endpoints.append(Endpoint.at(EndpointKind.KAFKA, host.strip("[]"), int(port)))
    return endpoints


def endpoints(attributes: PipeAttributes) -> tuple[Endpoint, ...]:
    """Return the servers and files that the attributes of a source or sink name."""
    named = [one for prefix in CLIENT_PREFIXES for one in _named(settings_of(attributes, prefix))]
    return tuple(dict.fromkeys((*servers_of(attributes.text(SERVERS)), *named)))


def _named(settings: dict[str, Any]) -> Iterator[Endpoint]:
    if settings.get(TOKEN_ENDPOINT):
        yield Endpoint(EndpointKind.OAUTH, settings[TOKEN_ENDPOINT])
    for key in sorted(FILES & settings.keys()):
        if settings[key] not in ("", PROBE):
            yield Endpoint(EndpointKind.LOCATION, settings[key])


def checked_settings(settings: dict[str, Any], egress: EgressPolicy) -> dict[str, Any]:
    """Return the settings of a client that may connect now, with its servers and files in the form that was checked.

    The client resolves names itself, so all their addresses have to be allowed.

    Raises:
        EgressDeniedError: A server or file is not allowed.
    """
    servers = servers_of(settings[SERVERS])
    for endpoint in servers:
        check_server(endpoint, egress)
    for endpoint in _named(settings):
        egress.check(endpoint)
        if endpoint.kind is EndpointKind.OAUTH:
            check_server(endpoint, egress)
    files = {key: egress.location(settings[key]) for key in FILES & settings.keys() if settings[key] not in ("", PROBE)}
    return {**settings, **files, SERVERS: ",".join(endpoint.target for endpoint in servers)}


def check_server(endpoint: Endpoint, egress: EgressPolicy) -> None:
    """Raise `EgressDeniedError` unless all addresses of a server are allowed now. One that has none cannot be reached either."""
    try:
        egress.resolve(endpoint, needs_all=True)
    except OSError:
        return
