"""The sinks that send to IoTDB by the RPC of its pipes: iotdb-thrift-sink, its synchronous and asynchronous names, and with TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.pipes.attributes import PipeAttributes
from headrace.pipes.plugins import PipeContext, Sink
from headrace.pipes.sinks.iotdb_thrift_options import read_options, validate

if TYPE_CHECKING:
    from headrace.pipes.iotdb.receiver import ThriftSink

__all__ = ["create", "validate"]
DEFAULT_TIMEOUT_MS: Final = 60_000


def create(attributes: PipeAttributes, pipe: PipeContext) -> Sink:
    """Return the sink, whose time limit is that of the settings."""
    rejected_since = None if pipe.shared is None else pipe.shared.rejected_since
    return sink(attributes, pipe.context.settings.pipe_sink_timeout_ms, rejected_since)


def sink(
    attributes: PipeAttributes, timeout_ms: int = DEFAULT_TIMEOUT_MS, rejected_since: dict[str, float] | None = None
) -> ThriftSink:
    """Return the sink. The modules of the RPC are imported only now."""
    from headrace.pipes.iotdb.receiver import ThriftSink

    return ThriftSink(read_options(attributes), timeout_ms, rejected_since)
