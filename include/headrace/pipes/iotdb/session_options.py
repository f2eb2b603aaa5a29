"""The parameters of `iotdb-session-source`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.pipes.attributes import PipeAttributes, pipe_error
from headrace.pipes.sinks.iotdb_thrift_options import ClusterOptions, read_nodes
from headrace.pipes.sources.options import Bound, bound_of
from headrace.pipes.sources.patterns import iotdb_pattern

ALL_SERIES: Final = "root.**"
LIVE: Final = ("live", "subscribe")
SNAPSHOT: Final = ("snapshot", "query")
POLL_MS: Final = 1_000
NO_NODES: Final = "One of source.node-urls, source.host:source.port must be specified"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SessionOptions(ClusterOptions):
    """What the source reads.

    Attributes:
        path: The pattern of the series.
        start: The first time; None for no bound.
        end: The last time; None for no bound.
        is_snapshot: Whether the pipe ends once it has read what there is.
        poll_ms: How often the server is asked for new rows.
        overlap_ms: How far before the last row of a device it is read again when it has new rows.
    """

    path: str = ALL_SERIES
    start: Bound | None = None
    end: Bound | None = None
    is_snapshot: bool = False
    poll_ms: int = POLL_MS
    overlap_ms: int = 0


def read_options(attributes: PipeAttributes, timezone: str) -> SessionOptions:
    """Return the options that attributes set; times without a zone are in `timezone`."""
    has_address = attributes.first("ip", "host") is not None and "port" in attributes
    if not has_address and "node-urls" not in attributes:
        raise pipe_error(NO_NODES)
    path = attributes.text("path", default=ALL_SERIES)
    iotdb_pattern(path)
    start, end = (bound_of(attributes, (f"{name}-time",), timezone) for name in ("start", "end"))
    if start is not None and end is not None and start.is_written == end.is_written and start.value > end.value:
        raise pipe_error("source.start-time should be less than or equal to source.end-time.")
    mode = attributes.choice("mode", options=(*LIVE, *SNAPSHOT), default="live")
    return SessionOptions(
        nodes=read_nodes(attributes),
        user=attributes.text("user", "username", default="root"),
        password=attributes.text("password", default="root"),
        path=path,
        start=start,
        end=end,
        is_snapshot=mode in SNAPSHOT,
        poll_ms=whole_number(attributes, "poll-interval-ms", least=1, default=POLL_MS),
        overlap_ms=whole_number(attributes, "overlap-ms", least=0, default=0),
        has_tls=read_tls(attributes),
        trust_store=attributes.text("ssl.trust-store-path"),
        trust_store_password=attributes.text("ssl.trust-store-pwd"),
    )


def whole_number(attributes: PipeAttributes, key: str, *, least: int, default: int) -> int:
    number = attributes.integer(key, default=default)
    if number < least:
        raise pipe_error(f"source.{key} must be at least {least}, but got {number}")
    return number


def read_tls(attributes: PipeAttributes) -> bool:
    """Return whether connections are encrypted."""
    is_enabled = attributes.boolean("ssl.enable", default=False)
    if is_enabled and not ("ssl.trust-store-path" in attributes and "ssl.trust-store-pwd" in attributes):
        raise pipe_error(
            "When ssl transport is enabled, source.ssl.trust-store-path and source.ssl.trust-store-pwd must be specified"
        )
    return is_enabled
