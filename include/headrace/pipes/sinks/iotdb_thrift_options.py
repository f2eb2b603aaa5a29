"""The attributes of the sinks to IoTDB: what is checked when a pipe is created, and the options that they set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.egress import Endpoint, EndpointKind
from headrace.errors import NotSupportedError
from headrace.model.pipes import DEFAULT_PLUGINS, PipeStage
from headrace.model.tree_status import TreeStatus
from headrace.pipes.attributes import PipeAttributes, pipe_error

ROUND_ROBIN: Final = "round-robin"
RANDOM: Final = "random"
PRIORITY: Final = "priority"
STRATEGIES: Final = (ROUND_ROBIN, RANDOM, PRIORITY)
COMPRESSORS: Final = ("snappy", "gzip", "lz4", "zstd", "lzma2")
FORMATS: Final = ("tablet", "hybrid", "tsfile")
ZSTD_LEVELS: Final = (-131_072, 22)
ZSTD_LEVEL: Final = 3
BATCH_BYTES: Final = 16 << 20
SSL_NAMES: Final = ("iotdb-thrift-ssl-sink", "iotdb-thrift-ssl-connector")
SYNC_NAMES: Final = ("iotdb-thrift-sync-sink", "iotdb-thrift-sync-connector")
HOSTS: Final = ("ip", "host", "thrift.host")
PORTS: Final = ("port", "thrift.port")
BAD_NODES: Final = (
    "Error occurred while parsing node urls from target servers, please check the specified 'host':'port' or 'node-urls'"
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClusterOptions:
    """The nodes of an IoTDB cluster, and how to log in.

    Attributes:
        nodes: Hosts and ports, the preferred first.
        user: The user there.
        password: The user's password.
        has_tls: Whether connections are encrypted.
        trust_store: File with the certificates of trusted servers.
        trust_store_password: Its password.
    """

    nodes: tuple[tuple[str, int], ...]
    user: str = "root"
    password: str = "root"
    has_tls: bool = False
    trust_store: str = ""
    trust_store_password: str = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(nodes={self.nodes}, user={self.user!r})"

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The nodes and the file."""
        nodes = tuple(Endpoint.at(EndpointKind.IOTDB, *node) for node in self.nodes)
        return (*nodes, Endpoint(EndpointKind.LOCATION, self.trust_store)) if self.has_tls else nodes


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ThriftOptions(ClusterOptions):
    """The options of a sink to IoTDB.

    Attributes:
        strategy: How requests are divided among nodes.
        batch_bytes: About how large a request may get.
        compressors: What compresses requests, one after the other.
        zstd_level: How much zstd compresses.
        bytes_per_second: Limit of what is sent; none if not positive.
        is_marked: Whether the receiver marks the data as coming from a pipe, so that its own pipes may leave it out.
        converts_types: Whether the receiver converts values to the type of a series that has another one.
        ignores_conflicts: Whether data that contradicts the receiver's is dropped.
        conflict_seconds: How long such data is tried again otherwise; without limit if negative.
        other_seconds: How long to try again after another failure; without limit if negative.
    """

    strategy: str = ROUND_ROBIN
    batch_bytes: int = BATCH_BYTES
    compressors: tuple[str, ...] = ()
    zstd_level: int = ZSTD_LEVEL
    bytes_per_second: float = -1
    is_marked: bool = True
    converts_types: bool = True
    ignores_conflicts: bool = False
    conflict_seconds: int = 60
    other_seconds: int = -1


def keys(name: str) -> tuple[str, str]:
    """Return both spellings of a key, in the order in which they are looked up."""
    return f"connector.{name}", f"sink.{name}"


def validate(attributes: PipeAttributes) -> None:
    """Check the attributes of a sink to IoTDB, in IoTDB's order.

    Raises:
        ProgrammingError: An attribute is missing or invalid.
        NotSupportedError: The data would have to be sent as files.
    """
    read_options(attributes)


def read_options(attributes: PipeAttributes) -> ThriftOptions:
    """Return the options that attributes set; raise what `validate` raises."""
    check_has_nodes(attributes)
    batch_bytes = read_batch_bytes(attributes)
    check_synonyms(attributes)
    strategy = one_of(attributes, "load-balance-strategy", STRATEGIES, ROUND_ROBIN, "Load balance strategy")
    one_of(attributes, "load-tsfile-strategy", ("async", "sync"), "sync", "Load tsfile strategy")
    zstd_level = read_zstd_level(attributes)
    compressors = read_compressors(attributes)
    bytes_per_second = attributes.number(*keys("rate-limit-bytes-per-second"), default=-1)
    ignores_conflicts = read_conflict_strategy(attributes) == "ignore"
    check_format(attributes)
    has_tls = check_tls(attributes)
    return ThriftOptions(
        nodes=read_nodes(attributes),
        user=attributes.text(*keys("user"), *keys("username"), default="root"),
        password=attributes.text(*keys("password"), default="root"),
        strategy=strategy,
        batch_bytes=batch_bytes,
        compressors=compressors,
        zstd_level=zstd_level,
        bytes_per_second=bytes_per_second,
        is_marked=attributes.boolean(*keys("mark-as-pipe-request"), default=True),
        converts_types=attributes.boolean(*keys("exception.data.convert-on-type-mismatch"), default=True),
        ignores_conflicts=ignores_conflicts,
        conflict_seconds=attributes.integer(*keys("exception.conflict.retry-max-time-seconds"), default=60),
        other_seconds=attributes.integer(*keys("exception.others.retry-max-time-seconds"), default=-1),
        has_tls=has_tls,
        trust_store=attributes.text("sink.ssl.trust-store-path"),
        trust_store_password=attributes.text("sink.ssl.trust-store-pwd"),
    )


def check_has_nodes(attributes: PipeAttributes) -> None:
    has_host = any(attributes.first(*keys(name)) is not None for name in HOSTS)
    has_port = port_of(attributes) is not None
    if not (has_host and has_port) and attributes.first(*keys("node-urls")) is None:
        raise pipe_error(
            "One of connector.node-urls, connector.host:connector.port, sink.node-urls, sink.host:sink.port must be specified"
        )


def read_nodes(attributes: PipeAttributes) -> tuple[tuple[str, int], ...]:
    """Return all nodes that are named, each once."""
    urls = [] if (listed := attributes.first(*keys("node-urls"))) is None else listed.replace(" ", "").split(",")
    port = port_of(attributes)
    if port is not None:
        hosts = (attributes.first(*keys(name)) for name in HOSTS)
        urls = [f"{host}:{port}" for host in hosts if host is not None] + urls
    return tuple(dict.fromkeys(parse_node(url) for url in urls))


def port_of(attributes: PipeAttributes) -> str | None:
    return attributes.first(*(key for name in PORTS for key in keys(name)))


def parse_node(url: str) -> tuple[str, int]:
    """Return host and port of `host:port`; the host may be an IPv6 address in brackets."""
    host, _, port = url.rpartition(":")
    try:
        number = int(port)
    except ValueError:
        raise pipe_error(BAD_NODES) from None
    if not host or not 0 < number < 1 << 16:
        raise pipe_error(BAD_NODES)
    return host.strip("[]"), number


def read_batch_bytes(attributes: PipeAttributes) -> int:
    size = attributes.integer(*keys("batch.size-bytes"), default=BATCH_BYTES)
    if size <= 0:
        raise pipe_error(f"sink.batch.size-bytes must be > 0, but got {size}")
    return size


def check_synonyms(attributes: PipeAttributes) -> None:
    if attributes.first(*keys("user")) is not None and attributes.first(*keys("username")) is not None:
        users, names = (", ".join(keys(name)) for name in ("user", "username"))
        raise pipe_error(f"Cannot specify both [{users}] and [{names}] at the same time")


def one_of(attributes: PipeAttributes, key: str, options: tuple[str, ...], default: str, what: str) -> str:
    """Return a value that may be in any case and have spaces around it."""
    value = attributes.text(*keys(key), default=default).strip().lower()
    if value not in options:
        raise pipe_error(f"{what} should be one of [{', '.join(options)}], but got {value}.")
    return value


def read_zstd_level(attributes: PipeAttributes) -> int:
    level = attributes.integer(*keys("compressor.zstd.level"), default=ZSTD_LEVEL)
    least, most = ZSTD_LEVELS
    if not least <= level <= most:
        raise pipe_error(f"Zstd compression level should be in the range [{least}, {most}], but got {level}.")
    return level


def read_compressors(attributes: PipeAttributes) -> tuple[str, ...]:
    listed = [name.strip() for name in attributes.text(*keys("compressor")).lower().split(",")]
    names = tuple(name for name in listed if name)
    for name in names:
        if name not in COMPRESSORS:
            raise pipe_error(f"Compressor should be one of [{', '.join(COMPRESSORS)}], but got {name}.")
    if len(names) > 127:
        raise pipe_error(f"The number of compressors should be less than or equal to 127, but got {len(names)}.")
    return names


def read_conflict_strategy(attributes: PipeAttributes) -> str:
    key = "exception.conflict.resolve-strategy"
    value = attributes.text(*keys(key), default="retry").strip().lower()
    if value not in ("retry", "ignore"):
        raise pipe_error(f"The value of key connector.{key} or sink.{key} must be either 'retry' or 'ignore'.")
    return value


def check_format(attributes: PipeAttributes) -> None:
    if attributes.choice(*keys("format"), options=FORMATS, default="hybrid") == "tsfile":
        raise NotSupportedError("sink.format tsfile is not supported", hint="omit the format: data is sent as tablets").with_status(
            TreeStatus.PIPE_ERROR
        )


def check_tls(attributes: PipeAttributes) -> bool:
    """Return whether connections are encrypted."""
    name = attributes.text("connector", "sink", default=DEFAULT_PLUGINS[PipeStage.SINK]).lower()
    is_enabled = attributes.boolean("sink.ssl.enable", default=False)
    has_store = "sink.ssl.trust-store-path" in attributes and "sink.ssl.trust-store-pwd" in attributes
    if (name in SSL_NAMES or is_enabled) and not has_store:
        raise pipe_error("When ssl transport is enabled, sink.ssl.trust-store-path and sink.ssl.trust-store-pwd must be specified")
    if is_enabled and name not in (*SSL_NAMES, *SYNC_NAMES):
        raise pipe_error("Only 'iotdb-thrift-ssl-sink' supports SSL transmission currently.")
    return name in SSL_NAMES or is_enabled
